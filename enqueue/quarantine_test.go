package enqueue

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Whatever is wrong with one evaluation, others are submitted, topped up and ended.
// It is said once, and the evaluation is worked on when it can be read again.
func TestUnreadableEvaluationStopsNoOther(t *testing.T) {
	t.Parallel()
	const panel = `[{"kind":"panel","runs":20,"queues":{"p":20},"judge_queues":["p"]}]`
	for name, damage := range map[string]func(b *bench, id eval.ID) (mend func()){
		"a record of a newer version": func(b *bench, id eval.ID) func() { return b.set(id, "v", "9") },
		"settings that are not JSON":  func(b *bench, id eval.ID) func() { return b.set(id, "settings", "{") },
		"a panel that is not there":   func(b *bench, id eval.ID) func() { return b.set(id, "phases", panel) },
		"paused is not JSON":          func(b *bench, id eval.ID) func() { return b.set(id, "paused", "[") },
		"cursors of another type": func(b *bench, id eval.ID) func() {
			key := b.store.Keys().Cursors(id)
			b.redis(b.store.Client().Rename(b.t.Context(), key, "kept").Err())
			b.redis(b.store.Client().Set(b.t.Context(), key, "x", 0).Err())
			return func() { b.redis(b.store.Client().Rename(b.t.Context(), "kept", key).Err()) }
		},
		"states of another type": func(b *bench, id eval.ID) func() {
			key := b.store.Keys().States(id, 0, 0)
			b.redis(b.store.Client().SAdd(b.t.Context(), key, "x").Err())
			b.redis(b.store.Client().Del(b.t.Context(), b.store.Keys().Cursors(id)).Err())
			return func() { b.redis(b.store.Client().Del(b.t.Context(), key).Err()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			damaged := submission("damaged", 5) // 20 runs
			id := b.submit(damaged).ID
			mend := damage(b, id)
			other := b.submit(submission("other", 6)) // 30 runs
			said := &strings.Builder{}
			topUp := NewTopUp(b.store, b.limits, zerolog.New(said))
			for range 4 {
				b.tick(topUp)
				b.pullOf(other.ID, "p", 100)
			}
			b.tick(topUp)
			if got := b.standing(other.ID); got.Status != record.StatusDone {
				t.Errorf("the other evaluation is %s with %d of 30 runs, want done", got.Status, got.Ended(0, "p"))
			}
			if active, err := b.store.Active(t.Context()); err != nil || len(active) != 1 || active[0] != id {
				t.Errorf("active are %v, %v; want the damaged evaluation alone", active, err)
			}
			if n := strings.Count(said.String(), `"level":"error"`); n != 1 || !strings.Contains(said.String(), string(id)) {
				t.Errorf("said %d times that the evaluation is left alone, want once:\n%s", n, said)
			}
			mend()
			for range 4 {
				b.tick(topUp)
				b.pullOf(id, "p", 100)
			}
			b.tick(topUp)
			if got := b.standing(id); got.Status != record.StatusDone {
				t.Errorf("mended, the evaluation is %s with %d of 20 runs, want done", got.Status, got.Ended(0, "p"))
			}
		})
	}
}

// set changes a field of a record, until mend is called.
func (b *bench) set(id eval.ID, field, value string) (mend func()) {
	b.t.Helper()
	key, client, ctx := b.store.Keys().Record(id), b.store.Client(), b.t.Context()
	before := client.HGetAll(ctx, key).Val()[field]
	b.redis(client.HSet(ctx, key, field, value).Err())
	return func() {
		if before == "" {
			b.redis(client.HDel(ctx, key, field).Err())
			return
		}
		b.redis(client.HSet(ctx, key, field, before).Err())
	}
}

func (b *bench) redis(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// pullOf records the outcomes of up to n pending tasks of one evaluation, and leaves
// those of others in their queue.
func (b *bench) pullOf(id eval.ID, queue string, n int) {
	b.t.Helper()
	client, key := b.store.Client(), "asynq:{"+queue+"}:pending"
	var others []any
	for range n {
		task, err := client.LIndex(b.t.Context(), key, -1).Result()
		if err != nil {
			break
		}
		if strings.HasPrefix(task, string(id)+".") {
			b.pull(queue, 1)
			continue
		}
		b.redis(client.RPop(b.t.Context(), key).Err())
		others = append(others, task)
	}
	if len(others) > 0 {
		b.redis(client.LPush(b.t.Context(), key, others...).Err())
	}
}
