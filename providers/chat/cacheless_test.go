package chat

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// An endpoint that does not know what is said about prompt caches is told nothing from then on.
func TestARefusalOfCacheFieldsIsLearnt(t *testing.T) {
	t.Parallel()
	var bodies []string
	capabilities := func(string) providers.Capabilities {
		return providers.Capabilities{PromptCache: providers.PromptCacheBreakpoints}
	}
	provider := endpoint(t, Config{Config: transport.Config{Capabilities: capabilities}}, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(raw))
		if strings.Contains(string(raw), "prompt_cache") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Unrecognized request argument supplied: prompt_cache_options","type":"invalid_request_error"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"b"},"finish_reason":"stop"}]}`)
	})

	req := request()
	req.CacheKey, req.Prefixes = "k", []providers.Prefix{{Message: 1, Offset: 5, Keep: true}}
	if _, err := provider.Call(t.Context(), req); !errors.Is(err, providers.ErrAgain) {
		t.Fatalf("got %v, want ErrAgain", err)
	}
	for range 2 {
		if _, err := provider.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) != 3 {
		t.Errorf("%d requests, want 3: %q", len(bodies), bodies)
	}
}
