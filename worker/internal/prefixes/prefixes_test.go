package prefixes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// vendor is a cache that finds what was kept within its life, and bills as Anthropic does.
type vendor struct {
	kept map[string]time.Time
	deaf bool // it keeps nothing, though it charges for it
	// Tokens billed, and what they would have been without caches.
	billed, plain float64
	marked        int
}

func (v *vendor) answer(r *providers.Request, now time.Time) providers.Usage {
	used := providers.Usage{Reported: true}
	all := r.Messages[0].Content
	used.Input = int64(len(all) / 4)
	for _, p := range r.Prefixes {
		if !p.Keep {
			continue
		}
		v.marked++
		begins := all[:p.Offset]
		if at, ok := v.kept[begins]; ok && now.Sub(at) < Life {
			used.Cached, used.Written = int64(len(begins)/4), 0
		} else {
			used.Written = int64(len(begins)/4) - used.Cached
		}
		if !v.deaf {
			v.kept[begins] = now
		}
	}
	v.plain += float64(used.Input)
	v.billed += float64(used.Input) + 0.25*float64(used.Written) - 0.9*float64(used.Cached)
	return used
}

var anthropic = func() *providers.Price {
	read, write := 0.1, 1.25
	return &providers.Price{Rates: providers.Rates{Input: 1, CachedInput: &read, CacheWrite: &write}}
}()

// request asks which of two documents is better.
func request(first, second int) *providers.Request {
	text := func(n int) string { return fmt.Sprintf("%d %s", n, strings.Repeat("word ", 2000)) }
	begins := "Judge these: " + text(first)
	return &providers.Request{
		Messages: []providers.Message{{Role: providers.User, Content: begins + text(second)}},
		Prefixes: []providers.Prefix{{Offset: len("Judge these: ")}, {Offset: len(begins)}},
	}
}

// play makes so many calls about pairs of documents, one after the other at a pace.
func play(t *testing.T, v *vendor, documents, runs int, pace time.Duration) {
	t.Helper()
	seen, now, random := New(), time.Unix(0, 0), rand.New(rand.NewPCG(1, 2))
	terms := Terms{Way: providers.PromptCacheMarks, Minimum: 1024, PerByte: 0.25, Price: anthropic, Runs: runs}
	for n := range runs {
		r := request((n+random.IntN(2))%documents, random.IntN(documents))
		call := seen.Begin(Of{Model: "m"}, r, terms, now)
		call.Answered(v.answer(r, now))
		now = now.Add(pace)
	}
}

// An evaluation costs less with caches where documents come back within the life of a cache, and never more where it is
// short, slow, or the cache forgets.
func TestCachesAreWrittenOnlyWhereItPays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		documents, runs int
		pace            time.Duration
		deaf            bool
		least, most     float64 // of the plain bill
	}{
		"every document comes back":          {documents: 20, runs: 2000, pace: time.Second, least: 0.5, most: 0.65},
		"200 documents, a call a second":     {documents: 200, runs: 4000, pace: time.Second, least: 0.5, most: 0.75},
		"ten pairs":                          {documents: 5, runs: 20, pace: time.Second, least: 1, most: 1},
		"it ends when it could begin to pay": {documents: 60, runs: 110, pace: time.Second, least: 0, most: 1},
		"a call in a minute":                 {documents: 20, runs: 500, pace: time.Minute, least: 0.99, most: 1},
		"a cache that keeps nothing":         {documents: 20, runs: 2000, pace: time.Second, deaf: true, least: 1, most: 1.01},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &vendor{kept: map[string]time.Time{}, deaf: test.deaf}
			play(t, v, test.documents, test.runs, test.pace)
			if share := v.billed / v.plain; share < test.least || share > test.most {
				t.Errorf("billed %.3f of the plain bill with %d marks, want %v to %v", share, v.marked, test.least, test.most)
			} else {
				t.Logf("billed %.3f", share)
			}
		})
	}
}

// Nothing is kept without a price that says that it pays, and nothing that is too short.
func TestNothingIsKeptOnSuspicion(t *testing.T) {
	t.Parallel()
	read, write, dear := 0.1, 1.25, 1.0
	for name, terms := range map[string]Terms{
		"no price":           {Way: providers.PromptCacheMarks},
		"no price of reads":  {Way: providers.PromptCacheMarks, Price: &providers.Price{Rates: providers.Rates{Input: 1, CacheWrite: &write}}},
		"no price of writes": {Way: providers.PromptCacheMarks, Price: &providers.Price{Rates: providers.Rates{Input: 1, CachedInput: &read}}},
		"reads cost as much": {Way: providers.PromptCacheMarks, Price: &providers.Price{Rates: providers.Rates{Input: 1, CachedInput: &dear, CacheWrite: &write}}},
		"too short":          {Way: providers.PromptCacheMarks, Price: anthropic, Minimum: 4096},
		"a key only":         {Way: providers.PromptCacheKey, Price: anthropic},
		"untold":             {Price: anthropic},
	} {
		seen := New()
		terms.PerByte, terms.Runs = 0.25, 1000
		for range 100 {
			r := request(1, 2)
			seen.Begin(Of{Model: "m"}, r, terms, time.Unix(0, 0)).Answered(providers.Usage{})
			if r.Prefixes[0].Keep || r.Prefixes[1].Keep {
				t.Fatalf("%s: a beginning is kept", name)
			}
		}
	}
}

// Requests with one beginning name one cache, once beginnings come back; those with another schema have another beginning.
func TestKeys(t *testing.T) {
	t.Parallel()
	seen, keys := New(), map[string]map[int]bool{}
	terms := Terms{Way: providers.PromptCacheKey, Minimum: 1024, PerByte: 0.25, Runs: 1000}
	for n := range 200 {
		r := request(n%4, n)
		r.Schema = &providers.Schema{Schema: []byte(fmt.Sprint(n % 2))}
		seen.Begin(Of{Model: "m"}, r, terms, time.Unix(0, 0)).Answered(providers.Usage{})
		if n < enough-1 && r.CacheKey != "" {
			t.Fatalf("call %d has a key", n)
		}
		if n > 2*enough {
			if keys[r.CacheKey] == nil {
				keys[r.CacheKey] = map[int]bool{}
			}
			keys[r.CacheKey][n%4] = true
		}
	}
	if len(keys) != 4 || keys[""] != nil {
		t.Errorf("keys %v, want one for each of 4 documents", keys)
	}
}

// Calls in flight read nothing that another in flight writes.
func TestCallsInFlightShareNothing(t *testing.T) {
	t.Parallel()
	seen := New()
	terms := Terms{Way: providers.PromptCacheMarks, Minimum: 1024, PerByte: 0.25, Price: anthropic, Runs: 10_000}
	for round := range 50 { // each document is asked about by all calls in flight at once
		now := time.Unix(int64(round), 0)
		var calls []*Call
		for range 8 {
			r := request(round, 1)
			calls = append(calls, seen.Begin(Of{Model: "m"}, r, terms, now))
			if r.Prefixes[1].Keep {
				t.Fatal("a beginning is kept that no later call reads")
			}
		}
		for _, call := range calls {
			call.Answered(providers.Usage{})
		}
	}
}
