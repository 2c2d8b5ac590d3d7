package given

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// BenchmarkRead reads a million battles of 60 models, with and without questions, and reports the seconds and the
// memory that stays in use.
func BenchmarkRead(b *testing.B) {
	const rows, models, questions = 1_000_000, 60, 10_000
	for name, header := range map[string]string{"separate": "model_a,model_b,winner,session", "questions": "model_a,model_b,winner,item"} {
		path := filepath.Join(b.TempDir(), name+".csv")
		out, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		lines, rng := bufio.NewWriter(out), rand.New(rand.NewPCG(1, 1))
		fmt.Fprintln(lines, header)
		for i := range rows {
			first := rng.IntN(models)
			second := (first + 1 + rng.IntN(models-1)) % models
			fmt.Fprintf(lines, "model-%d,model-%d,%s", first, second, []string{"model_a", "model_b", "tie"}[rng.IntN(3)])
			switch name {
			case "questions":
				fmt.Fprintf(lines, ",q%d", i%questions)
			default:
				fmt.Fprintf(lines, ",%d", i)
			}
			fmt.Fprintln(lines)
		}
		if err := lines.Flush(); err != nil {
			b.Fatal(err)
		}
		if err := out.Close(); err != nil {
			b.Fatal(err)
		}

		b.Run(name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				v, err := Read([]string{path}, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if got := len(v.verdicts); got != rows {
					b.Fatalf("read %d verdicts, want %d", got, rows)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-kept")
				runtime.KeepAlive(v)
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
