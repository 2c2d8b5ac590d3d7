//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
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

// A run that is interrupted leaves a manifest of its list: what ended, with the paths of
// the answers, and what was being asked or never begun.
func TestInterruptedRunLeavesAManifest(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: map[string]simulator.Model{
		"quick": {}, "hung": {Behaviour: &simulator.Behaviour{HangRate: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	settings := fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", server.URL+"/v1")
	dir := tree(t, runFiles("fleet.yaml", settings+calm, "eval.yaml", `provider: simulator
grounding: off
reasoning: off
concurrency: {max_concurrency: 1}
runs:
- {id: ended, model: quick, file_a: a.md, file_b: b.md, out: answers/one.md}
- {id: asked, model: hung, file_a: a.md, file_b: b.md}
- {id: waits, model: hung, file_a: b.md, file_b: b.md}
`))

	p := launch(t, dir, "run", "eval.yaml", "--config", "fleet.yaml", "--out-dir", "out")
	testrun.EventuallyGot(t, "the second run is being asked", func() (string, bool) {
		got := server.Stats().All.Arrived
		_, err := os.Stat(filepath.Join(dir, "answers/one.md"))
		return fmt.Sprintf("%d requests, %v", got, err), got == 2 && err == nil
	})
	p.signal(syscall.SIGINT)
	testrun.EventuallyGot(t, "it waits for its call", func() (string, bool) {
		said := p.stderr.String()
		return said, strings.Contains(said, "press Ctrl-C again")
	})
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != int(exitInterrupted) {
		t.Errorf("it ended with %d, want %d", code, exitInterrupted)
	}

	text, err := os.ReadFile(filepath.Join(dir, "out", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Finished *string `json:"finished_at"`
		Runs     []struct {
			RunID, Status, Path string
		}
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"run_id"`, `"RunID"`)), &manifest); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(manifest.Runs), "[{ended succeeded answers/one.md} {asked none } {waits none }]"; got != want || manifest.Finished != nil {
		t.Errorf("the manifest lists %s, want %s, of an evaluation without an end", got, want)
	}
}
