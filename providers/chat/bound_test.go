package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// onlyTakes is an endpoint that refuses one field in the given words, and the fields and roles
// of its requests.
func onlyTakes(refused, words string) (handler http.HandlerFunc, seen func() []string) {
	var mu sync.Mutex
	var all []string
	return func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			said := ""
			for _, field := range []string{maxTokens, maxCompletionTokens} {
				if bound, ok := body[field]; ok {
					said += fmt.Sprintf("%s=%v ", field, bound)
				}
			}
			mu.Lock()
			all = append(all, said)
			mu.Unlock()
			if _, sent := body[refused]; sent {
				w.WriteHeader(http.StatusBadRequest)
				_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": words}})
				return
			}
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"{}"}}]}`)
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return all
		}
}

// TestTheFieldOfTheBoundIsLearnt: an endpoint that refuses the field that bounds an answer is sent the other field from
// the first refusal on, even if Extra set it.
func TestTheFieldOfTheBoundIsLearnt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, refused, words string
		flavour              Flavour
		extra                map[string]any
		want                 []string
	}{
		{
			name: "OpenAI behind an address of one's own", refused: maxTokens,
			words: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
			want:  []string{"max_tokens=9 ", "max_completion_tokens=9 ", "max_completion_tokens=9 "},
		},
		{
			name: "a parameter of a prompt", refused: maxTokens, extra: map[string]any{maxTokens: 7},
			words: "`max_tokens` is deprecated, use max_completion_tokens",
			want:  []string{"max_tokens=7 ", "max_completion_tokens=7 ", "max_completion_tokens=7 "},
		},
		{
			name: "an older server", refused: maxCompletionTokens, flavour: Flavour{MaxTokensField: maxCompletionTokens},
			words: "Unrecognized request argument supplied: max_completion_tokens",
			want:  []string{"max_completion_tokens=9 ", "max_tokens=9 ", "max_tokens=9 "},
		},
		{
			name: "a strict one", refused: maxCompletionTokens, flavour: Flavour{MaxTokensField: maxCompletionTokens},
			words: "max_completion_tokens: Extra inputs are not permitted",
			want:  []string{"max_completion_tokens=9 ", "max_tokens=9 ", "max_tokens=9 "},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			handler, seen := onlyTakes(test.refused, test.words)
			provider := endpoint(t, Config{Flavour: test.flavour}, handler)
			for call, again := range []bool{true, false, false} {
				req := request()
				if req.Extra = test.extra; test.extra == nil {
					req.MaxOutputTokens = 9
				}
				_, err := provider.Call(t.Context(), req)
				if got := errors.Is(err, providers.ErrAgain); got != again || !again && err != nil {
					t.Errorf("call %d: got %v, want ErrAgain: %v", call, err, again)
				}
			}
			if diff := cmp.Diff(test.want, seen()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestABoundThatIsTooLargeIsNoUnknownField: the other name would not help.
func TestABoundThatIsTooLargeIsNoUnknownField(t *testing.T) {
	t.Parallel()
	handler, seen := onlyTakes(maxTokens, "max_tokens is too large: 50000. This model supports at most 16384 completion tokens.")
	provider := endpoint(t, Config{}, handler)
	for range 2 {
		req := request()
		req.MaxOutputTokens = 50000
		if _, err := provider.Call(t.Context(), req); errors.Is(err, providers.ErrAgain) || providers.ClassOf(err) != providers.BadRequest {
			t.Errorf("got %v, want a bad request", err)
		}
	}
	if got := seen(); len(got) != 2 || got[1] != "max_tokens=50000 " {
		t.Errorf("sent %q", got)
	}
}

// TestAnEndpointThatRefusesBothFieldsIsNotAskedForEver ends with the endpoint's own error.
func TestAnEndpointThatRefusesBothFieldsIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"unknown field: max_tokens, max_completion_tokens"}}`)
	}
	provider := endpoint(t, Config{}, handler)
	req := request()
	req.MaxOutputTokens = 9
	for range 5 {
		if _, err := provider.Call(t.Context(), req); !errors.Is(err, providers.ErrAgain) {
			return
		}
	}
	t.Error("learns without an end")
}
