package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// MostPriceDays is the age of prices, in days, above which estimates say how old they are.
const MostPriceDays = 90

// OldPrice is the oldest of a provider's prices that are older than MostPriceDays.
type OldPrice struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	AsOf     string `json:"as_of"` // year-month-day
	Days     int    `json:"days"`
}

// OldPrices returns the oldest price of each provider whose prices are out of date, sorted by provider. Prices without a
// date, and prices of zero, are never out of date.
func OldPrices(now time.Time, of ...record.Settings) []OldPrice {
	all := []OldPrice{}
	for _, s := range of {
		for _, target := range slices.Sorted(maps.Keys(s.Prices)) {
			price := s.Prices[target]
			day, err := time.Parse(time.DateOnly, price.AsOf)
			days := int(now.UTC().Sub(day) / (24 * time.Hour))
			if err != nil || days <= MostPriceDays || price.Free() && price.Search == 0 {
				continue
			}
			provider, model, _ := strings.Cut(target, ":")
			all = append(all, OldPrice{provider, model, price.AsOf, days})
		}
	}
	return oldestOfEach(all)
}

// oldestOfEach returns the oldest price of each provider, by name.
func oldestOfEach(all []OldPrice) []OldPrice {
	slices.SortStableFunc(all, func(a, b OldPrice) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.AsOf, b.AsOf))
	})
	return slices.CompactFunc(all, func(a, b OldPrice) bool { return a.Provider == b.Provider })
}

// AboutOldPrices says how old prices are and what to do, to follow "prices". It is empty if none are old.
func AboutOldPrices(old []OldPrice) string {
	const most = 3 // providers that are named
	var named []string
	for _, o := range old[:min(len(old), most)] {
		named = append(named, fmt.Sprintf("%s %s (%s, of %s)", o.Provider, wording.Counted(o.Days, "day"), o.Model, o.AsOf))
	}
	switch more := len(old) - most; {
	case len(old) == 0:
		return ""
	case more > 0:
		named = append(named, wording.Counted(more, "more provider"))
	}
	return fmt.Sprintf("older than %d days: %s; check them, and write them under prices, with as_of",
		MostPriceDays, strings.Join(named, ", "))
}
