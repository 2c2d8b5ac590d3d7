package messages

import (
	"net/http"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	dialect := providertest.Dialect{
		New: func(url string, client *http.Client, caps providers.CapabilitiesOf) (providers.Provider, error) {
			return New(Config{BaseURL: url, HTTPClient: client, Capabilities: caps})
		},
		Capabilities:    providers.Capabilities{JSON: providers.JSONSchema, Search: "web_search_20250305", Reasoning: providers.ReasoningAdaptive},
		KeyHeader:       "X-Api-Key",
		Extra:           map[string]any{"service_tier": providertest.Mark, "model": "another", "messages": "none", "system": "none", "stream": true},
		WithoutLogProbs: true,
	}
	providertest.Run(t, dialect)
	providertest.RunBatches(t, dialect)
}
