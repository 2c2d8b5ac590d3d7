//go:build unix

package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(script string) Program {
	return Program{Words: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Time: time.Hour}
}

// TestProgramsJudgeTexts: a text passes if the program exits with 0, and otherwise the program's own words say why.
func TestProgramsJudgeTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script, text, said string
		passed             bool
	}{
		{`grep -q yes`, "oh yes\n", "", true},
		{`grep -q yes`, "no", "exit status 1", false},
		{`exit 0`, strings.Repeat("unread ", 1<<20), "", true},
		{`echo "  too long  "; echo more; exit 3`, "", "too long", false},
		{`echo first >&2; echo "AssertionError: 3" >&2; exit 1`, "", "AssertionError: 3", false},
		{`kill -SEGV $$`, "", "signal: segmentation fault", false},
		{`while true; do echo filled; done & sleep 0.1; kill $!; exit 1`, "", "filled", false},
		{`yes 2>&1 | head -c 1000000 >&2; echo last >&2; exit 1`, "", "last", false},
	} {
		said, passed, err := shell(c.script).Run(t.Context(), c.text)
		if said != c.said && !strings.HasPrefix(said, c.said+" (") || passed != c.passed || err != nil {
			t.Errorf("%s: %q, %v, %v; want %q, %v", c.script, said, passed, err, c.said, c.passed)
		}
	}
}

// TestOutputIsBounded: of what a program writes, only a bounded part is kept.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	var first, last kept
	last.last = true
	for range 100 {
		for _, k := range []*kept{&first, &last} {
			if n, err := k.Write([]byte(strings.Repeat("x", 1000))); n != 1000 || err != nil {
				t.Fatalf("%d bytes are taken: %v", n, err)
			}
		}
	}
	_, _ = last.Write([]byte("end"))
	if first.Len() > mostKept || last.Len() > mostKept || !strings.HasSuffix(last.String(), "end") {
		t.Errorf("%d and %d bytes are kept, want at most %d, with the end", first.Len(), last.Len(), mostKept)
	}
}

// TestProgramsThatCannotRun: a program that does not start is an error, and no text fails because of it.
func TestProgramsThatCannotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{"no-such-program": "not found", "./none": "no such file", "./data": "permission denied"} {
		_, passed, err := Program{Words: []string{word}, Dir: dir}.Run(t.Context(), "")
		if passed || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", word, passed, err, want)
		}
	}
}

// TestProgramsEndWithTheirChildren: a program that takes too long, or whose user presses Ctrl-C, is killed together with
// what it has started.
func TestProgramsEndWithTheirChildren(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		program := shell(`sleep 1000 & echo $! > child.new; mv child.new child; wait`)
		program.Dir = dir
		if !interrupted {
			program.Time = 2 * time.Second
		}

		child := 0
		started := make(chan struct{})
		go func() {
			defer close(started)
			for child == 0 && ctx.Err() == nil {
				raw, _ := os.ReadFile(filepath.Join(dir, "child"))
				child, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
				time.Sleep(time.Millisecond)
			}
			if interrupted {
				cancel()
			}
		}()
		said, passed, err := program.Run(ctx, "text")
		cancel() // a busy machine may not have started the child in time
		<-started

		if interrupted != errors.Is(err, context.Canceled) || passed || !interrupted && said != "it took longer than 2s" {
			t.Errorf("interrupted %v: %q, %v, %v", interrupted, said, passed, err)
		}
		if child != 0 {
			testrun.Eventually(t, "the program's child ends", func() bool { return syscall.Kill(child, 0) != nil || isZombie(child) })
		}
	}
}

// isZombie reports whether a process has ended and waits for its parent, which in a container may never ask.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(after, "Z")
}

// TestProgramsGetNoKeys: a program reads texts of models, and gets no key or password of its user's.
func TestProgramsGetNoKeys(t *testing.T) {
	t.Parallel()
	got := Environment([]string{
		"PATH=/bin", "LANG=C", "OPENAI_API_KEY=1", "HF_TOKEN=1", "AWS_SECRET_ACCESS_KEY=1", "PGPASSWORD=1", "REDIS_URL=redis://h",
		"EVALFLEET_SINK=x", "LOCAL=1", "proxy=http://u:p@h:1", "SITE=https://example.org",
	}, "LOCAL")
	if joined := strings.Join(got, " "); joined != "PATH=/bin LANG=C SITE=https://example.org" {
		t.Errorf("a program gets %s", joined)
	}
	said, _, err := Program{Words: []string{"sh", "-c", `echo "$HOME,"; exit 1`}, Env: []string{"PATH=" + os.Getenv("PATH")}, Time: time.Hour}.
		Run(t.Context(), "")
	if said != "," || err != nil {
		t.Errorf("the program's environment has HOME %q, which it was not given: %v", said, err)
	}
}
