package chat

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/providertest"
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
	httpClient := transport.NewClient(transport.Connections{Slots: 4})
	t.Cleanup(httpClient.CloseIdleConnections)
	provider, err := New(Config{Config: transport.Config{BaseURL: server.URL + "/v1", HTTPClient: httpClient}})
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

func TestConformance(t *testing.T) {
	t.Parallel()
	common := providertest.Dialect{
		Capabilities: providers.Capabilities{JSON: providers.JSONSchema, Search: "web_search_options", Reasoning: providers.ReasoningEffort},
		KeyHeader:    "Authorization",
		Extra:        map[string]any{"user": providertest.Mark, "model": "another", "messages": "none", "stream": true},
	}
	openai, azure, gateway, local := common, common, common, common
	openai.Vendor = simulator.OpenAI
	openai.New = at(Config{Flavour: Flavour{MaxTokensField: "max_completion_tokens"}})
	azure.Vendor, azure.KeyHeader = simulator.Azure, "Api-Key"
	azure.Unknown = []simulator.Failure{simulator.QuotaDaily}
	azure.New = at(Config{Config: transport.Config{KeyHeader: "api-key"}, Flavour: Flavour{MaxTokensField: "max_completion_tokens"}})
	gateway.Vendor, gateway.WithoutLimits = simulator.OpenRouter, true
	gateway.Capabilities.Search = "openrouter:web_search"
	gateway.New = at(Config{Flavour: Flavour{Effort: EffortObject, Search: SearchTool, RequireParameters: true}})
	local.Vendor, local.WithoutLimits, local.WithoutHints = simulator.Compatible, true, true
	local.Unknown = []simulator.Failure{simulator.QuotaDaily, simulator.QuotaBilling, simulator.SpendLimit, simulator.Refused} // free of charge
	local.New = at(Config{})
	for _, dialect := range []providertest.Dialect{openai, azure, gateway, local} {
		t.Run(string(dialect.Vendor), func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, dialect)
			if dialect.Vendor == simulator.OpenAI {
				providertest.RunBatches(t, dialect)
			}
		})
	}
}

// at makes the provider of an endpoint.
func at(config Config) func(string, *http.Client, providers.CapabilitiesOf) (providers.Provider, error) {
	return func(url string, client *http.Client, caps providers.CapabilitiesOf) (providers.Provider, error) {
		own := config // the tests that make providers are parallel
		own.BaseURL, own.HTTPClient, own.Capabilities = url+"/v1", client, caps
		return New(own)
	}
}

// TestLimitsThatWereMetAreNamed has the simulator tell of its limits in OpenAI's
// words.
func TestLimitsThatWereMetAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config simulator.Config
		calls  int // the last one fails
		class  providers.Class
		hint   time.Duration // at least
		named  providers.LimitKind
	}{
		"rate": {simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 1, Window: time.Hour}}}}, 2, providers.RateLimited, 59 * time.Minute, providers.LimitRequests},
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := simulated(t, test.config)
			var err error
			for range test.calls {
				_, err = provider.Call(t.Context(), verdictRequest())
			}
			var failed *providers.Error
			if !errors.As(err, &failed) || failed.Class != test.class || failed.RetryAfter < test.hint || failed.Exceeded != test.named {
				t.Errorf("got %+v, want class %s, a hint of at least %v and limit %q", err, test.class, test.hint, test.named)
			}
		})
	}
}
