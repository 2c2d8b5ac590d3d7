package responses

import (
	"net/http"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	openai := providertest.Dialect{
		New:          at(Config{}),
		Vendor:       simulator.OpenAI,
		Capabilities: providers.Capabilities{JSON: providers.JSONSchema, Search: "web_search", Reasoning: providers.ReasoningEffort},
		KeyHeader:    "Authorization",
		Extra:        map[string]any{"user": providertest.Mark, "model": "another", "input": "none", "stream": true, "background": true, "store": true},
	}
	azure := openai
	azure.New, azure.Vendor, azure.KeyHeader = at(Config{KeyHeader: "api-key"}), simulator.Azure, "Api-Key"
	azure.WithoutLimits, azure.WithoutHints = true, true
	azure.Unknown = []simulator.Failure{simulator.QuotaDaily}
	for _, dialect := range []providertest.Dialect{openai, azure} {
		t.Run(string(dialect.Vendor), func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, dialect)
			providertest.RunBackground(t, dialect)
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
