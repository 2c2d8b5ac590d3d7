package providertest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Serve starts a server for a test, and returns its URL and a client for it.
func Serve(t testing.TB, handler http.HandlerFunc) (url string, client *http.Client) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client = transport.NewClient(transport.Connections{Slots: 8})
	t.Cleanup(client.CloseIdleConnections)
	return server.URL, client
}

// Fuzz checks the function that reads the body of a successful response. For every body it must return either a
// result or a *providers.Error with a class, never both. A result must have a finish and no negative counts.
func Fuzz(f *testing.F, seeds []string, read func(t *testing.T, body []byte) (*providers.Result, error)) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		result, err := read(t, body)
		var failed *providers.Error
		switch {
		case err == nil && (result == nil || result.Finish == "" || result.Usage.Output < 0 || result.Usage.Input < 0 ||
			result.Grounding.Searches < 0):
			t.Errorf("result of %q: got %+v", body, result)
		case err != nil && (!errors.As(err, &failed) || failed.Class == "" || result != nil):
			t.Errorf("error of %q: got %v and %+v, want a *providers.Error with a class, alone", body, err, result)
		}
	})
}
