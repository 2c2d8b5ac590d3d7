package outdir

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Calls that a killed run had begun are known to the next one, without those that the results
// store has by then, whatever the end of the file looks like.
func TestBegunOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), BegunFile)
	now := time.Now().Truncate(time.Millisecond)
	open := func(stored ...string) *CallLog {
		t.Helper()
		b, err := OpenBegun(t.Context(), path, true, func(_ context.Context, id eval.ID, calls []string) (found []string, err error) {
			for _, call := range calls {
				for _, name := range stored {
					if string(id)+"."+call == name {
						found = append(found, call)
					}
				}
			}
			return found, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := func(b *CallLog, want map[string]int64, without ...string) {
		t.Helper()
		if diff := cmp.Diff(want, b.Between(now.Add(-time.Hour), now.Add(time.Second), without)); diff != "" {
			t.Errorf("calls begun (-want +got):\n%s", diff)
		}
	}

	killed := open()
	for i, at := range []time.Duration{-72 * time.Hour, -2 * time.Hour, -time.Minute, 0, 0, time.Minute} {
		killed.Note(observe.Begun{Call: "ev-a.0.1-" + string(rune('a'+i)), Target: "p:m", At: now.Add(at)})
	}
	killed.Note(observe.Begun{Call: "ev-b.0.1-x", Target: "q:m", At: now.Add(-time.Second)})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A process that was killed while it shortened the file, and one while it wrote a line.
	torn := append(append(text, text[len(text)-40:]...), "1234 ev-a.0.9-q"...)
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}

	next := open("ev-a.0.1-d")
	if !next.Last().Equal(now.Add(time.Minute)) {
		t.Errorf("the last call began at %s, want %s", next.Last(), now.Add(time.Minute))
	}
	want(next, map[string]int64{"p:m": 2, "q:m": 1})
	want(next, map[string]int64{"p:m": 1, "q:m": 1}, "ev-a.0.1-c")
	next.Note(observe.Begun{Call: "ev-b.0.2-y", Target: "q:m", At: now})
	want(next, map[string]int64{"p:m": 2, "q:m": 1}) // its own are in the limiter
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}

	third := open("ev-a.0.1-c", "ev-a.0.1-d")
	want(third, map[string]int64{"p:m": 1, "q:m": 2})
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
}

// Without daily quotas only the time of the last call is kept, at the same length.
func TestBegunKeepsTheLastCall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), BegunFile)
	b, err := OpenBegun(t.Context(), path, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Last().IsZero() {
		t.Errorf("the last call of a new folder began at %s", b.Last())
	}
	now := time.Now().Truncate(time.Millisecond)
	for _, at := range []time.Time{now.Add(-time.Second), now, now.Add(-time.Minute)} {
		b.Note(observe.Begun{Call: "ev-a.0.1-a", Target: "p:m", At: at})
	}
	if text, err := os.ReadFile(path); err != nil || len(text) != len(lastLine(now)) {
		t.Errorf("the file is %q, %v; want one line", text, err)
	}
	again, err := OpenBegun(t.Context(), path, false, nil)
	if err != nil || !again.Last().Equal(now) {
		t.Errorf("the last call began at %v, %v; want %s", again, err, now)
	}
}
