//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testrun"
)

// The answer and the log of a listed run are there as soon as it has ended, while
// others of its list are still being asked, and are left by a program that is killed.
func TestFilesOfListedRunsAreWrittenAsTheyEnd(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: map[string]simulator.Model{
		"quick": {}, "broken": {Behaviour: &simulator.Behaviour{FailRate: 1, FailStatus: 400}}, "hung": {Behaviour: &simulator.Behaviour{HangRate: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, c := range []struct {
		name  string
		fleet bool
	}{{"run", false}, {"enqueue --wait", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, runFiles("fleet.yaml", fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", server.URL+"/v1"),
				"eval.yaml", `provider: simulator
grounding: off
reasoning: off
runs:
- {id: last, model: hung, file_a: a.md, file_b: b.md}
- {id: named, model: quick, file_a: a.md, file_b: b.md, out: answers/one.md}
- {id: plain, model: quick, file_a: a.md, file_b: b.md}
- {id: fails, model: broken, file_a: a.md, file_b: b.md}
`))
			args := []string{"eval.yaml", "--config", "fleet.yaml", "--out-dir", "out"}
			var p *program
			if c.fleet {
				redis := []string{"--redis", redistest.NewTCP(t).URL()}
				w := launch(t, dir, append([]string{"worker", "--config", "fleet.yaml", "--metrics-addr", "off"}, redis...)...)
				defer w.signal(syscall.SIGKILL)
				p = launch(t, dir, append(append([]string{"enqueue", "--wait"}, args...), redis...)...)
			} else {
				p = launch(t, dir, append([]string{"run"}, args...)...)
			}
			for path, want := range map[string]string{
				"answers/one.md": "This is a simulated answer.", "out/b.quick.plain.fpf.response.md": "This is a simulated answer.",
				"out/logs/named.json": `"state":"succeeded"`, "out/logs/plain.json": `"state":"succeeded"`, "out/logs/fails.json": `"state":"failed"`,
			} {
				testrun.EventuallyGot(t, path+" is written", func() (string, bool) {
					text, err := os.ReadFile(filepath.Join(dir, path))
					short := strings.ReplaceAll(string(text), `": "`, `":"`)
					return fmt.Sprintf("%s, %v", short, err), strings.Contains(short, want)
				})
			}
			p.signal(syscall.SIGKILL)
			p.wait()
			if _, err := os.Stat(filepath.Join(dir, "out/logs/last.json")); err == nil {
				t.Error("there is a log of the run that has not ended")
			}
		})
	}
}
