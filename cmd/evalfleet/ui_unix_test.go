//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// get is the text of a page of a running `ui`, or what went wrong.
func get(t *testing.T, ui *program, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(testrun.Context(t), http.MethodGet, addressOf(ui)+path, nil)
	if err != nil {
		return err.Error()
	}
	return answerOf(http.DefaultClient.Do(request))
}

// post sends an empty form to a running `ui` and returns the page that it leads to.
func post(t *testing.T, ui *program, path string) string {
	t.Helper()
	return answerOf(http.PostForm(addressOf(ui)+path, nil))
}

// addressOf is the address that a running `ui` has told.
func addressOf(ui *program) string {
	address, _, _ := strings.Cut(ui.stdout.String(), "\n")
	return strings.TrimSuffix(address, "/")
}

func answerOf(response *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return response.Status + "\n" + string(raw)
}

// eventuallySays waits until a page of `ui` says all of words.
func eventuallySays(t *testing.T, ui *program, path string, words ...string) {
	t.Helper()
	ui.line() // with its address
	testrun.EventuallyGot(t, fmt.Sprintf("%s says %q", path, words), func() (string, bool) {
		text := get(t, ui, path)
		return tail(text), !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// The pages follow a run through its folder: live while it is active, from what it has recorded after it was stopped,
// and in another `ui` from the folder alone.
func TestUIFollowsARun(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, calls := newGated(t, 12)
	run := launch(t, f.dir, "run", f.file, "--config", "fleet.yaml", "--out-dir", "out")
	calls.allow(40) // and the next are held until the run is killed
	f.untilHeld(calls, fleetLimit)
	ui := launch(t, f.dir, "ui", "out", "--listen", "127.0.0.1:0", "--allow-actions")
	eventuallySays(t, ui, "/", "pairs", "active", "workers alive</a>: <b data-live=\"workers\">1<")
	eventuallySays(t, ui, "/limits", "provider simulator: 16 in flight")
	eventuallySays(t, ui, "/asynqmon/api/queues", "simulator", `"active":`)
	eventuallySays(t, ui, "/api/evaluations", `"cost": "$0`) // from the folder's results
	_, id, _ := strings.Cut(get(t, ui, "/api/evaluations"), `"evaluation": "`)
	id, _, _ = strings.Cut(id, `"`)
	for _, act := range [][2]string{{"pause", "out is paused"}, {"resume", "out is resumed"}, {"retry", "out: no run failed: nothing to retry"}} {
		if text := post(t, ui, "/evaluations/"+id+"/"+act[0]); !strings.HasPrefix(text, "200") || !strings.Contains(text, act[1]) {
			t.Errorf("after %s, the page does not say %q:\n%s", act[0], act[1], tail(text))
		}
	}

	run.signal(syscall.SIGKILL)
	run.wait()
	eventuallySays(t, ui, "/", "pairs", "interrupted")
	ui.signal(syscall.SIGINT)
	if code := ui.wait(); code != 0 {
		t.Errorf("ui ended with %d after Ctrl-C, want 0", code)
	}

	after := launch(t, f.dir, "ui", "out", "--listen", "127.0.0.1:0")
	eventuallySays(t, after, "/api/evaluations", "interrupted", `"live": false`)
	eventuallySays(t, after, "/evaluations/"+id+"/report", "200 OK", "<title>")
	if text := get(t, after, "/asynqmon/"); !strings.HasPrefix(text, "404") {
		t.Errorf("a folder alone has queues:\n%s", tail(text))
	}
}

func TestUIRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"ui", 2, "--redis"},
		{"ui " + dir, 2, "has no results"},
		{"ui --redis redis://127.0.0.1:1", 3, "is unreachable"},
		{"ui a b", 2, "one ID or folder"},
		{"ui --auth-file nobody", 2, "--auth-file: "},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			p := launch(t, dir, strings.Fields(test.args)...)
			if code := p.wait(); code != test.code || !strings.Contains(p.stderr.String(), test.says) {
				t.Errorf("ended with %d saying %q, want %d and %q", code, p.stderr.String(), test.code, test.says)
			}
		})
	}
}

// Beyond this machine, the pages' lack of a login is said, and without one no one
// may act.
func TestUIWarnsOfNoLogin(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, calm)
	ui := launch(t, f.dir, "ui", "--redis", f.redis.URL(), "--listen", "0.0.0.0:0")
	ui.line()
	testrun.EventuallyGot(t, "a missing login is told", func() (string, bool) {
		said := ui.stderr.String()
		return said, strings.Contains(said, "no login")
	})
	acting := launch(t, f.dir, "ui", "--redis", f.redis.URL(), "--listen", "0.0.0.0:0", "--allow-actions")
	if code := acting.wait(); code != 2 || !strings.Contains(acting.stderr.String(), "--auth-file") || acting.stdout.String() != "" {
		t.Errorf("actions without a login end with %d and %q, want 2 and how to name who may", code, acting.stderr.String())
	}
	taken := launch(t, f.dir, "ui", "--redis", f.redis.URL(), "--listen", strings.TrimPrefix(addressOf(ui), "http://"))
	if code := taken.wait(); code != 2 || !strings.Contains(taken.stderr.String(), "--listen") {
		t.Errorf("a taken address ends with %d and %q, want 2 and what to do", code, taken.stderr.String())
	}
}

// The pages of a folder of output folders list all their evaluations with who won, and lead to each of them.
func TestUIListsAFolderOfFolders(t *testing.T) {
	t.Parallel()
	root := twoOutputs(t)
	ui := launch(t, root, "ui", root, "--listen", "127.0.0.1:0")
	eventuallySays(t, ui, "/", "“a.md” is", "get the same verdict in both orders", "$0.00")
	list := get(t, ui, "/api/evaluations")
	ids := regexp.MustCompile(`"evaluation": "(ev-[^"]+)"`).FindAllStringSubmatch(list, -1)
	if len(ids) != 2 || strings.Count(list, `"headline"`) != 2 {
		t.Fatalf("got %d evaluations, want 2, each with a headline:\n%s", len(ids), list)
	}
	for _, id := range ids {
		for path, want := range map[string]string{"": id[1], "/report": "<title>", "/results": id[1]} {
			if text := get(t, ui, "/evaluations/"+id[1]+path); !strings.HasPrefix(text, "200") || !strings.Contains(text, want) {
				t.Errorf("%s%s: no %q in\n%s", id[1], path, want, tail(text))
			}
		}
	}
}
