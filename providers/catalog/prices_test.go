package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// The file is data: what no decoder sees is checked here.
func TestPricesFile(t *testing.T) {
	t.Parallel()
	table := priced()
	day := func(what, text string) {
		t.Helper()
		if at, err := time.Parse(time.DateOnly, text); err != nil || at.After(time.Now()) {
			t.Errorf("%s: %q, %v; want a day that has been", what, text, err)
		}
	}
	day("as_of", table.AsOf)
	used := map[string]bool{"openai-search": true}
	for name, source := range table.Sources {
		day("source "+name, source.On)
		if !strings.HasPrefix(source.At, "https://") {
			t.Errorf("source %s is %+v, want an address", name, source)
		}
	}
	for i, row := range table.Prices {
		used[row.Source] = true
		if on := table.Sources[row.Source].On; on > table.AsOf {
			t.Errorf("the prices of %v are those of %s, want a day up to %s", row.Models, on, table.AsOf)
		}
		if row.On != "" {
			day("row "+strings.Join(row.Models, ", "), row.On)
		}
		if row.Search == 0 {
			t.Errorf("row %d, %v: searches cost nothing", i+1, row.Models)
		}
		_, known := table.Sources[row.Source]
		tiers := row.Long == nil || row.Long.Above > 0 && row.Long.Input > row.Input && row.Long.Output > row.Output
		if !known || len(row.Models) == 0 || row.Input <= 0 || row.Output < row.Input || !tiers {
			t.Errorf("row %d, %+v: want a source, models, and prices that rise", i+1, row)
		}
		if read := row.CachedInput; read != nil && *read >= row.Input {
			t.Errorf("row %d, %v: cached input for %v is no cheaper than for %v", i+1, row.Models, *read, row.Input)
		}
		for _, name := range row.Providers {
			if vendor, ok := BuiltIn()[name]; !ok || vendor.BaseURL == "" {
				t.Errorf("row %d: no vendor is called %s", i+1, name)
			}
			for _, model := range row.Models {
				shadowed := func(above priceRow) bool {
					return slices.Contains(above.Providers, name) && slices.Contains(above.Models, model) && cmp.Or(above.Until, "9") >= cmp.Or(row.Until, "9") && above.From <= row.From
				}
				if slices.ContainsFunc(table.Prices[:i], shadowed) {
					t.Errorf("row %d says nothing of %s:%s: a row above it does", i+1, name, model)
				}
			}
		}
	}
	for _, row := range table.Tiers {
		used[row.Source] = true
		if _, known := table.Sources[row.Source]; !known || len(row.Factors) == 0 {
			t.Errorf("tiers %+v: want a source and factors", row)
		}
	}
	for name := range table.Sources {
		if !used[name] {
			t.Errorf("no row has its figures from %s", name)
		}
	}
}

// generatedFrom matches a file of a commit of the generated tables' source.
var generatedFrom = regexp.MustCompile(`^https://github\.com/pydantic/genai-prices/blob/[0-9a-f]{7}/prices/providers/[a-z_]+\.yml$`)

// The generated file is the generator's: each of its rows has a day of its own and a
// source, a file of a commit, and none is about a model that prices.yaml names.
func TestGeneratedPricesFile(t *testing.T) {
	t.Parallel()
	hand, generated := readPrices("prices.yaml", pricesFile), readPrices("prices_generated.yaml", generatedFile)
	if len(generated.Prices) < 40 || len(generated.Tiers) > 0 {
		t.Errorf("%d rows and %d tiers, want at least 40 rows", len(generated.Prices), len(generated.Tiers))
	}
	for name, source := range generated.Sources {
		if _, twice := hand.Sources[name]; twice || !generatedFrom.MatchString(source.At) || source.On != generated.AsOf {
			t.Errorf("source %s is %+v, want a file at a commit of %s, which prices.yaml does not have", name, source, generated.AsOf)
		}
	}
	for i, row := range generated.Prices {
		if row.On == "" || row.On > generated.AsOf {
			t.Errorf("row %d, %v, is of %q, want a day up to %s", i+1, row.Models, row.On, generated.AsOf)
		}
		for _, above := range hand.Prices {
			for _, model := range above.Models {
				if above.Providers[0] == row.Providers[0] && slices.Contains(row.Models, model) {
					t.Errorf("row %d is about %s, which prices.yaml names", i+1, model)
				}
			}
		}
	}
}

func TestPriceOfAModel(t *testing.T) {
	t.Parallel()
	november := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	openai := BuiltIn()["openai"]
	second, gateway := openai, openai
	second.Name, second.Like = "second", "openai"
	gateway.BaseURL = "http://127.0.0.1:4000/v1"
	for _, tt := range []struct {
		entry Entry
		model string
		day   time.Time
		input float64 // 0: unknown
	}{
		{openai, "gpt-5-mini", november, 0.25},
		{openai, "gpt-5-mini-2025-08-07", november, 0.25},
		{openai, "gpt-5-2025-08-07", november, 1.25},
		{openai, "gpt-5-mini-high", november, 0},
		{openai, "gpt-5.7", november, 0},
		{openai, "gpt-5.6-sol", november, 0},
		{openai, "gpt-5.6-terra", november, 2},
		{openai, "gpt-4.1-nano", november, 0.1},
		{BuiltIn()["anthropic"], "claude-opus-4-20250514", november, 15},
		{BuiltIn()["anthropic"], "claude-sonnet-5", november, 2}, // entered manually; the source has another price
		{openai, "o3-deep-research", november, 10},
		{second, "gpt-5-mini", november, 0.25},
		{gateway, "gpt-5-mini", november, 0},
		{BuiltIn()["openai-chat"], "gpt-4.1", november, 2},
		{BuiltIn()["anthropic"], "claude-haiku-4-5-20251001", november, 1},
		{BuiltIn()["google"], "gemini-3.8-flash", november, 0.75},
		{BuiltIn()["google"], "gemini-3.8-flash", november.AddDate(0, 2, 0), 1.5},
		{BuiltIn()["anthropic"], "gpt-5-mini", november, 0},
		{BuiltIn()["azure-openai"], "gpt-5-mini", november, 0},
		{Entry{Name: "local", Dialect: Chat}, "gpt-5-mini", november, 0},
	} {
		price, ok := tt.entry.Price(tt.model, tt.day)
		if price.Input != tt.input || ok != (tt.input > 0) {
			t.Errorf("%s:%s on %s costs %v, known: %t; want %v", tt.entry.Name, tt.model, tt.day.Format(time.DateOnly), price.Input, ok, tt.input)
		}
	}
	for _, name := range []string{"simulator", "test"} {
		if price, ok := BuiltIn()[name].Price("careful", november); !ok || price.Bound(1000, 1000, 10) != 0 {
			t.Errorf("%s, which calls no provider, costs %+v, known: %t; want nothing", name, price, ok)
		}
	}
	for model, want := range map[string]struct{ input, cached float64 }{
		"openai:gpt-5.5": {0.5, 0.5}, "openai-chat:gpt-5.5": {0.5, 0.5}, "anthropic:claude-opus-5": {0.5, 0.5}, "google:gemini-2.5-pro": {0.5, 1},
		"simulator:careful": {},
	} {
		name, model, _ := strings.Cut(model, ":")
		standard, _ := BuiltIn()[name].Price(model, november)
		batch, ok := standard.In(providers.TierBatch)
		if !ok || batch.Input != standard.Input*want.input || batch.Output != standard.Output*want.input ||
			standard.CachedInput != nil && *batch.CachedInput != *standard.CachedInput*want.cached {
			t.Errorf("%s:%s costs %+v in a batch, known: %t; %+v otherwise", name, model, batch, ok, standard)
		}
	}
	if _, ok := (providers.Price{Rates: providers.Rates{Input: 1}}).In(providers.TierBatch); ok {
		t.Error("a price without a factor for batches has one in a batch")
	}
	for model, want := range map[string]float64{
		"gpt-5-mini": 0.5, "gpt-6-sol": 0.5, "o3": 0.5, "gpt-4.1-mini": 0, "gpt-4o": 0, "o3-mini": 0,
	} {
		if price, _ := openai.Price(model, november); price.Tiers["flex"] != want || price.Tiers["batch"] != 0.5 {
			t.Errorf("%s costs %+v, want the factor %v for flex", model, price, want)
		}
	}
	if price, _ := BuiltIn()["google"].Price("gemini-2.5-pro", november); price.Long == nil || price.Long.Above != 200_000 || !price.SearchOnce {
		t.Errorf("gemini-2.5-pro costs %+v, want what long calls cost, and searches once a call", price)
	}
}
