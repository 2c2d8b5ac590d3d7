package ollama

import (
	"net/http"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/providertest"
	"github.com/evalfleet/evalfleet/providers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Dialect{
		New: func(url string, client *http.Client, caps providers.CapabilitiesOf) (providers.Provider, error) {
			return New(Config{BaseURL: url, HTTPClient: client, Capabilities: caps})
		},
		Capabilities:  providers.Capabilities{JSON: providers.JSONSchema, Reasoning: providers.ReasoningEffort},
		KeyHeader:     "Authorization",
		Extra:         map[string]any{"keep_alive": providertest.Mark, "model": "another", "messages": "none", "stream": true},
		WithoutLimits: true,
		WithoutHints:  true,
		Unknown:       []simulator.Failure{simulator.Refused}, // a model may decline, in its text alone
	})
}
