package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestJSONIsPrinted runs each command that docs/scripting.md says prints JSON. Standard output has one JSON value, and
// nothing else.
func TestJSONIsPrinted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/scripting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## JSON\n")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
		for command := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(command, "`"))
		}
	}
	if len(documented) != 7 {
		t.Fatalf("the page has %q, want 7 commands", documented)
	}

	dir := pagesOfARun(t)
	for _, command := range documented {
		line := strings.NewReplacer("[ID]", "out", "RUN", "r0-0 out", "limits --json", "limits out --json", "report", "report out", "estimate", "estimate eval.yaml").Replace(command)
		p := launch(t, dir, strings.Fields(line)...)
		if code := p.wait(); code != 0 {
			t.Errorf("%s ended with %d: %s", line, code, p.stderr.String())
			continue
		}
		values := json.NewDecoder(strings.NewReader(p.stdout.String()))
		var value any
		if err := values.Decode(&value); err != nil {
			t.Errorf("%s prints %.200q: %v", line, p.stdout.String(), err)
		}
		if err := values.Decode(&value); err != io.EOF {
			t.Errorf("%s prints more than one JSON value: %v", line, err)
		}
	}

	// What is printed of a report is its file.
	p := launch(t, dir, "report", "out", "--format", "json")
	p.wait()
	written, err := os.ReadFile(filepath.Join(dir, "out", "report.json"))
	if err != nil || !bytes.Equal(written, []byte(p.stdout.String())) {
		t.Errorf("report --format json prints something else than report.json: %v", err)
	}
	both := launch(t, dir, "report", "out", "--format", "json,md")
	if both.wait(); json.Valid([]byte(both.stdout.String())) || !strings.Contains(both.stdout.String(), "report.md") {
		t.Errorf("report --format json,md prints no summary: %.300q", both.stdout.String())
	}
}
