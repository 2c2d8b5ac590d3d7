package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
)

func TestKeptIsBounded(t *testing.T) {
	t.Parallel()
	k := New(nil, nil)
	for i := range 20 {
		o, err := store.Encode("ev-a", eval.StateSucceeded, record.Run{Index: i}, []record.Call{{Text: strings.Repeat("x", keptBytes/10)}})
		if err != nil {
			t.Fatal(err)
		}
		k.Put(o, time.Time{}, store.Entry{})
	}
	if k.bytes > keptBytes || len(k.outcomes) != 9 || k.outcomes[8].Run().Index != 19 {
		t.Errorf("%d outcomes of %d bytes are kept, want the last 9", len(k.outcomes), k.bytes)
	}
}

// An outcome is in a results store when its entry has left the stream, by the memory that has
// acknowledged it alone: the stream of another may never have had the entry.
func TestStoredByItsMemoryAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		acknowledged, now store.Memory
		want              bool
	}{
		{"m", "m", true},
		{"m", "another", false},
		{"", "m", false},
		{"", "", true}, // an embedded Redis, which ends with its process
	} {
		o := keptOutcome{entry: store.Entry{Memory: c.acknowledged}}
		if got := o.stored(store.Entry{Memory: c.now}); got != c.want {
			t.Errorf("acknowledged in memory %q and nothing waits in %q: stored is %t, want %t", c.acknowledged, c.now, got, c.want)
		}
	}
}
