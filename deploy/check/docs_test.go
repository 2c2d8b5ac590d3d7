package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strict "sigs.k8s.io/yaml"
)

var (
	fenced = regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```$")
	// Where a service, a file or a workload is named.
	serviceIn  = regexp.MustCompile(`docker compose (?:(?:exec|run --rm|logs --follow|restart) (\w+)|cp (\w+):|.*--scale (\w+)=|.*--profile (\w+))`)
	fileIn     = regexp.MustCompile(` (?:-[fk]|--filename|--kustomize) ([^\s-]\S*)`)
	workloadIn = regexp.MustCompile(`\b(?:job|deployment|service|statefulset)/([-\w]+)`)
	programIn  = regexp.MustCompile(`(?:exec \S+|--) evalfleet (.*)`)
	chartIn    = regexp.MustCompile(`\bhelm (?:install|upgrade|template)(?: --install)? \S+ (\S+)`)
	setIn      = regexp.MustCompile(` --set '?([^\s']+)`)
	templateIn = regexp.MustCompile(`--show-only (\S+)`)
)

// wantLines: the kubectl lines of a text name workloads that there are, and put
// command lines to the program that it knows.
func wantLines(t *testing.T, text string, c *cluster) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "kubectl ") {
			continue
		}
		for _, m := range workloadIn.FindAllStringSubmatch(line, -1) {
			service := slices.ContainsFunc(c.objects, func(o metav1.Object) bool { return o.GetName() == m[1] })
			if !service {
				t.Errorf("%q names %s, which is not there", line, m[0])
			}
		}
		if m := programIn.FindStringSubmatch(line); m != nil {
			wantCommand(t, slices.Collect(strings.FieldsSeq(m[1])), nil)
		}
	}
}

// wantHelm: a helm line names the chart and values that it takes.
func wantHelm(t *testing.T, line string) {
	t.Helper()
	m := chartIn.FindStringSubmatch(line)
	if m == nil {
		return
	}
	if strings.HasPrefix(m[1], "oci://") {
		if push := "oci://ghcr.io/evalfleet/charts"; m[1] != push+"/evalfleet" || !strings.Contains(read(t, ".github/workflows/release.yaml"), push+" ") {
			t.Errorf("%q names the chart %s, which a release does not push", line, m[1])
		}
	} else if !exists(root, m[1], "Chart.yaml") {
		t.Errorf("%q names the chart %s, which is not there", line, m[1])
	}
	for _, only := range templateIn.FindAllStringSubmatch(line, -1) {
		if !exists(root, chartDir, only[1]) {
			t.Errorf("%q names the template %s, which is not there", line, only[1])
		}
	}
	values := map[string]any{}
	for _, set := range setIn.FindAllStringSubmatch(line, -1) {
		if err := strvals.ParseInto(set[1], values); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	if strings.Contains(line, "--set-file") { // its file is the reader's
		if err := strvals.ParseInto(`enqueue.files.evaluation\.yaml=x`, values); err != nil {
			t.Fatal(err)
		}
	}
	text, err := strict.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rendered(t, string(text), "Helm"); err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

// Every docker, kubectl and helm line of the pages names existing services, files, workloads and values, and passes the
// program command lines that it knows; values shown are a fleet. Lines of evalfleet itself are run by the program's own
// tests.
func TestDocs(t *testing.T) {
	t.Parallel()
	services := map[string]bool{} // and their profiles
	for name, service := range project(t).Services {
		services[name] = true
		for _, profile := range service.Profiles {
			services[profile] = true
		}
	}
	plain := decoded(t, manifests(t))
	for page, want := range map[string]int{
		"docs/fleet.md": 12, "docs/kubernetes.md": 16, "docs/monitoring.md": 2, "docs/postgres.md": 4,
	} {
		checked := 0
		for _, block := range fenced.FindAllStringSubmatch(read(t, page), -1) {
			if block[1] == "yaml" {
				if values, ok := strings.CutPrefix(block[2], "# values.yaml"); ok {
					checked++
					files, err := rendered(t, values, "Helm")
					if err != nil {
						t.Errorf("%s: %v\n%s", page, err, values)
						continue
					}
					delete(files, "NOTES.txt")
					wantFleet(t, decoded(t, files))
				}
				continue
			}
			wantLines(t, block[2], plain)
			for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", "")) {
				line = strings.TrimSpace(line)
				if !strings.Contains(line, "docker ") && !strings.Contains(line, "kubectl ") && !strings.Contains(line, "helm ") {
					continue
				}
				checked++
				for _, m := range serviceIn.FindAllStringSubmatch(line, -1) {
					if name := strings.Join(m[1:], ""); !services[name] {
						t.Errorf("%q names the service %s, which is not there", line, name)
					}
				}
				for _, m := range fileIn.FindAllStringSubmatch(line, -1) {
					if !exists(root, m[1]) {
						t.Errorf("%q names the file %s, which is not there", line, m[1])
					}
				}
				wantHelm(t, line)
			}
		}
		if checked < want {
			t.Errorf("%s has %d lines of docker, kubectl and helm, want those of compose and Kubernetes", page, checked)
		}
	}
}

// What the pages say about containers works for an ordinary user, in the next shell as well, and puts results where git
// and the build do not look.
func TestDocsOfContainers(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	mounted, copied := 0, 0
	for _, path := range append(pages, "../../README.md", "../../docker-compose.yml") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, `--volume "$PWD`) {
				mounted++
				if !strings.Contains(line, `--user "$(id -u):$(id -g)"`) {
					t.Errorf("%s: user 65532 cannot write to the folder: %s", path, line)
				}
			}
			if strings.Contains(line, "docker compose cp controller:/data/evalfleet-out") {
				copied++
				if strings.TrimSpace(line) != "docker compose cp controller:/data/evalfleet-out ." {
					t.Errorf("%s: results are copied to another place than evalfleet-out, which git ignores: %s", path, line)
				}
			}
		}
		for _, block := range fenced.FindAllString(string(raw), -1) {
			if strings.Contains(block, "docker compose") && strings.Contains(block, "export ") {
				t.Errorf("%s: the next shell has no such variable; .env keeps it: %s", path, block)
			}
		}
	}
	if mounted < 2 || copied < 1 {
		t.Errorf("the pages mount %d folders and copy results %d times, want more", mounted, copied)
	}
	if !strings.Contains(read(t, ".gitignore"), "\nevalfleet-out/\n") || !strings.Contains(read(t, ".gitignore"), "\n/.secrets/\n") {
		t.Error("git does not ignore results and passwords")
	}
	for _, page := range []string{"docker-compose.yml", "docs/fleet.md"} {
		if !strings.Contains(read(t, page), "Compose 2.24") {
			t.Errorf("%s does not say which Compose it needs", page)
		}
	}
	least := regexp.MustCompile(`(?m)^kubeVersion: ">=(\d+\.\d+)\.`).FindStringSubmatch(read(t, chartDir+"/Chart.yaml"))
	if least == nil || !strings.Contains(read(t, "docs/kubernetes.md"), "Kubernetes "+least[1]+" or newer, and Helm 3.8 or newer") {
		t.Errorf("docs/kubernetes.md does not say which Kubernetes and Helm it needs: %v", least)
	}
	fleet := read(t, "deploy/compose/fleet.yaml")
	for _, line := range []string{"docker compose restart worker controller", "chmod a+r deploy/compose/fleet.yaml"} {
		if !strings.Contains(fleet, line) {
			t.Errorf("deploy/compose/fleet.yaml does not tell those who edit it: %s", line)
		}
	}
}

// The Secret of the providers' keys is in the environment of every worker. The .env of
// compose, which also has the passwords of its databases, is not what it is made from.
func TestKeysAreNotMadeFromComposePasswords(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, path := range append(pages, "../../README.md", "../helm/evalfleet/templates/NOTES.txt", "../helm/evalfleet/README.md") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made += strings.Count(string(raw), "--from-env-file=")
		if strings.Contains(string(raw), "--from-env-file=.env") {
			t.Errorf("%s makes a Secret from .env", path)
		}
	}
	if made < 3 {
		t.Errorf("%d commands make the Secret, want those of the page and of the chart's notes", made)
	}
}
