package estimate_test

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/providers"
)

// escalates asks two judges of the price of a dollar about 45 pairs in both orders, and a strong one of 20 dollars about a
// fifth of them, or what they contest.
func escalates(t *testing.T, escalate *eval.Escalate) estimate.Question {
	t.Helper()
	q := question(t, 0, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k")
	e := q.Evaluation
	e.Judges = append(e.Judges, eval.Judge{Name: "strong", Provider: "three", Model: "m"})
	e.Single, e.Escalate = nil, escalate
	e.Pairwise.Trials, e.Pairwise.Order = 1, eval.OrderBoth
	cheap, dear := providers.Rates{Input: 1, Output: 1}, providers.Rates{Input: 20, Output: 20}
	q.Settings.Prices = map[string]providers.Price{"one:m": {Rates: cheap}, "two:m": {Rates: cheap}, "three:m": {Rates: dear}}
	q.Settings.Limits = nil
	return planned(t, q)
}

// TestEstimateOfAnEscalation: calls and cost lie between those of the sample alone and those of all pairs, in every way; beside
// is the row of the strong judge alone.
func TestEstimateOfAnEscalation(t *testing.T) {
	t.Parallel()
	q := escalates(t, &eval.Escalate{When: eval.Doubts(), Share: 0.2})
	made := mustEstimate(t, q)
	const cheap, most, least = 2 * 2 * 55, 2 * 55, 2 * 11
	if len(made.Parts) != 3 || made.Parts[2].Judge != "strong" || made.Parts[2].Calls != most {
		t.Fatalf("parts %+v", made.Parts)
	}
	if made.Total.Calls != cheap+most || made.LeastCalls != cheap+least {
		t.Errorf("%d to %d calls, want %d to %d", made.LeastCalls, made.Total.Calls, cheap+least, cheap+most)
	}
	perPair := (*made.CostUSD - *made.LeastCostUSD) / 44 // of the strong judge
	if alone := 55 * perPair; alone <= 0 || alone >= *made.CostUSD || *made.LeastCostUSD <= 11*perPair {
		t.Errorf("cost %v to %v", *made.LeastCostUSD, *made.CostUSD)
	}

	var alone *estimate.Way
	for i, way := range made.Ways {
		if way.Way == estimate.StrongAlone {
			alone = &made.Ways[i]
		}
	}
	switch now := made.Ways[0]; {
	case alone == nil:
		t.Fatalf("ways %+v", made.Ways)
	case now.LeastCalls != cheap+least || now.Calls != cheap+most:
		t.Errorf("as it is now: %d to %d calls", now.LeastCalls, now.Calls)
	case alone.Calls != most || alone.LeastCalls != 0 || *alone.CostUSD <= 54*perPair || *alone.CostUSD >= 56*perPair:
		t.Errorf("the strong judge alone: %+v", *alone)
	case len(made.Savings) > 0:
		t.Errorf("savings %+v", made.Savings)
	}

	var written strings.Builder
	if err := made.Write(&written, 80, estimate.Sources{}); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"242 to 330 calls, plus retries", "as it is now  242–330", "no escalate", "judges: [three:m]; and no escalate: strong alone"} {
		if !strings.Contains(strings.Join(strings.Fields(written.String()), " "), strings.Join(strings.Fields(says), " ")) {
			t.Errorf("the estimate does not say %q:\n%s", says, written.String())
		}
	}
	for line := range strings.Lines(written.String()) {
		if len([]rune(strings.TrimRight(line, "\n"))) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
	if got := made.Summary(); !strings.HasPrefix(got, "242 to 330 calls for about $") {
		t.Errorf("summary %q", got)
	}
}

// TestEstimateSuggestsEscalation: a judge that costs far more than the others is suggested as a strong one; of judges of one
// price, none is.
func TestEstimateSuggestsEscalation(t *testing.T) {
	t.Parallel()
	made := mustEstimate(t, escalates(t, nil))
	found := false
	for _, s := range made.Savings {
		if s.Setting != "escalate: {to: three:m}" {
			continue
		}
		found = true
		if s.Calls != 2*2*55+2*11 || !s.AtLeast || *s.CostUSD >= *made.CostUSD {
			t.Errorf("%+v, now %d calls for %v", s, made.Total.Calls, *made.CostUSD)
		}
	}
	if !found {
		t.Errorf("savings %+v", made.Savings)
	}

	q := escalates(t, nil)
	q.Settings.Prices["three:m"] = q.Settings.Prices["one:m"]
	for _, s := range mustEstimate(t, q).Savings {
		if strings.HasPrefix(s.Setting, "escalate") {
			t.Errorf("judges of one price: %+v", s)
		}
	}
}
