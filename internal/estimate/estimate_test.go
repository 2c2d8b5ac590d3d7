package estimate_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// question asks two judges about documents of these texts.
func question(t *testing.T, limit int, texts ...string) estimate.Question {
	t.Helper()
	e := &eval.Evaluation{
		Name: "drafts", Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges: []eval.Judge{
			{Name: "a", Provider: "one", Model: "m"},
			{Name: "b", Provider: "two", Model: "m", Overrides: map[string]any{"max_completion_tokens": 50.0}},
		},
		Single:   &eval.Single{Criteria: []eval.Criterion{{Name: "style"}, {Name: "truth"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 3},
	}
	q := estimate.Question{Evaluation: e, Texts: map[string]string{}, Latency: time.Second, Settings: record.Settings{Limit: limit}}
	for i, text := range texts {
		hash := eval.TextHash(text)
		q.Texts[hash] = text
		id := fmt.Sprintf("d%02d", i)
		e.Documents = append(e.Documents, eval.Document{ID: id, Candidate: id, Hash: hash, Bytes: len(text)})
	}
	e.Normalize()
	var err error
	if _, q.Plans, err = enqueue.Plan(e.ID(), e, q.Settings); err != nil {
		t.Fatal(err)
	}
	return q
}

func mustEstimate(t *testing.T, q estimate.Question) estimate.Estimate {
	t.Helper()
	made, err := estimate.Of(q)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The counts are those of walking the whole plan.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 7, 8, 9, 60, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			q := question(t, limit, "x", "y", "x", "z", "x")
			want := map[string]int{}
			for _, p := range q.Plans {
				for i := range p.Runs() {
					run := p.Run(i)
					key := fmt.Sprint(p.Kind(), " ", q.Evaluation.Judges[run.Judge].Name)
					want[key+" runs"]++
					if run.Second >= 0 && q.Evaluation.Documents[run.First].Hash == q.Evaluation.Documents[run.Second].Hash {
						want[key+" identical"]++
					} else {
						want[key+" calls"]++
					}
				}
			}
			got := map[string]int{}
			for _, part := range mustEstimate(t, q).Parts {
				key := fmt.Sprint(part.Kind, " ", part.Judge)
				for name, n := range map[string]int{" runs": part.Runs, " identical": part.Identical, " calls": part.Calls} {
					if n > 0 {
						got[key+name] = n
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// A sample of the prompts comes near to all of them: texts grow twentyfold.
func TestInputTokensOfASample(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 40 {
		texts = append(texts, strings.Repeat(fmt.Sprintf("Sentence %d. ", i), 20+10*i))
	}
	q := question(t, 0, texts...)
	q.Evaluation.Single = nil
	var err error
	if _, q.Plans, err = enqueue.Plan(q.Evaluation.ID(), q.Evaluation, q.Settings); err != nil {
		t.Fatal(err)
	}
	made := mustEstimate(t, q)
	if made.Prompts != 200 {
		t.Errorf("%d prompts were built, want 200", made.Prompts)
	}
	// Every document is in as many prompts as every other.
	perDocument := 0
	for _, text := range texts {
		perDocument += len(text)
	}
	documents := 2 * float64(perDocument) / 40 * float64(made.Total.Calls) / estimate.BytesPerToken
	empty := question(t, 0, "1", "2")
	empty.Evaluation.Single = nil
	if _, empty.Plans, err = enqueue.Plan(empty.Evaluation.ID(), empty.Evaluation, empty.Settings); err != nil {
		t.Fatal(err)
	}
	frame := mustEstimate(t, empty)
	want := documents + float64(frame.Total.Input)/float64(frame.Total.Calls)*float64(made.Total.Calls)
	if off := math.Abs(float64(made.Total.Input)/want - 1); off > 0.03 {
		t.Errorf("%d input tokens, want %.0f within 3 %%", made.Total.Input, want)
	}
}

func TestOutputTokens(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y") // 2 singles and 6 comparisons of each judge
	made := mustEstimate(t, q)
	want := []int64{
		2 * 2 * estimate.TokensPerCriterion, 2 * 50, // a, b: b is bounded
		6 * estimate.TokensPerComparison, 6 * 50,
	}
	var got []int64
	for _, part := range made.Parts {
		got = append(got, part.Output)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if made.Total.OutputBound != 0 || made.Parts[3].OutputBound != 300 {
		t.Errorf("bounds: %d of all, where one judge has none; %d of the last part, want 300", made.Total.OutputBound, made.Parts[3].OutputBound)
	}
	q.TokensOut = 7
	if made := mustEstimate(t, q); made.Total.Output != 16*7 {
		t.Errorf("with 7 each: got %d, want %d", made.Total.Output, 16*7)
	}
	q.Evaluation.Judges[0].Overrides = map[string]any{"max_completion_tokens": 100.0}
	if made := mustEstimate(t, q); made.Total.OutputBound != 8*100+8*50 {
		t.Errorf("bound of all: got %d, want %d", made.Total.OutputBound, 8*100+8*50)
	}
}

// Every limit takes its least time over the calls that it covers, and the
// longest comes first.
func TestBounds(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y", "z") // 3 + 18 calls of each judge
	id := string(q.Evaluation.ID())
	inFlight := func(s ratelimit.Scope, n int64) ratelimit.Limit {
		return ratelimit.Limit{Scope: s, Kind: ratelimit.Concurrency, Max: n}
	}
	one, two := ratelimit.Scope{Provider: "one"}, ratelimit.Scope{Provider: "two", Model: "m"}
	q.Settings.ConcurrencySource = "file"
	q.Slots = 100
	q.Settings.Limits = []ratelimit.Limit{
		inFlight(ratelimit.Scope{Evaluation: id}, 4),
		inFlight(ratelimit.Scope{}, 40),
		inFlight(one, 2),
		inFlight(ratelimit.Scope{Provider: "one", Model: "other"}, 1),
		inFlight(ratelimit.Scope{Group: "g"}, 1),
		{Scope: two, Kind: ratelimit.Requests, Max: 2, Period: time.Second, Burst: 3},
		{Scope: one, Kind: ratelimit.Requests, Max: 120, Period: time.Minute, Burst: 1,
			Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}},
	}
	want := []estimate.Bound{
		{Limit: "this evaluation: 4 in flight", Setting: "concurrency.max_concurrency", Calls: 42, Seconds: 11},
		{Limit: "provider one: 2 in flight", Setting: "concurrency.per_provider.one.max_concurrency", Calls: 21, Seconds: 11},
		{Limit: "provider one: 120 requests/min", Setting: "concurrency.per_provider.one.requests_per_minute", Calls: 21, Seconds: 11},
		{Limit: "model two:m: 2 requests/s", Setting: "concurrency.per_provider.two.models.m.rate_limit", Calls: 21, Seconds: 10},
		{Limit: "fleet: 40 in flight", Setting: "concurrency.max_concurrency of --config", Calls: 42, Seconds: 2},
		{Limit: "one process: 100 in flight", Setting: "--slots", Calls: 42, Seconds: 1},
	}
	made := mustEstimate(t, q)
	if diff := cmp.Diff(want, made.Bounds); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
	if made.Seconds != 11 {
		t.Errorf("duration: got %v s, want 11", made.Seconds)
	}
	got := map[string]int{}
	for _, saving := range made.Savings {
		got[saving.Setting] = saving.Calls
	}
	if diff := cmp.Diff(map[string]int{estimate.OneOrder: 24, estimate.OneInFive: 14, estimate.InRounds: 30}, got); diff != "" {
		t.Errorf("savings (-want +got):\n%s", diff)
	}
}

// Limits of tokens count those of the calls they cover, reserved ones where the
// provider charges so; quotas take the nights.
func TestBoundsOfTokensAndDays(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y", "z") // 3 + 18 calls of each judge
	q.TokensOut = 20
	q.Now = time.Date(2026, 11, 1, 23, 0, 0, 0, time.UTC)
	one, two := ratelimit.Scope{Provider: "one"}, ratelimit.Scope{Provider: "two"}
	tokens := func(s ratelimit.Scope, kind ratelimit.Kind, n int64, charged bool) ratelimit.Limit {
		return ratelimit.Limit{Scope: s, Kind: kind, Max: n, Period: time.Minute, Charged: charged,
			Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}}
	}
	q.Settings.Limits = []ratelimit.Limit{
		{Scope: one, Kind: ratelimit.Requests, Max: 10, Resets: "UTC"},
		tokens(one, ratelimit.OutputTokens, 100, false),
		tokens(two, ratelimit.OutputTokens, 100, true),
		tokens(ratelimit.Scope{}, ratelimit.InputTokens, 1000000, false),
		tokens(ratelimit.Scope{}, ratelimit.Tokens, 1000000, true),
	}
	made := mustEstimate(t, q)
	windows := func(n float64) float64 { return n*61 + 1 } // a minute and a slot, and the last call
	want := []estimate.Bound{
		{Limit: "provider one: 10 requests per day (UTC)", Setting: "concurrency.per_provider.one.requests_per_day", Calls: 21, Seconds: 25*3600 + 1},
		// The bound of 50 is reserved, and 2 fit into a window; of 20 there fit 5.
		{Limit: "provider two: 100 output tokens/min", Setting: "concurrency.per_provider.two.output_tokens_per_minute", Calls: 21, Tokens: 21 * 50, Seconds: windows(10)},
		{Limit: "provider one: 100 output tokens/min", Setting: "concurrency.per_provider.one.output_tokens_per_minute", Calls: 21, Tokens: 21 * 20, Seconds: windows(4)},
		{Limit: "fleet: 1 M input tokens/min", Setting: "concurrency.input_tokens_per_minute of --config", Calls: 42, Tokens: made.Total.Input, Seconds: 1},
		{Limit: "fleet: 1 M tokens/min", Setting: "concurrency.tokens_per_minute of --config", Calls: 42,
			Tokens: made.Total.Input + 21*20 + 21*50, Seconds: 1},
	}
	if diff := cmp.Diff(want, made.Bounds); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
}

// Centuries are said, not wrapped around.
func TestBoundsSaturate(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y", "z")
	q.Latency = 100 * 365 * 24 * time.Hour
	q.Settings.Limits = []ratelimit.Limit{
		{Kind: ratelimit.Concurrency, Max: 1},
		{Kind: ratelimit.Requests, Max: 1, Period: 1 << 62, Burst: 1},
	}
	for _, b := range mustEstimate(t, q).Bounds {
		if want := time.Duration(math.MaxInt64).Seconds(); b.Seconds != want {
			t.Errorf("%s: got %v s, want %v", b.Limit, b.Seconds, want)
		}
	}
}

func TestNothingToCall(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "x")
	q.Evaluation.Single = nil
	var err error
	if _, q.Plans, err = enqueue.Plan(q.Evaluation.ID(), q.Evaluation, q.Settings); err != nil {
		t.Fatal(err)
	}
	made := mustEstimate(t, q)
	if made.Total.Calls != 0 || made.Total.Identical != 12 || made.Seconds != 0 || made.Total.Input != 0 || made.Prompts != 0 {
		t.Errorf("two identical documents: got %+v", made)
	}
}

// TestTextsThatFailAGateNeedNoCall: of three texts one fails a gate, and only one pair is left to ask about.
func TestTextsThatFailAGateNeedNoCall(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y", "z")
	q.Evaluation.Single = nil
	q.Evaluation.Checks = []eval.Check{{Name: "short", Kind: eval.CheckMaxWords, Value: "1", Gate: true}}
	q.Evaluation.Documents[1].Failed = []eval.FailedCheck{{Check: 0}}
	var err error
	if _, q.Plans, err = enqueue.Plan(q.Evaluation.ID(), q.Evaluation, q.Settings); err != nil {
		t.Fatal(err)
	}
	if made := mustEstimate(t, q); made.Total.Identical != 24 || made.Total.Calls != 12 {
		t.Errorf("%d runs without a call and %d calls, want 24 and 12", made.Total.Identical, made.Total.Calls)
	}
}

// A price that is missing makes the whole cost unknown.
func TestCost(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y")
	q.Settings.Prices = map[string]providers.Price{"one:m": {Rates: providers.Rates{Input: 1, Output: 2}}}
	if made := mustEstimate(t, q); made.CostUSD != nil {
		t.Errorf("cost without the price of a judge: %v, want none", *made.CostUSD)
	}
	q.Settings.Prices["two:m"] = providers.Price{Rates: providers.Rates{Output: 10}}
	made := mustEstimate(t, q)
	want := 0.0
	for _, part := range made.Parts {
		if part.Judge == "a" {
			want += float64(part.Input)*1e-6 + float64(part.Output)*2e-6
		} else {
			want += float64(part.Output) * 10e-6
		}
	}
	if made.CostUSD == nil || math.Abs(*made.CostUSD-want) > 1e-9 {
		t.Errorf("cost %v, want %v", made.CostUSD, want)
	}
}

// Prices of long calls are those of calls that are long, not of many short ones.
func TestCostOfManyShortCalls(t *testing.T) {
	t.Parallel()
	for above, factor := range map[int64]float64{5000: 1, 10: 3} {
		q := question(t, 0, "x", "y", "z")
		price := providers.Price{
			Rates: providers.Rates{Input: 1, Output: 2},
			Long:  &providers.LongRates{Above: above, Rates: providers.Rates{Input: 3, Output: 6}},
		}
		q.Settings.Prices = map[string]providers.Price{"one:m": price, "two:m": price}
		made := mustEstimate(t, q)
		want := factor * (float64(made.Total.Input)*1e-6 + float64(made.Total.Output)*2e-6)
		if made.Total.Input < 2*5000 || made.CostUSD == nil || math.Abs(*made.CostUSD-want) > 1e-9 {
			t.Errorf("%d tokens, long above %d: cost %v, want %v", made.Total.Input, above, made.CostUSD, want)
		}
	}
}

// Listed runs have models of their own beside the judges, and files of their own; two
// files with one text are a call all the same.
func TestListedRuns(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "x")
	e := q.Evaluation
	e.Runs = &eval.Runs{
		Models: []eval.Judge{
			{Name: "three:m", Provider: "three", Model: "m"},
			{Name: "one:m", Provider: "one", Model: "m", Overrides: map[string]any{"max_completion_tokens": 700.0}},
		},
		Files: []eval.Document{{ID: "a.md", Hash: eval.TextHash("x")}, {ID: "b.md", Hash: eval.TextHash("x")}},
		List:  []eval.FileRun{{ID: "r1", Model: 1, FileB: 1}, {ID: "r2", FileB: 1}, {ID: "r3", Model: 1, FileB: 1}},
	}
	q.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "one"}, Kind: ratelimit.Concurrency, Max: 1}}
	q.Settings.Prices = map[string]providers.Price{"one:m": {Rates: providers.Rates{Output: 10}}, "two:m": {}}
	var err error
	if _, q.Plans, err = enqueue.Plan(e.ID(), e, q.Settings); err != nil {
		t.Fatal(err)
	}
	made := mustEstimate(t, q)
	want := []estimate.Part{
		{Kind: eval.KindRuns, Judge: "three:m", Runs: 1, Calls: 1, Input: 2, Output: estimate.TokensPerListedRun},
		{Kind: eval.KindRuns, Judge: "one:m", Runs: 2, Calls: 2, Input: 3, Output: 1400, OutputBound: 1400},
	}
	if diff := cmp.Diff(want, made.Parts[4:]); diff != "" {
		t.Errorf("parts of listed runs (-want +got):\n%s", diff)
	}
	// Of judge a, 2 singles and no call on the two equal texts; of the runs, 2.
	if len(made.Bounds) != 1 || made.Bounds[0].Calls != 4 || made.Bounds[0].Seconds != 4 {
		t.Errorf("bounds: got %+v, want 4 calls one after the other", made.Bounds)
	}
	if made.CostUSD != nil {
		t.Errorf("cost without the price of a model: %v, want none", *made.CostUSD)
	}
	q.Settings.Prices["three:m"] = providers.Price{Rates: providers.Rates{Output: 1}}
	made = mustEstimate(t, q)
	perJudge := 2 * 2 * float64(estimate.TokensPerCriterion) * 10 / 1e6
	if want := perJudge + (1400*10+1000*1)/1e6; made.CostUSD == nil || math.Abs(*made.CostUSD-want) > 1e-9 {
		t.Errorf("cost: got %v, want %v", made.CostUSD, want)
	}
}

// A verdict in two calls reads the answer of the first in the second, which has
// limits and a price of its own.
func TestTwoCalls(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "x", "y", "z") // 3 + 18 calls of each judge
	q.Evaluation.Jsonify = &eval.Jsonify{Provider: "three", Model: "w", MaxOutputTokens: 200}
	one := mustEstimate(t, q)
	q.TwoCalls = func(kind eval.Kind, judge eval.Judge) bool { return kind == eval.KindPairwise && judge.Name == "a" }
	q.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "three"}, Kind: ratelimit.Concurrency, Max: 1}}
	q.Settings.Prices = map[string]providers.Price{"one:m": {}, "two:m": {}, "three:w": {Rates: providers.Rates{Output: 10}}}
	two := mustEstimate(t, q)
	if got, want := two.Total.Calls, one.Total.Calls+18; got != want || two.Total.Runs != one.Total.Runs {
		t.Errorf("%d calls for %d runs, want %d for %d", got, two.Total.Runs, want, one.Total.Runs)
	}
	var first, second estimate.Part
	for i, part := range two.Parts {
		if part.Judge == "JSON by three:w" {
			first, second = two.Parts[i-1], part
		}
	}
	if first.Judge != "a" || second.Kind != eval.KindPairwise || second.Calls != 18 || second.Runs != 0 {
		t.Fatalf("parts %+v, want one more behind that of judge a", two.Parts)
	}
	if frame := second.Input - first.Output; frame < 18*200 || frame > 18*600 {
		t.Errorf("%d input tokens beside the %d of the answers, want those of 18 short prompts", frame, first.Output)
	}
	q.TokensOut = 150
	longer := mustEstimate(t, q)
	if got := longer.Total.Input - two.Total.Input; got != 18*150-first.Output {
		t.Errorf("longer answers have %d more tokens read, want %d", got, 18*150-first.Output)
	}
	if second.Output != first.Output || second.OutputBound != 18*200 {
		t.Errorf("output %d, %d at most; want %d, %d", second.Output, second.OutputBound, first.Output, 18*200)
	}
	if len(two.Bounds) != 1 || two.Bounds[0].Calls != 18 {
		t.Errorf("bounds %+v, want one of 18 calls", two.Bounds)
	}
	if want := float64(second.Output) * 10e-6; two.CostUSD == nil || math.Abs(*two.CostUSD-want) > 1e-9 {
		t.Errorf("cost %v, want %v", two.CostUSD, want)
	}
}

// TestUntilIsEstimated: an evaluation that may end early says when this is checked first, with
// the runs of the phases before.
func TestUntilIsEstimated(t *testing.T) {
	t.Parallel()
	q := question(t, 0, "one", "two", "three", "four", "five", "six")
	if made := mustEstimate(t, q); made.Until != nil {
		t.Errorf("without until: %+v", made.Until)
	}
	q.Settings.Until = &record.Until{Top: 2}
	got := mustEstimate(t, q).Until
	want := estimate.Until{Top: 2, Confidence: 0.95, Pairs: 18, Runs: 6*2 + 18*2*2*3}
	if got == nil || *got != want {
		t.Errorf("until: %+v, want %+v", got, want)
	}
}

// TestBatchedEstimate: calls through batch endpoints cost what batches cost, and no limit of other calls bounds them.
func TestBatchedEstimate(t *testing.T) {
	t.Parallel()
	q := question(t, 0, strings.Repeat("text ", 100), "short", "third")
	price := providers.Price{Rates: providers.Rates{Input: 2, Output: 8}, Tiers: map[string]float64{providers.TierBatch: 0.5}}
	q.Settings.Prices = map[string]providers.Price{"one:m": price, "two:m": price}
	q.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "one"}, Kind: ratelimit.Requests, Max: 1, Period: time.Minute}}
	alone := mustEstimate(t, q)
	q.Settings.Batch = &record.Batch{Models: []string{"one:m", "two:m"}, Runs: 100, Deadline: time.Hour}
	batched := mustEstimate(t, q)
	if math.Abs(*batched.CostUSD-*alone.CostUSD/2) > 1e-9 {
		t.Errorf("batches cost $%g, other calls $%g", *batched.CostUSD, *alone.CostUSD)
	}
	if want := (&estimate.Batch{Calls: batched.Total.Calls, Deadline: 3600}); !cmp.Equal(batched.Batch, want) || len(batched.Bounds) > 0 {
		t.Errorf("got %+v and the bounds %+v, want %+v and none", batched.Batch, batched.Bounds, want)
	}
	var text strings.Builder
	if err := batched.Write(&text, 80, estimate.Sources{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "in batches; what they") || strings.Contains(text.String(), "\nduration") {
		t.Errorf("the text is\n%s", text.String())
	}
}
