package plan_test

import (
	"runtime"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// tenMillion compares 4,473 documents of one item: 10,001,628 pairs.
func tenMillion(mode eval.Pairs) *eval.Evaluation {
	e := evaluation(3, 4473)
	e.Pairwise.Pairs = mode
	e.Pairwise.Order = eval.OrderRandom
	return e
}

var largeModes = map[string]eval.Pairs{
	"all":    {Mode: eval.PairsAll},
	"sample": {Mode: eval.PairsSample, Sample: 0.9},
	"swiss":  {Mode: eval.PairsSwiss, Share: 1}, // half of all in its first round
}

// Not parallel, like the next: what other tests allocate must not be measured.
func TestAtDoesNotAllocate(t *testing.T) {
	for name, mode := range largeModes {
		e := tenMillion(mode)
		p := mustPlan(t, e, pairwise, queuesOf(e, "a", "b"))
		if p.Runs() < 15_000_000 {
			t.Fatalf("%s: %d runs, want three judges on millions of pairs", name, p.Runs())
		}
		i, sum := 0, 0
		if allocs := testing.AllocsPerRun(1000, func() {
			sum += p.At("a", i).First
			i += p.Len("a") / 1001
		}); allocs != 0 {
			t.Errorf("%s: At allocates %v times, want never", name, allocs)
		}
	}
}

func TestPlanIsSmall(t *testing.T) {
	for name, mode := range largeModes {
		e := tenMillion(mode)
		const plans = 10
		kept := make([]*plan.Plan, plans)
		mustPlan(t, e, pairwise, queuesOf(e, "a", "b")) // what the first one needs once is not of each
		before := heap()
		for i := range kept {
			kept[i] = mustPlan(t, e, pairwise, queuesOf(e, "a", "b"))
		}
		perPlan := (heap() - before) / plans
		if perPlan > 8<<10 {
			t.Errorf("%s: a plan of ten million pairs keeps %d bytes, want at most 8 KiB", name, perPlan)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(e)
	}
}

// heap is what stays in use: a pool's buffers go with the second collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func BenchmarkAt(b *testing.B) {
	for name, mode := range largeModes {
		b.Run(name, func(b *testing.B) {
			e := tenMillion(mode)
			p := mustPlan(b, e, pairwise, queuesOf(e, "a", "b"))
			n, i, sum := p.Len("a"), 0, 0
			b.ReportAllocs()
			b.ReportMetric(float64(p.Runs()), "runs")
			for b.Loop() {
				run := p.At("a", i)
				if run.First == run.Second {
					b.Fatalf("run %+v compares a document with itself", run)
				}
				sum += run.First
				i = (i + 7_919) % n
			}
		})
	}
}

// BenchmarkChoose chooses the second of four rounds, of 1.8 million pairs in all.
func BenchmarkChoose(b *testing.B) {
	e := tenMillion(eval.Pairs{Mode: eval.PairsSwiss, Share: 0.18})
	e.Single = nil
	found := plan.Found{Abilities: make([]float64, len(e.Documents))}
	for i := range found.Abilities {
		found.Abilities[i] = float64(i * 7_919 % len(e.Documents))
	}
	pairs := 0
	b.ReportAllocs()
	for b.Loop() {
		choice, err := plan.Choose(e, 1, []*plan.Choice{nil}, found)
		if err != nil {
			b.Fatal(err)
		}
		pairs = 0
		for _, list := range choice.Pairs {
			pairs += len(list) - 1
		}
	}
	b.ReportMetric(float64(pairs), "pairs")
}

func BenchmarkNew(b *testing.B) {
	e := tenMillion(eval.Pairs{Mode: eval.PairsAll})
	for b.Loop() {
		mustPlan(b, e, pairwise, queuesOf(e, "a"))
	}
}
