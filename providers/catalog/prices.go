package catalog

import (
	"bytes"
	"cmp"
	_ "embed" // prices.yaml, prices_generated.yaml
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/evalfleet/evalfleet/providers"
)

//go:embed prices.yaml
var pricesFile []byte

//go:embed prices_generated.yaml
var generatedFile []byte // package prices, in tools/providers/prices, writes it

// priceTable is the content of prices.yaml, and of prices_generated.yaml.
type priceTable struct {
	AsOf    string            `json:"as_of"` // year-month-day, as all days here
	Sources map[string]source `json:"sources"`
	Tiers   []tierRow         `json:"tiers"`
	Prices  []priceRow        `json:"prices"`
}

// source says where figures come from, and the day for which they are stated.
type source struct {
	At string `json:"at"`
	On string `json:"on"`
}

// tierRow holds the factors on the prices in service tiers of Models and their versions at Providers.
type tierRow struct {
	Providers []string           `json:"providers"`
	Models    []string           `json:"models"` // empty: all
	Source    string             `json:"source"` // of Sources
	Factors   map[string]float64 `json:"factors"`
	Cached    map[string]float64 `json:"cached"` // factors on cached input where that has its own
}

// priceRow holds the prices of Models, and of their dated versions, at Providers.
type priceRow struct {
	Providers []string `json:"providers"`
	Models    []string `json:"models"`
	Source    string   `json:"source"` // of Sources
	On        string   `json:"on"`     // the day of its figures; empty: that of Source
	From      string   `json:"from"`   // first day; empty: already valid
	Until     string   `json:"until"`  // last day; empty: none is known
	providers.Price
}

// priced returns the price tables, which it reads once, on first use.
var priced = sync.OnceValue(func() priceTable {
	table, generated := readPrices("prices.yaml", pricesFile), readPrices("prices_generated.yaml", generatedFile)
	maps.Copy(table.Sources, generated.Sources)
	table.Prices = append(table.Prices, generated.Prices...)
	return table
})

func readPrices(name string, file []byte) priceTable {
	var t priceTable
	raw, err := yaml.YAMLToJSON(file)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&t)
	}
	if err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	return t
}

// PricesAsOf returns the day of the table behind Price, as year-month-day.
func PricesAsOf() string { return priced().AsOf }

// Price returns the price of a model on a day at the entry's endpoint; false if the built-in table lacks it. The table
// covers only the vendors' own addresses, because a gateway's prices are not known. Simulated calls cost nothing.
func (e Entry) Price(model string, day time.Time) (providers.Price, bool) {
	if e.Dialect == Simulator || e.Dialect == Test { // no provider is called
		return providers.Price{}, true
	}
	name := cmp.Or(e.Like, e.Name)
	if vendor, ok := BuiltIn()[name]; !ok || e.BaseURL != vendor.BaseURL {
		return providers.Price{}, false
	}
	for _, row := range priced().Prices {
		if row.isAbout(name, model, day.UTC().Format(time.DateOnly)) {
			price := row.Price
			price.AsOf = cmp.Or(row.On, priced().Sources[row.Source].On)
			if i := slices.IndexFunc(priced().Tiers, func(r tierRow) bool { return r.isAbout(name, model) }); i >= 0 {
				price.Tiers, price.TiersCached = priced().Tiers[i].Factors, priced().Tiers[i].Cached
			}
			return price, true
		}
	}
	return providers.Price{}, false
}

func (r tierRow) isAbout(provider, model string) bool {
	ofModel := func(name string) bool { return isVersion(model, name) }
	return slices.Contains(r.Providers, provider) && (len(r.Models) == 0 || slices.ContainsFunc(r.Models, ofModel))
}

// dated matches the suffix of a version that the vendor has dated.
var dated = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`)

func (r priceRow) isAbout(provider, model, day string) bool {
	return slices.Contains(r.Providers, provider) && day >= r.From && (r.Until == "" || day <= r.Until) &&
		(slices.Contains(r.Models, model) || slices.Contains(r.Models, dated.ReplaceAllString(model, "")))
}
