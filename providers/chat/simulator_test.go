package chat

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

func simulated(t *testing.T, config simulator.Config) *Provider {
	t.Helper()
	server, err := simulator.Listen("127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	httpClient := transport.NewClient(4)
	t.Cleanup(httpClient.CloseIdleConnections)
	provider, err := New(Config{BaseURL: server.URL + "/v1", HTTPClient: httpClient})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func verdictRequest() *providers.Request {
	schema := `{"properties":{"winner_doc_id":{"enum":["a","b"]},"reason":{"type":"string"}}}`
	content := strings.Join([]string{
		`<document id="a" fence="0badcafe">`, "A clean sentence stands here.", `</document fence="0badcafe">`,
		`<document id="b" fence="0badcafe">`, "a uncleen sentense stand here", `</document fence="0badcafe">`,
		"JSON schema: " + schema,
	}, "\n")
	return &providers.Request{
		Model:    "careful",
		Messages: []providers.Message{{Role: providers.User, Content: content}},
		Schema:   &providers.Schema{Name: "verdict", Schema: json.RawMessage(schema)},
	}
}

// TestAgainstTheSimulator has the two, which share no code, understand each
// other.
func TestAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"with schemas": false, "without schemas": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := simulated(t, simulator.Config{
				Limits:    simulator.Limits{Tokens: simulator.Rates{{N: 1000, Window: time.Hour}}},
				Behaviour: simulator.Behaviour{WithoutSchemas: without},
			})
			result, err := provider.Call(t.Context(), verdictRequest())
			if without {
				if !errors.Is(err, providers.ErrAgain) {
					t.Fatalf("got %v, want ErrAgain", err)
				}
				result, err = provider.Call(t.Context(), verdictRequest())
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(result.Text, `"winner_doc_id":"a"`) || result.Finish != providers.FinishStop || result.Model != "careful" ||
				result.RequestID == "" || !result.Usage.Reported || result.Usage.Input == 0 || result.Usage.Output == 0 {
				t.Errorf("got %+v", result)
			}
			if l := result.Limits; len(l) != 1 || l[0].Kind != providers.LimitTokens || l[0].Limit != 1000 || l[0].Remaining < 500 || l[0].Remaining >= 1000 || l[0].Reset == 0 {
				t.Errorf("limits: got %+v", l)
			}
		})
	}
}

func TestSimulatedFailuresAreClassified(t *testing.T) {
	t.Parallel()
	always := simulator.Behaviour{FailRate: 1, FailStatus: 529, RetryAfter: simulator.Span{Min: 1500 * time.Millisecond, Max: 1500 * time.Millisecond}}
	for name, test := range map[string]struct {
		config simulator.Config
		calls  int // the last one fails
		class  providers.Class
		hint   time.Duration // at least
		named  providers.LimitKind
	}{
		"overload": {simulator.Config{Behaviour: always}, 1, providers.Overloaded, 1500 * time.Millisecond, ""},
		"rate":     {simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 1, Window: time.Hour}}}}, 2, providers.RateLimited, 59 * time.Minute, providers.LimitRequests},
		"day": {
			simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 1, Window: 24 * time.Hour}}}},
			2, providers.QuotaDaily, 23 * time.Hour, providers.LimitRequests,
		},
		"tokens": {
			simulator.Config{Limits: simulator.Limits{Tokens: simulator.Rates{{N: 200, Window: time.Hour}}}},
			5, providers.RateLimited, 59 * time.Minute, providers.LimitTokens,
		},
		"input": {
			simulator.Config{Limits: simulator.Limits{InputTokens: simulator.Rates{{N: 200, Window: time.Hour}}}},
			5, providers.RateLimited, 59 * time.Minute, providers.LimitInputTokens,
		},
		"output": {
			simulator.Config{Limits: simulator.Limits{OutputTokens: simulator.Rates{{N: 60, Window: time.Hour}}}},
			5, providers.RateLimited, 59 * time.Minute, providers.LimitOutputTokens,
		},
		"too large": {
			simulator.Config{Limits: simulator.Limits{Tokens: simulator.Rates{{N: 20, Window: time.Hour}}}},
			1, providers.ContextLength, 0, "",
		},
		"cut":  {simulator.Config{Behaviour: simulator.Behaviour{CutRate: 1}}, 1, providers.Transient, 0, ""},
		"hang": {simulator.Config{Behaviour: simulator.Behaviour{HangRate: 1}}, 1, providers.Timeout, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := simulated(t, test.config)
			timeout := 30 * time.Second
			if test.class == providers.Timeout {
				timeout = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			var err error
			for range test.calls {
				_, err = provider.Call(ctx, verdictRequest())
			}
			var failed *providers.Error
			if !errors.As(err, &failed) || failed.Class != test.class || failed.RetryAfter < test.hint || failed.Exceeded != test.named {
				t.Errorf("got %+v, want class %s, a hint of at least %v and limit %q", err, test.class, test.hint, test.named)
			}
		})
	}
}
