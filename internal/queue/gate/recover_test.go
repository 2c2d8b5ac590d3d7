package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// recoverIDs calls Recover, and returns the IDs in order.
func recoverIDs(ctx context.Context, client redis.UniversalClient, queue string, alive Alive) ([]string, error) {
	returned, err := Recover(ctx, client, queue, alive)
	return slices.Sorted(maps.Keys(returned)), err
}

func TestRecoverMovesTheTasksOfTheDead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(8)
		for i := range 7 {
			g, _ := f.by([]string{"dead", "living", "buried"}[i%3], 1)
			if !f.pullBy(g) {
				t.Fatal("answered as empty")
			}
		}
		before := f.task("t2")
		var asked []string
		alive := func(_ context.Context, owners []string) (map[string]bool, error) {
			asked = owners
			return map[string]bool{"living": true, "idle": true}, nil
		}
		got, err := recoverIDs(t.Context(), f.redis, queueName, alive)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(asked)
		if diff := cmp.Diff([]string{"buried", "dead", "living"}, asked); diff != "" {
			t.Errorf("asked about (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"t1", "t3", "t4", "t6", "t7"}, got); diff != "" {
			t.Errorf("returned (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"t1", "t3", "t4", "t6", "t7", "t8"}, f.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"t5", "t2"}, f.active()); diff != "" {
			t.Errorf("active (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, f.task("t2")); diff != "" {
			t.Errorf("the living worker's task (-before +after):\n%s", diff)
		}
		task := f.task("t1")
		if since := task["pending_since"]; len(since) != len(fmt.Sprint(time.Now().UnixNano())) {
			t.Errorf("pending_since = %q, want nanoseconds", since)
		}
		delete(task, "pending_since")
		if diff := cmp.Diff(map[string]string{"state": "pending"}, task); diff != "" {
			t.Errorf("a returned task (-want +got):\n%s", diff)
		}
		leases := f.redis.ZRange(t.Context(), keysOf(queueName).lease, 0, -1).Val()
		slices.Sort(leases)
		if diff := cmp.Diff([]string{"t2", "t5"}, leases); diff != "" {
			t.Errorf("leases (-want +got):\n%s", diff)
		}

		got, err = recoverIDs(t.Context(), f.redis, queueName, alive)
		if err != nil || len(got) != 0 {
			t.Errorf("a second time returned %v, %v; want nothing", got, err)
		}
		if info, err := f.inspector.GetQueueInfo(queueName); err != nil || info.Pending != 6 || info.Active != 2 || info.Latency <= 0 {
			t.Errorf("asynq sees %+v, %v; want 6 pending with a latency and 2 active", info, err)
		}
	})
}

func TestRecoverByManyReturnsEachTaskOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.New(t).Client())
	const tasks = readAtOnce + 2*returnAtOnce + 7
	f.push(tasks)
	g, _ := f.by("a", 0)
	for range tasks - 3 {
		if !f.pullBy(g) {
			t.Fatal("answered as empty")
		}
	}
	want := len(f.active()) // with the rest of the last batch
	var mu sync.Mutex
	var all []string
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := recoverIDs(t.Context(), f.redis, queueName, aliveExcept("a"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, got...)
		})
	}
	group.Wait()
	slices.Sort(all)
	if got := len(slices.Compact(slices.Clone(all))); got != want || len(all) != want {
		t.Errorf("returned %d ids, %d of them different; want each of %d once", len(all), got, want)
	}
	if got := len(f.pending()); got != tasks {
		t.Errorf("pending = %d, want %d", got, tasks)
	}
}

func TestRecoverWithoutOwner(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		ctx, k := t.Context(), keysOf(queueName)
		lease := func(id string, end time.Duration) {
			t.Helper()
			if err := f.redis.ZAdd(ctx, k.lease, redis.Z{Member: id, Score: float64(time.Now().Add(end).Unix())}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		never := func(context.Context, []string) (map[string]bool, error) {
			return nil, errors.New("there are no owners to ask about")
		}

		var got []string
		f.eventually("tasks recovered before t2 counts as abandoned", func() bool {
			if err := f.redis.FlushDB(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			f.push(5)
			for range 5 { // as bare asynq pulls
				id := f.redis.RPopLPush(ctx, k.pending, k.active).Val()
				f.redis.HSet(ctx, k.task+id, "state", "active")
			}

			began := time.Now()
			lease("t1", 20*time.Second)
			lease("t2", -orphanedAfter/2)
			lease("t3", -orphanedAfter-2*time.Second)
			// t4 has none
			lease("t5", -time.Hour)
			f.redis.Del(ctx, k.task+"t5")

			var err error
			if got, err = recoverIDs(ctx, f.redis, queueName, never); err != nil {
				t.Fatal(err)
			}
			return time.Since(began) < orphanedAfter/2-time.Second
		})
		if diff := cmp.Diff([]string{"t3", "t4"}, got); diff != "" {
			t.Errorf("returned (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"t3", "t4"}, f.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"t2", "t1"}, f.active()); diff != "" {
			t.Errorf("active (-want +got):\n%s", diff)
		}
		if left := f.redis.ZRange(ctx, k.lease, 0, -1).Val(); !cmp.Equal(left, []string{"t2", "t1"}) {
			t.Errorf("leases = %v, want [t2 t1]", left)
		}
	})
}

// Tasks change hands between reading the owners and returning.
func TestRecoverVerifiesWhatItRead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		ctx, k := t.Context(), keysOf(queueName)
		f.push(2)
		a, _ := f.by("a", 1)
		f.pullBy(a)
		f.redis.RPopLPush(ctx, k.pending, k.active) // t2, which has no owner
		got, err := recoverIDs(ctx, f.redis, queueName, func(context.Context, []string) (map[string]bool, error) {
			f.redis.LRem(ctx, k.active, 0, "t2")
			f.recover("t1")
			b, _ := f.by("b", 1)
			f.pullBy(b)
			return nil, nil
		})
		if err != nil || len(got) != 0 || f.task("t1")["owner"] != "b" || len(f.pending()) != 0 {
			t.Errorf("returned %v, %v, owner %q, pending %v; want nothing, b's, none", got, err, f.task("t1")["owner"], f.pending())
		}
		failure := errors.New("no answer")
		_, err = recoverIDs(ctx, f.redis, queueName, func(context.Context, []string) (map[string]bool, error) {
			return nil, failure
		})
		if !errors.Is(err, failure) || f.task("t1")["owner"] != "b" {
			t.Errorf("error = %v, want %v and nothing moved", err, failure)
		}
	})
}

// A task that its living worker has ended, as far as it knows, and that Redis did not
// take for ended, comes back by asynq's own recovery of all queues that are served.
func TestOwnTaskWhoseLeaseEndedComesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(2)
		for _, owner := range []string{"w1", "w2"} {
			if g, _ := f.by(owner, 1); !f.pullBy(g) {
				t.Fatalf("%s pulls nothing", owner)
			}
		}
		ctx, keys := t.Context(), keysOf(queueName)
		for _, id := range []string{"t1", "t2"} {
			if err := f.redis.ZAdd(ctx, keys.lease, redis.Z{Score: float64(time.Now().Add(-time.Hour).Unix()), Member: id}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f.work("w1", 1, func(context.Context, *asynq.Task) error { return nil }, workerOptions{})
		f.eventually("its own task is to be tried again, and the other's is not", func() bool {
			return f.state("t1") == "retry" && f.state("t2") == "active"
		})
	})
}
