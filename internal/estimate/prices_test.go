package estimate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/providers"
)

// Each provider's oldest price is named if it is older than 90 days. What costs nothing is never old, and a price without
// a date might be new.
func TestOldPrices(t *testing.T) {
	t.Parallel()
	of := func(input float64, day string) providers.Price {
		return providers.Price{Rates: providers.Rates{Input: input}, AsOf: day}
	}
	s := record.Settings{Prices: map[string]providers.Price{
		"free:m": of(0, "2020-01-01"), "undated:m": of(1, ""), "recent:m": of(1, "2026-09-01"),
		"old:new": of(1, "2026-11-30"), "old:b": of(1, "2026-08-31"), "old:a": of(1, "2026-08-30"),
		"searched:m": {Search: 10, AsOf: "2025-11-30"},
	}}

	now := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	want := []estimate.OldPrice{{Provider: "old", Model: "a", AsOf: "2026-08-30", Days: 92}, {Provider: "searched", Model: "m", AsOf: "2025-11-30", Days: 365}}
	got := estimate.OldPrices(now, s)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("old prices (-want +got):\n%s", diff)
	}
	const words = "older than 90 days: old 92 days (a, of 2026-08-30), searched 365 days (m, of 2025-11-30); " +
		"check them, and write them under prices, with as_of"
	if said := estimate.AboutOldPrices(got); said != words {
		t.Errorf("got  %s\nwant %s", said, words)
	}
	if early := estimate.OldPrices(now.AddDate(0, 0, -2), s); len(early) != 1 || early[0].Provider != "searched" {
		t.Errorf("two days before, after at most 90 days: %+v, want searched alone", early)
	}
	if said := estimate.AboutOldPrices(nil); said != "" {
		t.Errorf("without old prices: %q", said)
	}

	many := estimate.AboutOldPrices([]estimate.OldPrice{{Provider: "a"}, {Provider: "b"}, {Provider: "c"}, {Provider: "d"}, {Provider: "e"}})
	if !strings.Contains(many, "2 more providers; check") {
		t.Errorf("five providers: %s", many)
	}
}
