package enqueue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// taken is what an evaluation takes, in bytes but for the last.
type taken struct {
	submitting int64 // allocated by the submission
	kept       int64 // by the process that tops its queue up
	redis      int64
	took       time.Duration
}

// A submission costs what its documents cost, however many pairs they make: ten
// million take the memory, here and in Redis, that one million of the same documents
// take. Not parallel: what other tests allocate must not be measured.
func TestTenMillionPairsTakeWhatOneMillionTakes(t *testing.T) {
	const documents = 4473
	costs := func(name string, pairs eval.Pairs, least int) (cost taken) {
		b := setup(t)
		s := submission(name, documents)
		s.Evaluation.Pairwise.Order, s.Evaluation.Pairwise.Pairs = eval.OrderRandom, pairs
		var before, after runtime.MemStats
		inRedis := b.usedMemory()
		runtime.ReadMemStats(&before)
		began := time.Now()
		receipt := b.submit(s)
		cost.took = time.Since(began)
		runtime.ReadMemStats(&after)
		cost.submitting = int64(after.TotalAlloc - before.TotalAlloc)
		cost.redis = b.usedMemory() - inRedis
		if pending := b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val(); receipt.Runs < least || pending != firstWindow {
			t.Errorf("%s: %d runs, %d of them waiting in Redis; want %d or more, and the first window of %d", name, receipt.Runs, pending, least, firstWindow)
		}

		topUp := b.topUp(b.store)
		cost.kept = -heap()
		if err := topUp.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		cost.kept += heap()
		plan := topUp.known[receipt.ID].plans[0]
		for range 1000 { // wherever a run is, it is found at once
			at := rand.IntN(receipt.Runs)
			if run := plan.Run(at); run.Index != at || run.First == run.Second {
				t.Fatalf("%s: run %d is %+v", name, at, run)
			}
		}
		t.Logf("%s: %d runs in %s; %d KiB allocated, %d KiB kept, %d KiB in Redis", name, receipt.Runs,
			cost.took.Round(time.Millisecond), cost.submitting>>10, cost.kept>>10, cost.redis>>10)
		return cost
	}
	one := costs("one million", eval.Pairs{Mode: eval.PairsSample, Sample: 0.1}, 1_000_000)
	ten := costs("ten million", eval.Pairs{Mode: eval.PairsAll}, 10_000_000)
	const most = 2 << 20 // what runs besides allocates too; a byte a pair would be 9 MB
	for what, more := range map[string]int64{
		"allocated": ten.submitting - one.submitting, "kept": ten.kept - one.kept, "in Redis": ten.redis - one.redis,
	} {
		if more > most {
			t.Errorf("%d bytes more are %s for nine million pairs more, want at most %d", more, what, most)
		}
	}
}

// usedMemory is what Redis says that its data take.
func (b *bench) usedMemory() int64 {
	b.t.Helper()
	info, err := b.store.Client().InfoMap(b.t.Context(), "memory").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		b.t.Fatal(fmt.Errorf("used_memory: %w", err))
	}
	return n
}

// heap is what stays in use: a pool's buffers go with the second collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
