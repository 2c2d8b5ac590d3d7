package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// key is sent by both sides.
const key = "sk-test-key"

// wire is a request taken apart: "path", "query.…", "header.…" and, for each value
// in the JSON body, "body." and the way to it ("body.messages.0.role").
type wire map[string]any

func wireOf(r *http.Request) (wire, error) {
	w := wire{"method": r.Method, "path": r.URL.Path}
	for name, values := range r.URL.Query() {
		w["query."+name] = strings.Join(values, ", ")
	}
	for name, values := range r.Header {
		if name != "Content-Length" { // it follows from the body
			w["header."+name] = strings.Join(values, ", ")
		}
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || len(raw) == 0 {
		return w, err
	}
	var body any
	if err := json.Unmarshal(raw, &body); err != nil {
		return w, fmt.Errorf("body %q: %w", raw, err)
	}
	w.add("body", body)
	return w, nil
}

func (w wire) add(place string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			w[place] = "{}"
		}
		for name, inner := range v {
			w.add(place+"."+name, inner)
		}
	case []any:
		if len(v) == 0 {
			w[place] = "[]"
		}
		for i, inner := range v {
			w.add(fmt.Sprintf("%s.%d", place, i), inner)
		}
	default:
		w[place] = v
	}
}

// take removes the values in places that match a pattern of path.Match.
func (w wire) take(pattern string) wire {
	taken := wire{}
	for place, value := range w {
		if ok, err := path.Match(pattern, place); err != nil {
			panic(err)
		} else if ok {
			taken[place] = value
			delete(w, place)
		}
	}
	return taken
}

// recorder answers every request with the same body and keeps what was sent.
type recorder struct {
	*httptest.Server

	mu   sync.Mutex
	sent []wire
}

func record(t *testing.T, answer string) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent, err := wireOf(req)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.sent = append(r.sent, sent)
		r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(r.Close)
	return r
}

// only is the one request that came.
func (r *recorder) only(t *testing.T) wire {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sent) != 1 {
		t.Fatalf("got %d requests, want 1", len(r.sent))
	}
	return r.sent[0]
}

// reasons say why the two sides differ, by the places in which they do (patterns
// of path.Match, by which * stands for anything).
type reasons map[string]string

// with are these and others.
func (r reasons) with(others reasons) reasons {
	all := reasons{}
	for _, some := range []reasons{r, others} {
		for pattern, why := range some {
			all[pattern] = why
		}
	}
	return all
}

// compare fails where the two differ without a reason, and where a reason is given
// and they do not differ.
func compare(t *testing.T, sdk, ours wire, onPurpose reasons) {
	t.Helper()
	for pattern, why := range onPurpose {
		if theirs, own := sdk.take(pattern), ours.take(pattern); reflect.DeepEqual(theirs, own) {
			t.Errorf("%s is the same on both sides, and said to differ: %s", pattern, why)
		}
	}
	if diff := cmp.Diff(sdk, ours); diff != "" {
		t.Errorf("request (-SDK +ours):\n%s", diff)
	}
}

// httpClient is a client for an SDK, with connections of its own.
func httpClient(t *testing.T) *http.Client {
	connections := &http.Transport{}
	t.Cleanup(connections.CloseIdleConnections)
	return &http.Client{Transport: connections}
}

// What both sides are asked to say.
const (
	system = "You compare two texts."
	prompt = "Which of them is better?"
)

func user() []providers.Message {
	return []providers.Message{{Role: providers.User, Content: prompt}}
}

func conversation() []providers.Message {
	return append([]providers.Message{{Role: providers.System, Content: system}}, user()...)
}

// verdict is a schema that every provider takes.
const verdict = `{"type":"object","properties":{"winner_doc_id":{"type":"string","enum":["a","b"]},"reason":{"type":"string"}},"required":["winner_doc_id","reason"],"additionalProperties":false}`

func verdictSchema() *providers.Schema {
	return &providers.Schema{Name: "verdict", Schema: json.RawMessage(verdict)}
}

// calls makes a call for the model careful, and with the usual prompt where the
// request has none.
func calls(t *testing.T, provider providers.Provider, req providers.Request) {
	t.Helper()
	req.Key, req.Model = key, "careful"
	if req.Messages == nil {
		req.Messages = user()
	}
	if _, err := provider.Call(t.Context(), &req); err != nil {
		t.Fatal(err)
	}
}

// known says the same of every model.
func known(capabilities providers.Capabilities) providers.CapabilitiesOf {
	return func(string) providers.Capabilities { return capabilities }
}
