package plain

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// While nothing comes, the line says why instead of a pace and a time left, and
// what was seen before does not count afterwards.
func TestProgressSaysWhyNothingComes(t *testing.T) {
	t.Parallel()
	p := &Progress{name: "essays", begun: true, counts: collect.Counts{Planned: 100, Ended: 40}}
	p.pace.Note(time.Now().Add(-10*time.Second), 0)
	if line := p.line(); !strings.Contains(line, "/s") || !strings.Contains(line, " left") {
		t.Errorf("line %q, want a pace and a time left", line)
	}
	for why, words := range map[error]string{
		fmt.Errorf("read results: %w", io.EOF):           "Redis does not answer",
		fmt.Errorf("store results: %w", results.ErrBusy): "the results database is locked",
	} {
		p.Waiting(why)
		if line, want := p.line(), "essays 40/100 · "+words; line != want {
			t.Errorf("line %q, want %q", line, want)
		}
	}
	p.Waiting(nil)
	if line, want := p.line(), "essays 40/100"; line != want {
		t.Errorf("line %q afterwards, want %q: nothing has ended since", line, want)
	}
}

// logged is a Screen that is no terminal.
type logged struct{ strings.Builder }

func (l *logged) Report(line string, _ map[string]any) { fmt.Fprintln(l, line) }
func (*logged) IsTerminal() bool                       { return false }
func (*logged) SetFoot(string)                         {}
func (*logged) Width() int                             { return 0 }

// That calls wait for Redis's memory, and for how long, is said at once, and once: it would be
// over when the next line is due.
func TestProgressSaysWhatHoldsCallsBack(t *testing.T) {
	t.Parallel()
	screen := &logged{}
	p := NewProgress(screen, record.Evaluation{Name: "essays"})
	p.Counted(collect.Counts{Planned: 100})
	for _, left := range []time.Duration{8 * time.Second, 7 * time.Second} {
		p.Held(collect.Hold{Cooldowns: []ratelimit.Cooldown{{ID: ratelimit.MemoryID, Wait: left}}})
	}
	if got, want := screen.String(), "essays 0/100 · waiting for Redis after a start or loss of data, 8s left\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	p.Held(collect.Hold{})
	if line, want := p.line(), "essays 0/100"; line != want {
		t.Errorf("line %q afterwards, want %q", line, want)
	}
}

// While no call starts there is neither a pace nor a time left, which would be of the past.
func TestProgressWithoutAPaceWhereNothingMoves(t *testing.T) {
	t.Parallel()
	p := NewProgress(&logged{}, record.Evaluation{Name: "essays"})
	p.Counted(collect.Counts{Planned: 100})
	p.Committed(nil, collect.Counts{Planned: 100, Ended: 40})
	p.Held(collect.Hold{Others: []string{"asynqmon, where queue q is paused"}, All: true})
	if got, want := p.line(), "essays 40/100 · waiting for asynqmon, where queue q is paused"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// tty is a Screen that is a terminal.
type tty struct {
	logged
	columns int
}

func (*tty) IsTerminal() bool { return true }
func (s *tty) Width() int     { return s.columns }

// verdict is an entry of a run that compared two candidates, with a call of some cost.
func verdict(first, second, winner string, usd float64) record.Entry {
	return record.Entry{
		Run: &record.Run{
			Kind: eval.KindPairwise, State: eval.StateSucceeded.String(), Winner: winner,
			Documents: []string{first, second}, Candidates: []string{first, second},
		},
		Calls: []record.Call{{Usage: providers.Usage{Reported: true, Input: 10, CostUSD: &usd}}},
	}
}

// On a terminal, progress is a bar with the share that has ended, the money so far and who leads so far. Elsewhere the
// line begins as scripts know it, and has no leader.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	entries := []record.Entry{
		verdict("good", "bad", "good", 0.5), verdict("bad", "good", "good", 0.25), verdict("lucky", "bad", "lucky", 0.25),
	}
	for _, c := range []struct {
		name string
		to   Screen
		want string
	}{
		{"a terminal", &tty{columns: 100}, "essays ███████░░░░░░░░░░░░░ 37 % 3/8 · $1.00 · “good” leads (100 % of 2) · 30 tokens"},
		{"a narrow one", &tty{columns: 60}, "essays ███░░░░░░░ 37 % 3/8 · $1.00 · “good” leads (100 % of 2)"},
		{"elsewhere", &logged{}, "essays 3/8 · 30 tokens · $1.00"},
	} {
		p := NewProgress(c.to, record.Evaluation{Name: "essays"})
		p.Counted(collect.Counts{Planned: 8})
		p.counts.Ended = 3 // without a pace, which depends on the machine
		p.pace.Restart(time.Now(), 3)
		p.Committed(entries, collect.Counts{Planned: 8, Ended: 3})
		if got := p.line(); got != c.want {
			t.Errorf("%s: got  %q\nwant %q", c.name, got, c.want)
		}
	}
}

// What earlier commands spent and found is unknown until it is read, so nothing is said about it.
func TestProgressOfAResumedEvaluationSaysNoPartAsTheWhole(t *testing.T) {
	t.Parallel()
	p := NewProgress(&tty{columns: 100}, record.Evaluation{Name: "essays"})
	p.Counted(collect.Counts{Planned: 8, Ended: 4})
	p.Committed([]record.Entry{verdict("good", "bad", "good", 0.5)}, collect.Counts{Planned: 8, Ended: 5})
	if line := p.line(); strings.Contains(line, "$") || strings.Contains(line, "leads") {
		t.Errorf("line %q tells a part of the money and of the verdicts as the whole", line)
	}
}
