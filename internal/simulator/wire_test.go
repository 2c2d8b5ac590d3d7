package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wire is what a client gets, as it is on the wire.
type wire struct {
	status int
	header http.Header
	body   map[string]any
}

// post sends JSON text to a path; header has pairs of name and value.
func (s *Server) post(t *testing.T, path, body string, header ...string) wire {
	t.Helper()
	return s.exchange(t, http.MethodPost, path, body, header...)
}

func (s *Server) exchange(t *testing.T, method, path, body string, header ...string) wire {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return wire{resp.StatusCode, resp.Header, decoded(t, string(raw))}
}

// decoded is a JSON object.
func decoded(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return object
}

// is compares an answer with its status and body as JSON text.
func (w wire) is(t *testing.T, status int, body string) {
	t.Helper()
	if w.status != status {
		t.Errorf("status: got %d, want %d", w.status, status)
	}
	if diff := cmp.Diff(decoded(t, body), w.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}
