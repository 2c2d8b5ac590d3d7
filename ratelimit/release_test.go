package ratelimit

import (
	"testing"
	"time"
)

// A lease end that no call can be waiting for shares a later script. Any other is written at
// once.
func TestReleasesThatCount(t *testing.T) {
	t.Parallel()
	now := time.Now()
	inFlight := &rule{Limit: Limit{Kind: Concurrency, Max: 10}, id: "c", way: byLeases}
	adaptive := &rule{Limit: Limit{Kind: Concurrency, Max: 10, Adaptive: true}, id: "c", way: byLeases}
	requests := &rule{Limit: Limit{Kind: Requests, Max: 600}, id: "r", way: byRate}
	tokens := &rule{Limit: Limit{Kind: Tokens, Max: 600}, id: "t", way: byRate}
	budget := &rule{Limit: Limit{Kind: Cost, Max: 600}, id: "b", way: byBudget}
	window := &rule{Limit: Limit{Kind: Tokens, Max: 600}, id: "w", way: byWindow}
	room := map[string]others{"c": {1, now}}
	for name, c := range map[string]struct {
		release release
		held    int64
		others  map[string]others
		want    bool
	}{
		"under no limit":                   {release{}, 0, nil, false},
		"under half of a limit":            {release{rules: []*rule{inFlight}}, 3, room, false},
		"at half of a limit":               {release{rules: []*rule{inFlight}}, 4, room, true},
		"what others hold is not known":    {release{rules: []*rule{inFlight}}, 0, nil, true},
		"what others hold is an old story": {release{rules: []*rule{inFlight}}, 0, map[string]others{"c": {1, now.Add(-roomFor)}}, true},
		"a limit that adapts":              {release{rules: []*rule{adaptive}}, 3, room, true},
		"its caller waits":                 {release{awaited: true}, 0, nil, true},
		"a call that never was":            {release{rules: []*rule{requests}, unused: true}, 0, nil, true},
		"fewer tokens, none counted":       {release{rules: []*rule{inFlight, requests}, more: Used{Input: -1}}, 3, room, false},
		"fewer tokens, which are counted":  {release{rules: []*rule{inFlight, tokens}, more: Used{Input: -1}}, 3, room, true},
		"a budget":                         {release{rules: []*rule{budget}}, 0, nil, true},
		"a window of tokens":               {release{rules: []*rule{window}}, 0, nil, true},
	} {
		l := &Limiter{held: map[string]int64{"c": c.held}, others: c.others}
		if got := l.counts(&c.release, now); got != c.want {
			t.Errorf("%s: counts is %t, want %t", name, got, c.want)
		}
	}
}
