package ollama

import (
	"net/http"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Dialect{
		New: func(url string, client *http.Client, caps providers.CapabilitiesOf) (providers.Provider, error) {
			return New(Config{BaseURL: url, HTTPClient: client, Capabilities: caps})
		},
		Capabilities:  providers.Capabilities{JSON: providers.JSONSchema, Reasoning: providers.ReasoningEffort},
		KeyHeader:     "Authorization",
		Extra:         map[string]any{"keep_alive": providertest.Mark, "messages": "none", "format": "json"},
		WithoutLimits: true, // Ollama has none
		WithoutHints:  true,
		Unknown:       []simulator.Failure{simulator.Refused},
	})
}
