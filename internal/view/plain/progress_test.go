package plain

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/results"
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
	if got, want := screen.String(), "essays 0/100 · held back by Redis after a start or loss of data, 8s left\n"; got != want {
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
	if got, want := p.line(), "essays 40/100 · held back by asynqmon, where queue q is paused"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}
