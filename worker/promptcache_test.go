package worker

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/generate"
	"github.com/evalfleet/evalfleet/providers/messages"
	"github.com/evalfleet/evalfleet/providers/responses"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// vendor is a provider with a prompt cache, and the request fields that control it.
type vendor struct {
	name   string
	manner simulator.Manner
	way    providers.PromptCache
	open   func(transport.Config) (providers.Provider, error)
}

var vendors = []vendor{
	{"anthropic", simulator.Marked, providers.PromptCacheMarks, func(c transport.Config) (providers.Provider, error) { return messages.New(c) }},
	{"openai-older", simulator.Stepped, providers.PromptCacheKey, func(c transport.Config) (providers.Provider, error) {
		c.BaseURL += "/v1"
		return responses.New(c)
	}},
	{"openai", simulator.Broken, providers.PromptCacheBreakpoints, func(c transport.Config) (providers.Provider, error) {
		c.BaseURL += "/v1"
		return chat.New(chat.Config{Config: c})
	}},
	{"google", simulator.Stepped, providers.PromptCacheUntold, func(c transport.Config) (providers.Provider, error) { return generate.New(c) }},
}

// least is how many tokens the beginning of a prompt must have to be cached.
const least = 256

// bill is what a vendor counted of a judge's input, in tokens.
type bill struct{ input, cached, written, money float64 }

// cacheBills runs an evaluation of all pairs within items, in both orders, with a judge of each vendor. It returns what
// the vendors charged, by their own counts, at Anthropic's factors. told says whether requests have the fields that control caches.
func cacheBills(t *testing.T, items, documents int, told bool) map[string]bill {
	t.Helper()
	b := setup(t, nil)
	config := b.config()
	config.Endpoints = map[string]providers.Endpoint{}
	counts := map[string]*simulator.Simulator{}
	client := transport.NewClient(transport.Connections{})
	t.Cleanup(client.CloseIdleConnections)
	for _, v := range vendors {
		counts[v.name] = simulator.New(simulator.Config{Behaviour: simulator.Behaviour{PromptCache: &simulator.PromptCache{
			Manner: v.manner, Life: simulator.Span{Min: 5 * time.Minute, Max: 5 * time.Minute}, Minimum: least,
		}}})
		server := httptest.NewServer(counts[v.name])
		t.Cleanup(server.Close)
		known := providers.Capabilities{JSON: providers.JSONSchema, CacheMinimum: least}
		if told {
			known.PromptCache = v.way
		}
		capabilities := func(string) providers.Capabilities { return known }
		provider, err := v.open(transport.Config{BaseURL: server.URL, HTTPClient: client, Capabilities: capabilities})
		if err != nil {
			t.Fatal(err)
		}
		config.Endpoints[v.name] = providers.Endpoint{Provider: provider, Key: "k", Capabilities: capabilities}
	}

	read, write := 0.1, 1.25
	b.submit(0, func(e *eval.Evaluation, texts map[string]string, s *record.Settings) {
		e.Blind, e.Judges, s.Prices = true, nil, map[string]providers.Price{}
		for _, v := range vendors {
			e.Judges = append(e.Judges, eval.Judge{Name: v.name, Provider: v.name, Model: "average"})
			rates := providers.Rates{Input: 1, CachedInput: &read, CacheWrite: &write}
			if v.manner == simulator.Stepped {
				rates.CacheWrite = nil
			}
			s.Prices[v.name+":average"] = providers.Price{Rates: rates}
		}
		e.Items = nil
		for item := range items {
			e.Items = append(e.Items, eval.Item{ID: fmt.Sprint("q", item), Question: fmt.Sprint("What is the weather in place ", item, "?")})
			for d := range documents {
				text := strings.Repeat(fmt.Sprintf("Answer %d of %d says that it rains. ", d, item), 60)
				hash := eval.TextHash(text)
				e.Documents = append(e.Documents, eval.Document{
					ID: fmt.Sprintf("%d-%d", item, d), Item: item, Candidate: fmt.Sprint(d), Hash: hash, Bytes: len(text),
				})
				texts[hash] = text
			}
		}
	})
	stop := b.start(config)
	b.wait()
	stop()

	saved, bills := map[string]float64{}, map[string]bill{}
	_, calls := b.outcomes()
	for _, c := range calls {
		usd, known := c.Saved()
		if !known {
			t.Fatalf("call %s of %s: nobody knows what was saved: %+v", c.ID, c.Model, c.Usage)
		}
		saved[c.Model] += usd * 1e6
	}
	for name, s := range counts {
		all := s.Stats().All
		of := bill{input: float64(all.InputTokens), cached: float64(all.CachedTokens), written: float64(all.CacheWriteTokens)}
		of.money = of.input - 0.9*of.cached + 0.25*of.written
		bills[name] = of
		if got := of.input - of.money; got-saved[name+":average"] > 1 || saved[name+":average"]-got > 1 {
			t.Errorf("%s: calls are recorded as having saved %.0f tokens, and the vendor gave %.0f", name, saved[name+":average"], got)
		}
	}
	return bills
}

// If prompts share documents, the fields that control caches make an evaluation cheaper.
func TestPromptCachesSaveMoney(t *testing.T) {
	t.Parallel()
	cacheBillsFall(t, 1, 11)
}

// TestPromptCachesOfALargeEvaluation: four judges, 200 documents in pairs.
func TestPromptCachesOfALargeEvaluation(t *testing.T) {
	testrun.Slow(t)
	cacheBillsFall(t, 20, 10)
}

func cacheBillsFall(t *testing.T, items, documents int) {
	t.Helper()
	before, after := cacheBills(t, items, documents, false), cacheBills(t, items, documents, true)
	for _, v := range vendors {
		was, is := before[v.name], after[v.name]
		t.Logf("%-13s of %.0f tokens %.1f %% were cached, now %.1f %%; %.1f %% of the input were paid, now %.1f %%", v.name, is.input,
			100*was.cached/was.input, 100*is.cached/is.input, 100*was.money/was.input, 100*is.money/is.input)
		most := 0.9 * was.money
		switch v.way {
		case providers.PromptCacheUntold:
			most = is.input
		case providers.PromptCacheKey: // it had cached some by chance
			most = was.money
		}
		if is.money > most {
			t.Errorf("%s charges %.0f, and charged %.0f before", v.name, is.money, was.money)
		}
	}
}

// Ten pairs cost no more than without caches.
func TestPromptCachesOfTenPairsCostNothing(t *testing.T) {
	t.Parallel()
	before, after := cacheBills(t, 1, 5, false), cacheBills(t, 1, 5, true)
	for _, v := range vendors {
		is, most := after[v.name], before[v.name].money
		if v.manner == simulator.Stepped { // what such a cache has by chance depends on which calls are in flight at once
			most = is.input
		}
		if is.money > most || is.written > 0 {
			t.Errorf("%s charges %.0f for %.0f tokens of input, want at most %.0f", v.name, is.money, is.input, most)
		}
	}
}
