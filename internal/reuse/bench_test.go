package reuse_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// BenchmarkGrown finds what is known about an evaluation of texts that are half old and half new, and stores it. It
// prints the time for each known run beside that of storing a run in the first place, and the memory for each.
func BenchmarkGrown(b *testing.B) {
	const old, grown = 100, 200
	ids := make([]string, grown)
	for i := range ids {
		ids[i] = fmt.Sprintf("essay%04d", i)
	}
	pairs := func(e *eval.Evaluation) { e.Single, e.Pairwise.Trials = nil, 1 }
	for b.Loop() {
		b.StopTimer()
		db := open(b)
		e, texts := essays("before", letters(ids[:old]...), pairs)
		before := asking(b, db, e, texts, record.Settings{})
		stored := since(func() { answer(b, db, before, nil) })
		e, texts = essays("now", letters(ids...), pairs)
		now := asking(b, db, e, texts, record.Settings{})
		memory := heap()
		b.StartTimer()

		var found *reuse.Known
		finding := since(func() {
			var err error
			if found, err = reuse.Find(b.Context(), now, db); err != nil {
				b.Fatal(err)
			}
		})
		b.StopTimer()
		held := heap() - memory
		b.StartTimer()
		storing := since(func() {
			if err := found.Store(b.Context(), db); err != nil {
				b.Fatal(err)
			}
		})
		if want := old * (old - 1) * 2; found.Runs() != want {
			b.Fatalf("%d runs are known, want %d", found.Runs(), want)
		}
		each := float64(found.Runs())
		b.ReportMetric((finding.Seconds()+storing.Seconds())/stored.Seconds(), "of-storing")
		b.ReportMetric(finding.Seconds()/each*1e6, "µs-found/run")
		b.ReportMetric(storing.Seconds()/each*1e6, "µs-stored/run")
		b.ReportMetric(float64(held)/each, "B-held/run")
	}
}

func since(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}
