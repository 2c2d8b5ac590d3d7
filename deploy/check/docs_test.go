package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	// Where a service, a file or a workload is named.
	serviceIn  = regexp.MustCompile(`docker compose (?:(?:exec|run --rm|logs --follow) (\w+)|cp (\w+):|.*--scale (\w+)=|.*--profile (\w+))`)
	fileIn     = regexp.MustCompile(` -[fk] (\S+)`)
	workloadIn = regexp.MustCompile(`\b(?:job|deployment|service)/(\w+)`)
	programIn  = regexp.MustCompile(`(?:exec \S+|--) evalfleet (.*)`)
)

// Every docker and kubectl line of docs/fleet.md names services, files and
// workloads that there are, and puts command lines to the program that it
// knows. Lines of evalfleet itself are carried out by the program's own tests.
func TestDocs(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for name := range project(t).Services {
		known["service "+name] = true
	}
	for name := range workloads(manifests(t)) {
		known["workload "+name] = true
	}
	checked := 0
	for _, block := range shell.FindAllStringSubmatch(read(t, "docs/fleet.md"), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if !strings.Contains(line, "docker ") && !strings.Contains(line, "kubectl ") {
				continue
			}
			checked++
			for _, m := range serviceIn.FindAllStringSubmatch(line, -1) {
				if name := strings.Join(m[1:], ""); !known["service "+name] {
					t.Errorf("%q names the service %s, which is not there", line, name)
				}
			}
			for _, m := range workloadIn.FindAllStringSubmatch(line, -1) {
				if !known["workload "+m[1]] {
					t.Errorf("%q names %s, which is not there", line, m[0])
				}
			}
			for _, m := range fileIn.FindAllStringSubmatch(line, -1) {
				if !exists(root, m[1]) {
					t.Errorf("%q names the file %s, which is not there", line, m[1])
				}
			}
			if m := programIn.FindStringSubmatch(line); m != nil {
				wantCommand(t, slices.Collect(strings.FieldsSeq(m[1])), nil)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d lines of docker and kubectl on the page, want those of compose and Kubernetes", checked)
	}
}
