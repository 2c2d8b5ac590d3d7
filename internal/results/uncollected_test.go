package results

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

func TestUncollectedFindsOneRun(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{
		"redis":    redistest.New(t).Client(),
		"embedded": redis.NewClient(redistest.Patient(&redis.Options{Addr: miniredis.RunT(t).Addr()})),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			const id = eval.ID("ev-abcdefgh2345")
			last := verdict(2*batchEntries + 1) // on the third page
			early := call(1, last.Run.Index, 0, 2, func(c *record.Call) { c.Class = "timeout" })
			entries := append([]record.Entry{{Calls: []record.Call{early}}}, verdicts(2*batchEntries)...)
			publish(t, client, id, append(entries, last)...)
			got, err := Uncollected(ctx, client, keys, eval.RunID{Evaluation: id, Phase: 1, Index: last.Run.Index})
			want := record.Entry{Run: last.Run, Calls: append([]record.Call{early}, last.Calls...)}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("got %v (-want +got):\n%s", err, diff)
			}
			for _, nowhere := range []eval.RunID{{Evaluation: id, Phase: 0, Index: 1}, {Evaluation: "ev-other", Phase: 1, Index: 1}} {
				if got, err := Uncollected(ctx, client, keys, nowhere); got.Run != nil || got.Calls != nil || err != nil {
					t.Errorf("run %s: got %+v, %v; want nothing", nowhere, got, err)
				}
			}
			wantWaiting(t, client, id, 2*batchEntries+2)
		})
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
