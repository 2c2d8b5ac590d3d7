package generate

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
		Capabilities:  providers.Capabilities{JSON: providers.JSONSchema, Search: "googleSearch", Reasoning: providers.ReasoningBudget},
		KeyHeader:     "X-Goog-Api-Key",
		Extra:         map[string]any{"cachedContent": providertest.Mark, "contents": "none", "systemInstruction": "none"},
		WithoutLimits: true, // Google's answers say nothing of them
	}
	providertest.Run(t, dialect)
	providertest.RunBatches(t, dialect)
}
