package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
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
