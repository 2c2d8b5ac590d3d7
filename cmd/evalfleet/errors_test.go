package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want exit
	}{
		{"nothing", nil, 0},
		{"given", failure.With(failure.RunsFailed, errors.New("3 runs failed")), 1},
		{"given and wrapped", fmt.Errorf("run: %w", failure.With(failure.Interrupted, errors.New("resume with …"))), 130},
		{"given over what can be told", failure.With(failure.Unavailable, context.Canceled), 3},
		{"command line", usageError("no flag"), 2},
		{"problems", config.Problems{{Message: "wrong"}}, 2},
		{"cancelled", fmt.Errorf("drain: %w", context.Canceled), 130},
		{"disk full", &fs.PathError{Op: "write", Path: "results.db", Err: syscall.ENOSPC}, 3},
		{"not writable", &fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}, 2},
		{"read-only", &os.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, 2},
		{"missing", os.ErrNotExist, 2},
		{"unreachable", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, 3},
		{"unforeseen", errors.New("?"), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := codeOf(c.err); got != c.want {
				t.Errorf("codeOf(%v) = %d, want %d", c.err, got, c.want)
			}
		})
	}
	if failure.With(failure.Usage, nil) != nil {
		t.Error("an error without a cause is one")
	}
}

// A report of an evaluation whose results are not here says where they were looked for once, why
// not, and how to bring them.
func TestReportWithoutResultsSaysSoOnce(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t).URL()
	dir := tree(t, map[string]string{"docs/a.md": "A.", "docs/b.md": "B.", "good.yaml": goodFile})
	_, stdout, _ := evalfleet(t, nil, "enqueue", filepath.Join(dir, "good.yaml"), "--redis", redis)
	id, out := strings.TrimSpace(stdout), filepath.Join(dir, "out")
	code, _, stderr := evalfleet(t, nil, "report", id, "--redis", redis, "--out-dir", out)
	for words, times := range map[string]int{out: 1, "no such file": 1, "evalfleet collect " + id: 1} {
		if got := strings.Count(stderr, words); got != times || code != int(exitUnreachable) {
			t.Errorf("report ended with %d and says %q %d times, want %d: %s", code, words, got, times, stderr)
		}
	}
}

// Errors of packages that read no command line get the flag that helps, also when they are
// wrapped.
func TestMessageNamesTheFlagThatHelps(t *testing.T) {
	t.Parallel()
	onlyAnswers := tree(t, map[string]string{"answers/resume.json": "{}"})
	for _, c := range []struct {
		err  error
		want string
	}{
		{fleet.ErrForeignStore, "--allow-sink"},
		{fleet.ErrElsewhere, "--out-dir"},
		{&outdir.NoRunError{Dir: "out"}, "start one with `evalfleet run FILE --out-dir out`"},
		{&outdir.NoRunError{Dir: onlyAnswers}, "not judged yet; go on with the same `evalfleet run FILE --out-dir " + onlyAnswers},
		{fleet.ErrNoClasses, "--class"},
		{&fleet.LostError{Dir: "out dir", Err: results.ErrNoEvaluation}, "--out-dir 'out dir'"},
		{&collect.UnpricedError{Calls: 3}, "--again"},
		{results.ErrOtherStore, ""},
	} {
		got := message(failure.With(failure.Usage, fmt.Errorf("ev-1: %w", c.err)))
		if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "--") {
			t.Errorf("%v: got %q, want %q in it", c.err, got, c.want)
		}
	}
}

// What is said about another tool's command names a command that is there.
func TestOtherCommandsHaveAnAnswer(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, command := range appOf(&process{}).Commands {
		for _, name := range command.Names() {
			known[name] = true
		}
	}
	for other, answer := range otherCommands {
		if known[other] {
			t.Errorf("%s is a command of evalfleet", other)
		}
		names := strings.Split(answer, "evalfleet ")[1:]
		if len(names) == 0 {
			t.Errorf("%s: %s: it names no command", other, answer)
		}
		for _, rest := range names {
			if name, _, _ := strings.Cut(rest, " "); !known[name] {
				t.Errorf("%s: %s: there is no command %s", other, answer, name)
			}
		}
	}
}
