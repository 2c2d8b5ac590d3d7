package chat

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// A text that is to be continued goes to the endpoint for that, whose names differ
// (https://developers.openai.com/api/reference/resources/completions/methods/create).
func TestTextsAreContinued(t *testing.T) {
	t.Parallel()
	var path, body string
	provider := endpoint(t, Config{Flavour: Flavour{MaxTokensField: "max_completion_tokens"}}, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		path, body = r.URL.Path, string(raw)
		_, _ = io.WriteString(w, `{"object":"text_completion","model":"m1","choices":[{"text":" upon a time","index":0,"logprobs":null,"finish_reason":"length"},{"text":" more","index":1,"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`)
	})
	warm := 0.5
	result, err := provider.Call(t.Context(), &providers.Request{
		Model: "m1", Messages: []providers.Message{{Role: providers.User, Content: "Once $\x00"}}, Complete: true,
		MaxOutputTokens: 7, Temperature: &warm, Extra: map[string]any{"n": 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"max_tokens":7,"model":"m1","n":2,"prompt":"Once $\u0000","temperature":0.5}`; path != "/v1/completions" || body != want {
		t.Errorf("got %s with\n%s\nwant\n%s", path, body, want)
	}
	if result.Text != " upon a time" || !slices.Equal(result.Others, []string{" more"}) || result.Finish != providers.FinishTruncated || result.Usage.Output != 7 {
		t.Errorf("got %+v", result)
	}
}

func TestSeveralAnswers(t *testing.T) {
	t.Parallel()
	provider := endpoint(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":""},"finish_reason":"stop"},{"message":{"content":[{"type":"text","text":"c"}]},"finish_reason":"length"}]}`)
	})
	result, err := provider.Call(t.Context(), request())
	if err != nil || result.Text != "a" || !slices.Equal(result.Others, []string{"", "c"}) {
		t.Errorf("got %+v, %v; want the answer a and two others", result, err)
	}
}
