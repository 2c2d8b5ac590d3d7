package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// A server of one's own, such as vLLM, speaks the chat completions dialect. A call makes one attempt; the class of its
// error says what to do.
func ExampleEntry_Open() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		http.Error(w, `{"error": {"message": "too many requests"}}`, http.StatusTooManyRequests)
	}))
	defer server.Close()

	entry := catalog.Entry{Name: "lab", Dialect: catalog.Chat, BaseURL: server.URL + "/v1"}
	provider, err := entry.Open(http.DefaultClient, catalog.Credentials{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = provider.Call(context.Background(), &providers.Request{
		Model: "llama", Messages: []providers.Message{{Role: "user", Content: "Which text is better?"}},
	})
	var failed *providers.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Class, "– again in", failed.RetryAfter)
	}
	// Output:
	// rate_limited – again in 20s
}
