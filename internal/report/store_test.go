package report

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers"
)

var full = flag.Bool("full", false, "measure at the whole size")

// BenchmarkStore reports on a results store of one million verdicts on 1,000 candidates (9,900
// on 100 without -full): both orders of every pair, a judge each. It prints the seconds
// of reading and ranking, those of writing every form, and how much memory the process
// has had at most, beside what it had when the results store was filled.
func BenchmarkStore(b *testing.B) {
	candidates := 100
	if *full {
		candidates = 1000
	}
	db, id := filledStore(b, candidates)
	before, known := residentMB("VmRSS")
	var built, written time.Duration
	for b.Loop() {
		start := time.Now()
		r, err := Build(b.Context(), db, id, Options{Draws: 200})
		if err != nil {
			b.Fatal(err)
		}
		built += time.Since(start)
		if r.Verdicts != candidates*(candidates-1) || r.Groups[0].Ranked[0].Candidate > candidates/10 {
			b.Fatalf("%d verdicts, best %d", r.Verdicts, r.Groups[0].Ranked[0].Candidate)
		}
		for _, write := range []func(io.Writer) error{
			func(w io.Writer) error { return r.WriteText(w, TextOptions{}) }, r.WriteHTML, r.WriteJSON, r.WriteMarkdown,
		} {
			if err := write(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		written += time.Since(start)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(built.Seconds()/float64(b.N), "build-s")
	b.ReportMetric(written.Seconds()/float64(b.N), "all-s")
	if peak, ok := residentMB("VmHWM"); ok && known {
		b.ReportMetric(peak, "peak-MB")
		b.ReportMetric(before, "before-MB")
	}
}

// storeOf returns a results store that has an evaluation of so many runs, and no run yet.
func storeOf(t testing.TB, e *eval.Evaluation, runs int) (results.Store, results.Evaluation) {
	t.Helper()
	db, err := results.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })

	stored := sourceOf(e).evaluation
	stored.ID, stored.Phases = e.ID(), []record.Phase{{Kind: eval.KindPairwise, Runs: runs}}
	texts := func(yield func(string, string) bool) {
		for _, d := range e.Documents {
			if !yield(d.Hash, d.ID) {
				return
			}
		}
	}
	if err := db.PutEvaluation(context.Background(), stored, texts); err != nil {
		t.Fatal(err)
	}
	return db, stored
}

// filledStore is a results store with a verdict on every pair of candidates in both orders, of
// two judges in turns.
func filledStore(b *testing.B, candidates int) (results.Store, eval.ID) {
	b.Helper()
	ctx := context.Background()
	e := plan(names(candidates), []string{""}, "one", "two")
	db, stored := storeOf(b, e, candidates*(candidates-1))
	rng := rand.New(rand.NewPCG(31, 32))
	var batch []record.Entry
	index := 0
	flush := func() {
		if err := db.Append(ctx, stored.ID, batch); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	for i, one := range e.Documents {
		for j := i + 1; j < len(e.Documents); j++ {
			for k, shown := range [2][2]eval.Document{{one, e.Documents[j]}, {e.Documents[j], one}} {
				winner, d := shown[1].ID, float64(j-i)*4/float64(candidates)
				if k == 1 {
					d = -d
				}
				if rng.Float64() < 1/(1+math.Exp(-d)) {
					winner = shown[0].ID
				}
				judge := e.Judges[(i+j)%2]
				run := record.Run{
					Index: index, Kind: eval.KindPairwise, State: "succeeded", Judge: judge.Name, Model: judge.Target(), AnsweredBy: judge.Target(),
					Documents: []string{shown[0].ID, shown[1].ID}, Candidates: []string{shown[0].Candidate, shown[1].Candidate},
					Trial: 1, Winner: winner, Reason: "It names its sources and keeps to the question.", Attempts: 1,
					Started: stored.Created.Add(time.Duration(index) * time.Millisecond), Ended: stored.Created.Add(time.Duration(index+900) * time.Millisecond),
				}
				call := record.Call{
					ID: fmt.Sprintf("0.%d.0-w-1", index), Index: index, Stage: "verdict", Model: judge.Target(), Started: run.Started, Ended: run.Ended,
					Usage: providers.Usage{Reported: true, Input: 900, Output: 40},
				}
				batch = append(batch, record.Entry{Run: &run, Calls: []record.Call{call}})
				index++
			}
			if len(batch) >= 5000 {
				flush()
			}
		}
	}
	flush()
	return db, stored.ID
}

// residentMB is how much memory the process has (VmRSS) or had at most (VmHWM); not
// known everywhere.
func residentMB(which string) (float64, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	found := regexp.MustCompile(which + `:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0, false
	}
	kB, err := strconv.ParseFloat(string(found[1]), 64)
	return kB / 1000, err == nil
}
