package rank

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

var full = flag.Bool("full", false, "measure, and prove coverage, at the whole size")

var evaluationsFlag = flag.Int("evaluations", 1000, "evaluations of each row of the coverage, with -full")

const verdictsEach = 200

// manyVerdicts are verdicts of two judges, one with a liking for the text shown first, on
// some 200 pairs of each candidate; both orders and judges of a pair are a cluster.
func manyVerdicts(candidates int) []Observed {
	random := rand.New(rand.NewPCG(21, 22))
	observed := make([]Observed, 0, candidates*(candidates-1))
	for i := range candidates {
		for j := range candidates {
			if i == j {
				continue
			}
			if random.IntN(candidates) >= verdictsEach {
				continue
			}
			judge := random.IntN(2)
			d := float64(j-i)*4/float64(candidates) + 0.4*float64(judge)
			outcome := SecondWins
			switch {
			case random.IntN(20) == 0:
				outcome = Tied
			case random.Float64() < 1/(1+math.Exp(-d)):
				outcome = FirstWins
			}
			one := game(min(i, j)*candidates+max(i, j), i, j, outcome)
			one.Judge = int32(judge)
			observed = append(observed, one)
		}
	}
	return observed
}

// fewVerdicts are 2,139 on 59 candidates.
func fewVerdicts(apart float64) []Observed {
	random := rand.New(rand.NewPCG(23, 24))
	var observed []Observed
	for len(observed) < 2139 {
		i, j := random.IntN(59), random.IntN(59)
		if i == j {
			continue
		}
		outcome := SecondWins
		if random.Float64() < 1/(1+math.Exp(apart*float64(i-j))) {
			outcome = FirstWins
		}
		one := game(min(i, j)*59+max(i, j), i, j, outcome)
		one.Judge = int32(random.IntN(2))
		observed = append(observed, one)
	}
	return observed
}

// BenchmarkRank ranks 1,000 candidates by 200,000 verdicts, with intervals (100 by ten
// thousand without -full), and 59 by 2,139, also where most of
// them are so far apart that they are separated. It prints the seconds of the fit and of all,
// and the most memory that the process has had.
func BenchmarkRank(b *testing.B) {
	candidates := 100
	if *full {
		candidates = 1000
	}
	b.Run("few", func(b *testing.B) { rankAll(b, 59, fewVerdicts(0.1)) })
	b.Run("separated", func(b *testing.B) { rankAll(b, 59, fewVerdicts(1)) })
	b.Run("many", func(b *testing.B) {
		verdicts := manyVerdicts(candidates)
		if len(verdicts) < candidates*min(candidates-1, verdictsEach)*9/10 {
			b.Fatalf("%d verdicts", len(verdicts))
		}
		rankAll(b, candidates, verdicts)
	})
}

func rankAll(b *testing.B, candidates int, verdicts []Observed) {
	b.Helper()
	var fitted, all time.Duration
	for b.Loop() {
		observed := slices.Clone(verdicts)
		start := time.Now()
		fit, err := FromObserved(candidates, 2, observed, Options{OrderEffect: true})
		if err != nil {
			b.Fatal(err)
		}
		fitted += time.Since(start)
		uncertain, err := fit.Uncertainty(b.Context(), observed, Drawing{})
		if err != nil {
			b.Fatal(err)
		}
		all += time.Since(start)
		best := fit.Standings()[0]
		if best.Candidate > candidates/8 || uncertain.Clusters < len(verdicts)/3 {
			b.Fatalf("%d verdicts in %d clusters, best %d", len(verdicts), uncertain.Clusters, best.Candidate)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(fitted.Seconds()/float64(b.N), "fit-s")
	b.ReportMetric(all.Seconds()/float64(b.N), "all-s")
	b.ReportMetric(float64(len(verdicts)), "verdicts")
	if mb, ok := peakMB(); ok {
		b.ReportMetric(mb, "peak-MB")
	}
}

// peakMB is the most memory that the process has had resident; not known everywhere.
func peakMB() (float64, bool) {
	if runtime.GOOS != "linux" {
		return 0, false
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0, false
	}
	kB, err := strconv.ParseFloat(string(found[1]), 64)
	return kB / 1000, err == nil
}
