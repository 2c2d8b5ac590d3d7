package responses

import (
	"net/http"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	dialect := providertest.Dialect{
		New: func(url string, client *http.Client, caps providers.CapabilitiesOf) (providers.Provider, error) {
			return New(Config{BaseURL: url + "/v1", HTTPClient: client, Capabilities: caps})
		},
		Capabilities: providers.Capabilities{JSON: providers.JSONSchema, Search: "web_search", Reasoning: providers.ReasoningEffort},
		KeyHeader:    "Authorization",
		Extra:        map[string]any{"user": providertest.Mark, "model": "another", "input": "none", "stream": true, "background": true, "store": true},
	}
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		providertest.Run(t, dialect)
	})
	t.Run("jobs", func(t *testing.T) {
		t.Parallel()
		providertest.RunBackground(t, dialect)
	})
}
