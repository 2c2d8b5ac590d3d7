package estimate_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// mixed asks three judges: the first has a flex tier and batches, the second batches alone, and the third neither.
func mixed(t *testing.T) estimate.Question {
	t.Helper()
	q := question(t, 0, "x", "y", "z")
	e := q.Evaluation
	e.Judges = append(e.Judges, eval.Judge{Name: "c", Provider: "three", Model: "m"})
	e.Single, e.Pairwise.Trials = nil, 2
	rates := providers.Rates{Input: 1, Output: 2}
	q.Settings.Prices = map[string]providers.Price{
		"one:m":   {Rates: rates, Tiers: map[string]float64{"flex": 0.5, "batch": 0.25}},
		"two:m":   {Rates: rates, Tiers: map[string]float64{"batch": 0.5}},
		"three:m": {Rates: rates},
	}
	q.Settings.Limits = []ratelimit.Limit{
		{Scope: ratelimit.Scope{Provider: "one"}, Kind: ratelimit.Requests, Max: 1, Period: time.Minute, Burst: 1},
		{Scope: ratelimit.Scope{Provider: "three"}, Kind: ratelimit.Requests, Max: 6, Period: time.Minute, Burst: 1},
	}
	q.Capabilities = func(judge eval.Judge) providers.Capabilities {
		return providers.Capabilities{Batch: judge.Provider != "three"}
	}
	return planned(t, q)
}

// planned returns a question with the plans of its evaluation, which was changed.
func planned(t *testing.T, q estimate.Question) estimate.Question {
	t.Helper()
	var err error
	if _, q.Plans, err = enqueue.Plan(q.Evaluation.ID(), q.Evaluation, q.Settings); err != nil {
		t.Fatal(err)
	}
	return q
}

// costs returns the cost in USD of each part at the standard price of a dollar for a million tokens of input and two of
// output.
func costs(parts []estimate.Part) []float64 {
	var all []float64
	for _, p := range parts {
		all = append(all, (float64(p.Input)+2*float64(p.Output))/1e6)
	}
	return all
}

// nearly compares costs up to a nano-USD for each of their terms.
var nearly = cmpopts.EquateApprox(0, 1e-8)

func usd(amount float64) *float64 { return &amount }

// Each way is priced by the judges that can be asked so, says how many calls these make, and is bounded by the limits of
// the calls that are left to it.
func TestWays(t *testing.T) {
	t.Parallel()
	made := mustEstimate(t, mixed(t))
	each := costs(made.Parts)
	a, b, c := each[0], each[1], each[2]
	rate := func(provider, rest string) string { return "provider " + provider + ": " + rest + " requests/min" }
	want := []estimate.Way{
		{Way: estimate.AsItIs, Calls: 36, CostUSD: usd(a + b + c), Seconds: 11*60 + 1, Limit: rate("one", "1")},
		{
			Way: estimate.Flex, Setting: "service_tier: flex", Calls: 36, Changed: 12, Judges: []string{"a"},
			CostUSD: usd(a/2 + b + c), Seconds: 11*60 + 1, Limit: rate("one", "1"),
		},
		{
			Way: estimate.InBatches, Setting: "batch: prefer", Calls: 36, Changed: 24, CostUSD: usd(a/4 + b/2 + c),
			Seconds: 11*10 + 1, Limit: rate("three", "6"), Deadline: 86400,
		},
	}
	got := made.Ways[:3]
	if diff := cmp.Diff(want, got, nearly, cmpopts.IgnoreFields(estimate.Way{}, "Note")); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
	for _, w := range made.Ways[3:] {
		if w.Way != estimate.AnotherDesign || w.Calls >= 36 || *w.CostUSD >= a+b+c || w.Seconds >= made.Seconds || w.Limit == "" {
			t.Errorf("after these comes %+v, want designs of fewer calls", w)
		}
	}
}

// What the file says already is no other way, and what it rules out is none. The first judge is asked in the flex tier,
// the third in one of unknown price.
func TestWaysOfATier(t *testing.T) {
	t.Parallel()
	q := mixed(t)
	q.Evaluation.Judges[0].Overrides = map[string]any{"service_tier": "flex"}
	q.Evaluation.Judges[2].Overrides = map[string]any{"service_tier": "priority"}
	named := func(q estimate.Question) (all []string) {
		for _, w := range mustEstimate(t, planned(t, q)).Ways {
			if w.Way != estimate.AnotherDesign {
				all = append(all, w.Way+"|"+w.Setting)
			}
		}
		return all
	}
	if diff := cmp.Diff([]string{"as_it_is|", "standard|no service_tier", "batch|batch: prefer, no service_tier"}, named(q)); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}

	made := mustEstimate(t, planned(t, q))
	each := costs(made.Parts)
	if now := made.Ways[0]; now.CostUSD != nil || made.CostUSD != nil || !cmp.Equal(made.Unpriced, []string{"three:m (priority)"}) {
		t.Errorf("a tier of unknown price costs %v, and %q are unknown", now.CostUSD, made.Unpriced)
	}
	if diff := cmp.Diff(usd(each[0]+each[1]+each[2]), made.Ways[1].CostUSD, nearly); diff != "" {
		t.Errorf("cost in the standard tier (-want +got):\n%s", diff)
	}

	q.Settings.Until = &record.Until{Top: 1}
	q.Evaluation.Pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 1}
	if diff := cmp.Diff([]string{"as_it_is|", "standard|no service_tier"}, named(q)); diff != "" {
		t.Errorf("ways with until (-want +got):\n%s", diff)
	}
	q = mixed(t)
	q.Evaluation.Grounding = eval.Required
	if diff := cmp.Diff([]string{"as_it_is|", "flex|service_tier: flex"}, named(q)); diff != "" {
		t.Errorf("ways with searches (-want +got):\n%s", diff)
	}
}

// With batches in the file, the others are asked at once, and flex means to leave batches.
func TestWaysOutOfBatches(t *testing.T) {
	t.Parallel()
	q := mixed(t)
	q.Settings.Batch = &record.Batch{Models: []string{"one:m", "two:m"}, Runs: 100, Deadline: time.Hour}
	q.TwoCalls = func(_ eval.Kind, judge eval.Judge) bool { return judge.Name == "b" } // which no batch can do
	q.Evaluation.Jsonify = &eval.Jsonify{Provider: "three", Model: "m"}
	made := mustEstimate(t, planned(t, q))
	each := costs(made.Parts) // of a, b, its JSON, c
	rest := each[1] + each[2] + each[3]
	want := []estimate.Way{
		{Way: estimate.AsItIs, Calls: 48, Changed: 12, CostUSD: usd(each[0]/4 + rest), Deadline: 3600},
		{Way: estimate.Standard, Setting: "batch: off", Calls: 48, CostUSD: usd(each[0] + rest)},
		{
			Way: estimate.Flex, Setting: "service_tier: flex, batch: off", Calls: 48, Changed: 12, Judges: []string{"a"},
			CostUSD: usd(each[0]/2 + rest),
		},
	}
	if diff := cmp.Diff(want, made.Ways[:3], nearly, cmpopts.IgnoreFields(estimate.Way{}, "Note", "Seconds", "Limit")); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
	if made.Batch == nil || made.Batch.Calls != 12 {
		t.Errorf("%+v in batches, want 12 calls", made.Batch)
	}
}

// What is recorded costs nothing in any way, and what earlier evaluations have answered nothing unless it is asked again.
func TestWaysWithKnownRuns(t *testing.T) {
	t.Parallel()
	q := mixed(t)
	q.Known = estimate.Known{
		Recorded: []map[int]bool{{0: true, 1: true, 2: true, 100: true}},
		Answered: []map[int]bool{{3: true, 4: true, 5: true, 6: true, 7: true, 8: true}},
	}
	made := mustEstimate(t, q)
	if made.Total.Calls != 27 || made.Total.Recorded != 3 || made.Total.Answered != 6 {
		t.Errorf("got %+v, want 27 calls", made.Total)
	}
	calls := map[string]int{}
	for _, w := range made.Ways {
		if w.Way != estimate.AnotherDesign {
			calls[w.Way] = w.Calls
		}
	}
	if diff := cmp.Diff(map[string]int{estimate.AsItIs: 27, estimate.Flex: 27, estimate.InBatches: 27, estimate.AskedAnew: 33}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	for i := range 36 {
		q.Known.Answered[0][i] = true
	}
	q.Known.Recorded = nil
	made = mustEstimate(t, q)
	if len(made.Ways) != 2 || made.Total.Calls != 0 || *made.CostUSD != 0 || made.Ways[1].Calls != 36 || *made.Ways[1].CostUSD == 0 {
		t.Errorf("everything is known: %+v, want nothing to ask, or everything anew", made.Ways)
	}
}

// Reading from a cache is never expected, only possible: where a beginning repeats, is long enough and is cheaper to read.
func TestCachesAtBest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("words of a long text ", 400) // 2,600 tokens
	read, write := 0.1, 1.25
	for _, tt := range []struct {
		name  string
		texts int
		can   providers.Capabilities
		write *float64
		calls int // of the 2 judges, that read
	}{
		{"a key", 6, providers.Capabilities{PromptCache: providers.PromptCacheKey, CacheMinimum: 1024}, nil, 2 * (30 - 6)},
		{"marks, beyond the first calls", 9, providers.Capabilities{PromptCache: providers.PromptCacheMarks, CacheMinimum: 1024}, &write, 2 * (72 - 32 - 9)},
		{"marks, of too few calls", 6, providers.Capabilities{PromptCache: providers.PromptCacheMarks, CacheMinimum: 1024}, &write, 0},
		{"a text that is too short", 6, providers.Capabilities{PromptCache: providers.PromptCacheKey, CacheMinimum: 4096}, nil, 0},
		{"nothing is told", 6, providers.Capabilities{}, nil, 0},
	} {
		var texts []string
		for i := range tt.texts {
			texts = append(texts, wording.Count(i)+long)
		}
		q := question(t, 0, texts...)
		q.Evaluation.Single, q.Evaluation.Pairwise.Trials = nil, 1
		price := providers.Price{Rates: providers.Rates{Input: 1, Output: 2, CachedInput: &read, CacheWrite: tt.write}}
		q.Settings.Prices = map[string]providers.Price{"one:m": price, "two:m": price}
		q.Capabilities = func(eval.Judge) providers.Capabilities { return tt.can }
		made := mustEstimate(t, planned(t, q))
		way := made.Ways[1]
		if got := way.Way == estimate.FromCaches; got != (tt.calls > 0) {
			t.Errorf("%s: from caches: %t, want %t", tt.name, got, tt.calls > 0)
			continue
		}
		if tt.calls == 0 {
			continue
		}
		saves := (*made.CostUSD - *way.CostUSD) * 1e6 / float64(tt.calls) // tokens a call, at 0.9 of their price
		if tt.write != nil {
			saves += 2 * float64(tt.texts) * 0.25 * 2900 / float64(tt.calls)
		}
		if way.Changed != tt.calls || !way.AtBest || math.Abs(saves/0.9-2900) > 200 {
			t.Errorf("%s: %+v saves %.0f tokens a call, want %d calls that read about 2,900", tt.name, way, saves/0.9, tt.calls)
		}
	}
}

// Two evaluations after each other: what only one of them has is combined with how the other is asked.
func TestWaysOfBothParts(t *testing.T) {
	t.Parallel()
	q := mixed(t)
	second := mustEstimate(t, q)
	q.Settings.Prices = map[string]providers.Price{"one:m": {Rates: providers.Rates{Input: 1}}, "two:m": {}, "three:m": {}}
	q.Capabilities = nil
	first := mustEstimate(t, q)
	both := first.Then(second)
	if len(both.Ways) != len(second.Ways) {
		t.Fatalf("%d ways, want %d", len(both.Ways), len(second.Ways))
	}
	for i, w := range both.Ways {
		of := second.Ways[i]
		alone := first.Ways[0]
		if of.Way == estimate.AnotherDesign {
			alone = first.Ways[i-2]
		}
		want := of
		want.Calls, want.CostUSD, want.Seconds = of.Calls+alone.Calls, usd(*of.CostUSD+*alone.CostUSD), of.Seconds+alone.Seconds
		if diff := cmp.Diff(want, w, nearly, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(estimate.Way{}, "Limit")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", w.Way, w.Setting, diff)
		}
	}
}

// TestWaysInWords is what a person reads: a row for each way, which fits into 80 columns also if numbers are large.
func TestWaysInWords(t *testing.T) {
	t.Parallel()
	q := mixed(t)
	q.Known.Answered = []map[int]bool{{0: true, 1: true}}
	made := mustEstimate(t, q)
	var text strings.Builder
	if err := made.Write(&text, 80, estimate.Sources{Latency: "--latency", Known: "2 of 36 runs are known from ev-1"}); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(text.String(), ")")
	want := `: 36 runs, at least 34 calls, plus retries and repairs

to write               calls       cost    at least  limited by
as it is now              34   $0.02782       10m1s  1 requests/min
service_tier: flex  11 of 34   $0.02318       10m1s  1 requests/min
batch: prefer       22 of 34   $0.01665  no promise  24 hours a batch
--no-reuse                36   $0.02943       11m1s  1 requests/min
pairs: sample:0.2          8  $0.005886        2m1s  1 requests/min
order: random             18   $0.01472        5m1s  1 requests/min
pairs: swiss              24   $0.01962        7m1s  1 requests/min

service_tier: flex      in the overrides of a; slower, and refused while the
                        provider has no room for it
batch: prefer           22 calls in batches; what they do not answer in time is
                        asked alone, at the full price
--no-reuse              or reuse: false; asks again what earlier evaluations
                        have answered
pairs: sample:0.2       intervals are about twice as wide
order: random           a judge's bias for a place is not seen
pairs: swiss            places the top well, the middle less surely
keys      pairs, order and top_n are keys of pairwise

known     2 of 36 runs are known from ev-1: ` + "`run`" + ` does not ask them again
duration  at least 10m1s, at 1s per call (--latency)
limit     provider one: 1 requests/min
          set by concurrency.per_provider.one.requests_per_minute
          then 1m51s by provider three: 6 requests/min

phase     judge  runs  no call  known  calls  tokens in  tokens out
pairwise  a        12        0      1     11      7,305         990
pairwise  b        12        0      1     11      7,305         550
pairwise  c        12        0      0     12      7,969       1,080
all                36        0      2     34     22,579       2,620

tokens    in: one per 3.2 bytes of prompt, measured on 36 prompts of the plan
          out: typical of short verdicts, without reasoning; set
          max_completion_tokens to bound them
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	for i := range made.Ways {
		w := &made.Ways[i]
		w.Calls, w.Changed, w.Seconds = 2_997_000, 1_500_000, 1e9
		*w.CostUSD = 1234567.89
	}
	text.Reset()
	if err := made.Write(&text, 80, estimate.Sources{}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(text.String(), "\n")[2:]
	for i, w := range made.Ways {
		row := rows[1+i]
		if wording.Columns.StringWidth(row) > 80 || !strings.Contains(row, "2,997,000") || !strings.Contains(row, "$1,234,567.89") ||
			w.Setting != "" && !strings.HasPrefix(row, w.Setting[:5]) {
			t.Errorf("row of %s: %q", w.Way, row)
		}
	}
}

// Prompts of several turns are asked turn by turn, never in batches.
func TestConversationsAreInNoBatch(t *testing.T) {
	t.Parallel()
	q := mixed(t)
	e := q.Evaluation
	e.Pairwise, e.Judges, e.Documents = nil, nil, nil
	e.Prompts = &eval.Prompts{Models: []eval.Judge{{Name: "m", Provider: "one", Model: "m"}}, Format: eval.PromptsExperiment}
	for i, text := range []string{`{"prompt": "one question"}`, `{"prompt": ["first", "second", "third"]}`} {
		hash := eval.TextHash(text)
		q.Texts[hash] = text
		e.Prompts.Rows = append(e.Prompts.Rows, eval.Document{ID: "line " + wording.Count(i+1), Hash: hash})
		e.Prompts.List = append(e.Prompts.List, eval.Prompt{ID: wording.Count(i), Row: i})
	}
	made := mustEstimate(t, planned(t, q))
	batch := made.Ways[len(made.Ways)-1]
	if batch.Way != estimate.InBatches || batch.Calls != 4 || batch.Changed != 1 {
		t.Errorf("got %+v, want 1 of 4 calls in batches", batch)
	}
}
