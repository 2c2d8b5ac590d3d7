//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/fleet/remote"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/web"
)

// served is a fleet whose controller takes evaluations over HTTP; url is that of its
// pages. The folder tmp in f.dir is the controller's alone for temporary files.
func served(t *testing.T, flags ...string) (f *testFleet, url string) {
	t.Helper()
	f = newFleetWith(t, "--latency", "10ms")
	f.writeCalm(fmt.Sprintf("providers: {local: {dialect: chat, base_url: %q}}\n", f.provider+"/v1"))
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	temporary := filepath.Join(f.dir, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	controller := exec.Command(path, append([]string{"controller", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--listen", "127.0.0.1:0", "--allow-actions"}, flags...)...)
	controller.Env = []string{"TMPDIR=" + temporary}
	return f, start(t, f.dir, controller).line()
}

// essays writes an evaluation of three documents, each of some bytes, into a folder, and
// returns its file.
func essays(t *testing.T, dir, name string, bytes int) string {
	t.Helper()
	folder := filepath.Join(dir, name)
	for file, text := range map[string]string{
		// The provider is one that only the fleet's --config knows.
		"evaluation.yaml": "documents: [\"docs/*.md\"]\njudges: [\"local:careful\"]\npairwise: {template: ask.txt}\n",
		"ask.txt":         "Which is better?\n[[documents]]\n[[answer_format]]\n",
		"docs/a.md":       name + strings.Repeat(" a", bytes/2),
		"docs/b.md":       name + strings.Repeat(" b", bytes/2),
		"docs/c.md":       name + strings.Repeat(" c", bytes/2),
		"notes.md":        "This file is no part of the evaluation.",
	} {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "evaluation.yaml")
}

// An evaluation submitted over HTTP is the same as one submitted to Redis: it has the
// same id, and submitting it again says what became of it. With --wait, its files are downloaded.
func TestEnqueueToAServer(t *testing.T) {
	t.Parallel()
	f, url := served(t)
	file := essays(t, f.dir, "essays", 100)
	f.startWorkers(1)
	sent := f.do(exitOK, "enqueue", file, "--server", url, "--wait", "--out-dir", "got")
	id := strings.TrimSpace(sent.stdout.String())
	for _, want := range []string{" first", "\nTrust ", "\nReport   " + filepath.Join("got", "report.html") + "\n"} {
		if !strings.Contains(sent.stderr.String(), want) {
			t.Errorf("after the wait, no %q in\n%s", want, sent.stderr.String())
		}
	}
	if again := f.do(exitOK, "enqueue", file, "--server", url); strings.TrimSpace(again.stdout.String()) != id || !strings.Contains(again.stderr.String(), "already there, and done: 6 runs") {
		t.Errorf("submitted again: %s%s, want %s, done", again.stdout.String(), again.stderr.String(), id)
	}
	if direct := f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml"); strings.TrimSpace(direct.stdout.String()) != id {
		t.Errorf("submitted to Redis: %s, want %s", direct.stdout.String(), id)
	}
	if other := f.do(exitOK, "enqueue", file, "--server", url, "--again", "second"); strings.TrimSpace(other.stdout.String()) == id {
		t.Errorf("--again submitted %s once more, want another evaluation", id)
	}
	rows, err := os.ReadFile(filepath.Join(f.dir, "got", "pairwise_results.csv"))
	if err != nil || strings.Count(string(rows), "\n") != 7 {
		t.Errorf("pairwise_results.csv: %v; want a header and 6 verdicts:\n%s", err, rows)
	}
	var manifest struct{ Evaluation string }
	text, err := os.ReadFile(filepath.Join(f.dir, "got", "manifest.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil {
		t.Errorf("manifest.json: %v\n%s", err, text)
	}
	for _, name := range []string{"report.html", "report.json", "ranking.csv", "elo_summary.jsonl"} {
		if info, err := os.Stat(filepath.Join(f.dir, "got", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file that is not empty", name, err)
		}
	}
	// Each upload is removed before its answer.
	if left, err := os.ReadDir(filepath.Join(f.dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("the controller's folder for temporary files: got %v, %v; want it empty", left, err)
	}
}

// Several files of answers, as `run` takes them, are one evaluation on a server, too.
func TestEnqueueAnswersToAServer(t *testing.T) {
	t.Parallel()
	f, url := served(t)
	for _, model := range []string{"gpt", "claude", "left-out"} {
		text := fmt.Sprintf("{\"question\": \"Why?\", \"answer\": \"Because %s.\"}\n", model)
		if err := os.WriteFile(filepath.Join(f.dir, model+".jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"enqueue", "gpt.jsonl", "claude.jsonl", "--judge", "local:careful"}
	sent := f.do(exitOK, append(args, "--server", url)...)
	direct := f.onFleet(exitOK, append(args, "--config", "fleet.yaml")...)
	if !strings.Contains(sent.stderr.String(), "enqueued: 2 runs") || sent.stdout.String() != direct.stdout.String() ||
		!strings.Contains(direct.stderr.String(), "already in Redis") {
		t.Errorf("sent: %s%s\nsubmitted to Redis: %s%s", sent.stderr.String(), sent.stdout.String(), direct.stderr.String(), direct.stdout.String())
	}
}

// Several evaluation files are submitted one by one, each with its result and its own folder. One that is wrong does not
// keep the others from being submitted, is named once, and the exit code is its.
func TestEnqueueSeveralToAServer(t *testing.T) {
	t.Parallel()
	f, url := served(t)
	first, last := essays(t, f.dir, "first", 100), essays(t, f.dir, "last", 100)
	wrong := filepath.Join(f.dir, "first", "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("documents: [\"docs/*.md\"]\njudgs: [\"local:careful\"]\npairwise: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(f.dir, "none.yaml")
	sent := f.do(exitUsage, "enqueue", first, wrong, none, last, "--server", url)
	ids := strings.Fields(sent.stdout.String())
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatalf("standard output is %q, want the ids of two evaluations", sent.stdout.String())
	}
	for _, want := range []string{
		first + ": " + ids[0] + " enqueued: 6 runs on ", last + ": " + ids[1] + " enqueued: 6 runs on ",
		wrong + " was not submitted:\n", "judgs: unknown key", none + " was not submitted:\n", "no such file",
		"2 of 4 evaluations failed",
	} {
		if strings.Count(sent.stderr.String(), want) != 1 {
			t.Errorf("want %q once in\n%s", want, sent.stderr.String())
		}
	}

	f.startWorkers(1)
	waited := f.do(exitOK, "enqueue", first, last, "--server", url, "--wait", "--out-dir", "got")
	if got := strings.Fields(waited.stdout.String()); !slices.Equal(got, ids) {
		t.Errorf("with --wait, standard output has %q, want %q", got, ids)
	}
	for _, id := range ids {
		pages := filepath.Join(f.dir, "got", "*"+strings.TrimPrefix(id, "ev-")[:4]+"*", "report.html")
		if found, err := filepath.Glob(pages); err != nil || len(found) != 1 {
			t.Errorf("the report of %s: got %v, %v; want one", id, found, err)
		}
	}
	f.do(exitUnreachable, "enqueue", first, last, "--server", "http://127.0.0.1:1")
}

// What is wrong with an evaluation, or with the server, is said with place and fix.
func TestEnqueueToAServerRefuses(t *testing.T) {
	t.Parallel()
	f, url := served(t, "--max-upload-mib", "1")
	file := essays(t, f.dir, "essays", 100)
	wrong := filepath.Join(f.dir, "essays", "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("documents: [\"docs/*.md\"]\njudgs: [\"local:careful\"]\npairwise: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(f.dir, "essays", "outside.yaml")
	if err := os.WriteFile(outside, []byte("documents: [\"../../*/fleet.yaml\"]\njudges: [\"local:careful\"]\npairwise: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := essays(t, f.dir, "large", 5<<20)
	ran := filepath.Join(f.dir, "ran")
	commands := filepath.Join(f.dir, "essays", "commands.yaml")
	if err := os.WriteFile(commands, fmt.Appendf(nil, "documents: [\"docs/*.md\"]\njudges: [\"local:careful\"]\npairwise: {}\n"+
		"checks: [{command: [touch, %q]}]\n", ran), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code exit
		says string
	}{
		{[]string{wrong, "--server", url}, exitUsage, "essays/wrong.yaml:2:1: judgs: unknown key"},
		{[]string{outside, "--server", url}, exitUsage, "is not below the evaluation's folder"},
		{[]string{commands, "--server", url, "--allow-commands"}, exitUsage, "checks[0].command: a server runs no command of a file"},
		{[]string{large, "--server", url}, exitUsage, "at most 1 MiB are accepted"},
		{[]string{file, "--server", url, "--judge", "local:careful"}, exitUsage, "names its own judges"},
		{[]string{file, "--server", f.provider}, exitUsage, "does not accept evaluations"},
		{[]string{file, "--server", "evals.example.org"}, exitUsage, "want the URL"},
		{[]string{file, "--server", strings.Replace(url, "://", "://ann@", 1)}, exitUsage, remote.PasswordVariable},
		{[]string{file, "--server", "http://127.0.0.1:1"}, exitUnreachable, "connection refused"},
		{[]string{filepath.Join(f.dir, "none.yaml"), "--server", url}, exitUsage, "no such file"},
	} {
		p := f.do(c.code, append([]string{"enqueue"}, c.args...)...)
		said := p.stderr.String()
		if !strings.Contains(said, c.says) || strings.Contains(said, "evalfleet-upload-") {
			t.Errorf("enqueue %v: %s; want %q and no path of the server", c.args, said, c.says)
		}
	}
	if list := f.statuses(); len(list) != 0 {
		t.Errorf("%d evaluations are in Redis, want none", len(list))
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a command of a file that was sent to a server has run")
	}
}

// Three clients send 10 MB of documents each at once, and one of them is killed in the
// middle: its evaluation is not there at all, and the others' are whole.
func TestSubmissionsAreWholeOrNotThere(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, url := served(t)
	const bytes = 3_400_000
	cut := newTurnstile(t, strings.TrimSuffix(url, "/"))
	killed := launch(t, f.dir, "enqueue", essays(t, f.dir, "killed", bytes), "--server", cut.URL)
	f.untilHeld(cut, 1) // the request has begun, and the turnstile holds it
	var others []*program
	for i := range 3 {
		others = append(others, launch(t, f.dir, "enqueue", essays(t, f.dir, fmt.Sprint("whole", i%2), bytes), "--server", url))
	}

	killed.signal(syscall.SIGKILL)
	<-killed.ended
	testrun.Eventually(t, "the turnstile sees that the caller left", func() bool { return cut.left.Load() == 1 })
	cut.open()
	ids := map[string]bool{}
	for _, p := range others {
		if p.wait() != int(exitOK) {
			t.Fatalf("enqueue: %s", p.stderr.String())
		}
		ids[strings.TrimSpace(p.stdout.String())] = true
	}
	list := f.statuses()
	if len(ids) != 2 || len(list) != 2 {
		t.Errorf("%d evaluations were submitted and %d are in Redis, want 2: %v", len(ids), len(list), ids)
	}

	f.startWorkers(1)
	f.until("both are done", func(seen) bool {
		for _, e := range f.statuses() {
			if e.Status != record.StatusDone {
				return false
			}
		}
		return true
	})
	if got := f.stats().All.Answered; got != 12 {
		t.Errorf("%d calls were answered, want 12", got)
	}
	response, err := http.Get(url + "api/evaluations")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var overview web.Overview
	if err := json.NewDecoder(response.Body).Decode(&overview); err != nil || len(overview.Evaluations) != 2 {
		t.Errorf("the API lists %d evaluations, %v; want 2", len(overview.Evaluations), err)
	}
}
