package call

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// TestCancelledAfterTheClockWasSetBack: a batch that was submitted by a clock that was ahead is recorded as one that ended
// when it began.
func TestCancelledAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC()
	for name, began := range map[string]time.Time{"before": at.Add(-time.Hour), "after": at.Add(time.Hour)} {
		got := cancelled(record.Job{Call: record.Call{Asked: began, Started: began}}, at)
		if got.Ended != at || got.Started.After(at) || got.Asked.After(got.Started) || began.Before(at) && got.Started != began {
			t.Errorf("%s its end: asked %s, started %s, ended %s", name, got.Asked, got.Started, got.Ended)
		}
	}
	cached := record.Call{Asked: at, Ended: at}
	if inOrder(&cached); cached.Asked != at {
		t.Errorf("a cached call was asked for at %s, want %s", cached.Asked, at)
	}
}
