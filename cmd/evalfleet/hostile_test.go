package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/simulator"
)

// unchanged fails unless files of a folder have what they had.
func unchanged(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
}

// A folder that another person made names answer files in the working folder of who
// reports on it. They are written into the received folder instead.
func TestReportOnAReceivedFolderWritesNothingElsewhere(t *testing.T) {
	t.Parallel()
	mine := map[string]string{".git/config": "[core]", "Makefile": "all:", "data/kept.txt": "kept"}
	dir := tree(t, mine)
	received := filepath.Join(dir, "received")
	if err := os.Mkdir(received, 0o755); err != nil {
		t.Fatal(err)
	}
	db, _ := listedRuns(t, filepath.Join(received, outdir.ResultsFile), map[string]string{
		"a/b": ".git/config", "a_b": "Makefile", "r3": "new.md",
	}, "a/b", "a_b", "r3", "r4", "fails")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	report := launch(t, dir, "report", "received")
	if code := report.wait(); code != int(exitOK) {
		t.Fatalf("report ended with %d", code)
	}
	unchanged(t, dir, mine)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("the working folder has %v, %v; want nothing new", left, err)
	}
	for file, answer := range map[string]string{
		"input.m.a_b.fpf.response.md": "Answer of a/b", "input.m.a_b.1.fpf.response.md": "Answer of a_b", "input.m.r3.fpf.response.md": "Answer of r3",
	} {
		unchanged(t, received, map[string]string{file: answer})
		if !strings.Contains(report.stdout.String(), filepath.Join("received", file)) {
			t.Errorf("the report does not name %s", file)
		}
	}
}

// Files of a received folder that are read whole have a bound.
func TestHugeFilesInAReceivedFolderAreRefused(t *testing.T) {
	t.Parallel()
	dir := tree(t, runFiles("eval.yaml", "provider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: a.md, file_b: b.md}]\n"))
	if code := launch(t, dir, "run", "eval.yaml", "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	for _, name := range []string{outdir.ResumeFile, outdir.SpentFile, embedded.AddressFile} {
		path := filepath.Join(dir, "out", name)
		kept, _ := os.ReadFile(path)
		if err := errors.Join(os.WriteFile(path, kept, 0o600), os.Truncate(path, 80<<20)); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"resume"}, {"report"}, {"pause"}, {"ui", "--listen", "256.0.0.0:0"}} {
			p := launch(t, dir, append([]string{command[0], "out"}, command[1:]...)...)
			if code := p.wait(); code != int(exitUsage) || !strings.Contains(p.stderr.String(), name+" is too large") {
				t.Errorf("%s with a large %s ended with %d: %s", command[0], name, code, tail(p.stderr.String()))
			}
		}
		err := os.Remove(path)
		if kept != nil {
			err = os.WriteFile(path, kept, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// stranger listens where a hostile file sends keys and passwords, and counts who comes.
func stranger(t *testing.T) (address string, met *atomic.Int32) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	met = new(atomic.Int32)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			met.Add(1)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return listener.Addr().String(), met
}

// tamper changes the resume.json of a folder, as its sender may.
func tamper(t *testing.T, dir string, change func(map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, outdir.ResumeFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var saved map[string]any
	if err := json.Unmarshal(raw, &saved); err != nil {
		t.Fatal(err)
	}
	change(saved)
	if raw, err = json.Marshal(saved); err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A changed resume.json sends no key elsewhere and does not name a file outside
// its folder. With the reader's own addresses the folder can be resumed.
func TestResumeOfAReceivedFolderUsesOwnAddresses(t *testing.T) {
	t.Parallel()
	evil, met := stranger(t)
	dir := tree(t, runFiles("secret", "my secret", "eval.yaml", "provider: openai\nmodel: gpt-5-mini\n"+
		"grounding: off\nreasoning: off\nretry: {max_attempts: 1}\nruns: [{id: r1, file_a: a.md, file_b: b.md, out: answer.md}]\n",
		"dead.yaml", "providers: {openai: {base_url: \"http://127.0.0.1:1/v1\"}}\n"))
	_, live, keys := simulated(t, simulator.Config{})
	keys["MY_SECRET"] = "planted-secret"
	if err := os.WriteFile(filepath.Join(dir, "live.yaml"), []byte(live), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(args ...string) (*program, int) {
		var env []string
		for name, value := range keys {
			env = append(env, name+"="+value)
		}
		p := launchWith(t, dir, env, args...)
		return p, p.wait()
	}
	if p, code := in("run", "eval.yaml", "--config", "dead.yaml", "--out-dir", "out"); code != int(exitRunsFailed) {
		t.Fatalf("run ended with %d, want a failed run:\n%s", code, p.stderr.String())
	}
	tamper(t, filepath.Join(dir, "out"), func(saved map[string]any) {
		openai := saved["providers"].(map[string]any)["openai"].(map[string]any)
		openai["base_url"], openai["api_key_env"] = "http://"+evil+"/v1", "MY_SECRET"
		saved["outs"] = map[string]string{"r1": "secret"}
		saved["out"], saved["input"] = filepath.Join(dir, "new.md"), filepath.Join(dir, "secret")
	})
	p, code := in("retry", "out")
	if code != int(exitUsage) || !strings.Contains(p.stderr.String(), evil) || !strings.Contains(p.stderr.String(), "MY_SECRET") {
		t.Errorf("retry ended with %d, want %d and what differs", code, exitUsage)
	}
	if p, code = in("retry", "out", "--config", "live.yaml"); code != 0 {
		t.Errorf("retry with own addresses ended with %d:\n%s", code, p.stderr.String())
	}
	answersIn(t, dir, p.stdout.String())
	unchanged(t, dir, map[string]string{"secret": "my secret"})
	for _, name := range []string{"new.md", "answer.md"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was written outside of the folder", name)
		}
	}
	if n := met.Load(); n > 0 {
		t.Errorf("the stranger's server was called %d times", n)
	}
}

// A received folder opens no database and no Redis but those of the reader.
func TestReceivedFolderOpensNoDatabase(t *testing.T) {
	t.Parallel()
	evil, met := stranger(t)
	dir := tree(t, runFiles("eval.yaml", "provider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: a.md, file_b: b.md}]\n"))
	if code := launch(t, dir, "run", "eval.yaml", "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	out := filepath.Join(dir, "out")
	if err := os.Rename(filepath.Join(out, outdir.ResultsFile), filepath.Join(dir, "mine.db")); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"postgres://ann@" + evil + "/evals", filepath.Join(dir, "mine.db")} {
		tamper(t, out, func(saved map[string]any) { saved["sink"] = url })
		for _, command := range []string{"status", "show 0.0", "limits", "report", "resume", "migrate"} {
			args := append(strings.Fields(command), "out")
			p := launchWith(t, dir, []string{"PGPASSWORD=planted-password"}, args...)
			if code := p.wait(); code != int(exitUsage) || !strings.Contains(p.stderr.String(), "was not written by one of your runs") {
				t.Errorf("%s with results in %s ended with %d:\n%s", command, url, code, p.stderr.String())
			}
		}
	}
	if err := os.Rename(filepath.Join(dir, "mine.db"), filepath.Join(out, outdir.ResultsFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, embedded.AddressFile), []byte("redis://"+strings.Replace(evil, "127.0.0.1", "localhost", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := launch(t, dir, "status", "out").wait(); code != 0 {
		t.Errorf("status beside a foreign address ended with %d", code)
	}
	if n := met.Load(); n > 0 {
		t.Errorf("the stranger's server was called %d times", n)
	}
}
