package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestPriceOf(t *testing.T) {
	t.Parallel()
	rows := map[string]providers.Price{
		"a:gpt":      {Rates: providers.Rates{Input: 1}},
		"a:gpt-*":    {Rates: providers.Rates{Input: 2}},
		"a:gpt-mini": {Rates: providers.Rates{Input: 3}},
		"a:gpt-5*":   {Rates: providers.Rates{Input: 4}},
	}
	for target, want := range map[string]float64{
		"a:gpt": 1, "a:gpt-mini": 3, "a:gpt-mini-2025": 2, "a:gpt-5-mini": 4, "a:gpt4": 0, "b:gpt": 0, "a:gp": 0,
	} {
		p, ok := priceOf(rows, target)
		if p.Input != want || ok != (want > 0) {
			t.Errorf("price of %s: %v, %t; want %v", target, p.Input, ok, want)
		}
	}
}

// The evaluation's rows override the fleet's, and its budget is a limit of its own.
func TestBudget(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.md": "a", "b.md": "b",
		"fleet.yaml": "prices: {\"simulator:*\": {input: 9, output: 9}, \"simulator:average\": {input: 0.25, cached_input: 0.025, output: 2, search: 10}}\n",
		"eval.yaml": `documents: ["*.md"]
judges: [simulator:careful, {model: simulator:average, overrides: {max_completion_tokens: 5}}]
pairwise: {pairs: all}
prices: {"simulator:care*": {input: 1, output: 2}}
budget: {usd: 0.37}
`,
	})
	fleet, err := LoadFleet(filepath.Join(dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{Fleet: fleet})
	if err != nil {
		t.Fatal(err)
	}
	cached := 0.025
	want := map[string]providers.Price{
		"simulator:careful": {Rates: providers.Rates{Input: 1, Output: 2}},
		"simulator:average": {Rates: providers.Rates{Input: 0.25, CachedInput: &cached, Output: 2}, Search: 10},
	}
	if diff := cmp.Diff(want, s.Settings.Prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if got, want := s.Settings.Budget(), int64(37*ratelimit.Dollar/100); got != want {
		t.Errorf("budget %d, want %d", got, want)
	}
	if len(s.Warnings) != 1 || !strings.HasSuffix(s.Warnings[0].Message, "those of simulator:careful") {
		t.Errorf("warnings %v, want one about the length of careful's answers", s.Warnings)
	}
}

// The input added by searches is charged, and unknown in advance.
func TestBudgetOverSearches(t *testing.T) {
	t.Parallel()
	const passed = "searches can exceed the budget, because their cost cannot be bounded before the call"
	for grounding, want := range map[string]bool{"required": true, "off": false} {
		dir := folder(t, map[string]string{
			"a.md": "a", "b.md": "b",
			"eval.yaml": `documents: ["*.md"]
judges: [{model: simulator:careful, overrides: {max_completion_tokens: 5}}]
pairwise: {pairs: all}
prices: {"simulator:*": {input: 1, output: 2}}
budget: {usd: 1}
grounding: ` + grounding + "\n",
		})
		s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(s.Warnings, func(p Problem) bool { return strings.HasSuffix(p.Message, passed) }); got != want {
			t.Errorf("grounding %s: warnings %v, want one about searches: %t", grounding, s.Warnings, want)
		}
	}
}

// A judge without a row has the built-in price, at its vendor's own address; a configured price
// overrides it, and an unknown price stays unknown.
func TestListedPrices(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.md": "a", "b.md": "b",
		"fleet.yaml": "providers: {openai-chat: {base_url: \"http://127.0.0.1:1/v1\"}}\nprices: {\"anthropic:*\": {input: 9, output: 9}}\n",
		"eval.yaml": `documents: ["*.md"]
judges: [simulator:careful, openai:gpt-5-mini, openai-chat:gpt-5-mini, anthropic:claude-sonnet-5, google:gemini-2.5-pro]
pairwise: {pairs: all}
prices: {"google:gemini-2.5-pro": {input: 1, output: 2, cache_write: 3, search: 35, search_once: true, tiers: {flex: 0.5}, long: {above: 200000, input: 4, output: 5}}}
`,
	})
	fleet, err := LoadFleet(filepath.Join(dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{Fleet: fleet})
	if err != nil {
		t.Fatal(err)
	}
	listed, _ := catalog.BuiltIn()["openai"].Price("gpt-5-mini", time.Now())
	write := 3.0
	want := map[string]providers.Price{
		"simulator:careful":         {},
		"openai:gpt-5-mini":         listed,
		"anthropic:claude-sonnet-5": {Rates: providers.Rates{Input: 9, Output: 9}},
		"google:gemini-2.5-pro": {
			Rates:  providers.Rates{Input: 1, Output: 2, CacheWrite: &write},
			Long:   &providers.LongRates{Above: 200_000, Rates: providers.Rates{Input: 4, Output: 5}},
			Search: 35, SearchOnce: true, Tiers: map[string]float64{"flex": 0.5},
		},
	}
	if diff := cmp.Diff(want, s.Settings.Prices); diff != "" || listed.Input == 0 {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if got := s.Settings.PricesAsOf; got != catalog.PricesAsOf() {
		t.Errorf("prices as of %q, want %q", got, catalog.PricesAsOf())
	}
}

// A configured price may have a day, which must not be in the future. Listed prices have that of their source.
func TestDaysOfPrices(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	load := func(day string) (*Submission, error) {
		dir := folder(t, map[string]string{"a.md": "a", "b.md": "b", "eval.yaml": `documents: ["*.md"]
judges: [simulator:careful, openai:gpt-5-mini]
pairwise: {pairs: all}
prices:
  "simulator:*": {input: 1, output: 2, as_of: ` + day + "}\n"})
		return loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{Now: now})
	}

	for _, day := range []string{"2026-05-01", `"2026-11-30"`, "2026-12-01"} { // the last has begun in the east
		s, err := load(day)
		if err != nil {
			t.Errorf("%s: %v", day, err)
			continue
		}
		if got := s.Settings.Prices["simulator:careful"].AsOf; got != strings.Trim(day, `"`) {
			t.Errorf("%s: a price of %q", day, got)
		}
		if got := s.Settings.Prices["openai:gpt-5-mini"].AsOf; got < "2025" || got > catalog.PricesAsOf() {
			t.Errorf("a listed price of %q, want the day of its source", got)
		}
	}
	for day, want := range map[string]string{
		"2026-12-02": "2026-12-02 is in the future; want today or an earlier day",
		"2026-13-01": `got "2026-13-01"; want a day as year-month-day, for example 2026-11-30`,
		"May":        `got "May"; want a day as year-month-day, for example 2026-11-30`,
		"2026":       `got "2026"; want a day as year-month-day, for example 2026-11-30`,
		"[]":         "got a list; want a day as year-month-day, for example 2026-11-30",
	} {
		if _, err := load(day); err == nil || !strings.Contains(err.Error(), ":5:") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want an error in line 5 that ends with %q", day, err, want)
		}
	}
}
