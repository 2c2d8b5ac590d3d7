package results

import (
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// Entries per second by kind of results store, in batches as a Collector makes them.
// PostgreSQL does not wait for its disk here, and is on this machine.
func BenchmarkAppend(b *testing.B) {
	for kind, newURL := range kinds {
		b.Run(kind, func(b *testing.B) {
			db, e := openStore(b, newURL(b))
			all := make([]record.Entry, 0, batchEntries)
			stored := 0
			for b.Loop() {
				all = all[:0]
				for range batchEntries {
					all = append(all, verdict(stored))
					stored++
				}
				mustAppend(b, db, e.ID, all...)
			}
			b.ReportMetric(float64(stored)/b.Elapsed().Seconds(), "entries/s")
			counts, err := db.Counts(b.Context(), e.ID)
			if err != nil || counts[1].Succeeded != stored {
				b.Fatalf("%v, %v: want %d runs", counts, err, stored)
			}
		})
	}
}
