package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// key is sent by both sides.
const key = "sk-test-key"

// wire is a request taken apart: "path", "query.…", "header.…" and, for each value
// in the JSON body, "body." and the way to it ("body.messages.0.role"). A text
// means a list of one block of text, as in every dialect that has such blocks.
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
		if text, ok := onlyText(v); ok {
			w[place] = text
			return
		}
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

// onlyText is the text of a list of one block of text.
func onlyText(list []any) (text any, ok bool) {
	if len(list) != 1 {
		return nil, false
	}
	block, _ := list[0].(map[string]any)
	return block["text"], len(block) == 2 && block["type"] == "text"
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

// recorder gives its answers in turn, the last one again and again, and keeps what
// was sent.
type recorder struct {
	*httptest.Server
	answers []string

	mu   sync.Mutex // guards sent
	sent []wire
}

func record(t *testing.T, answers []string) *recorder {
	t.Helper()
	r := &recorder{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent, err := wireOf(req)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		answer := r.answers[min(len(r.sent), len(r.answers)-1)]
		r.sent = append(r.sent, sent)
		r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(r.Close)
	return r
}

// sameRequests has both sides talk to a server each, which gives the same answers,
// and compares everything that they send. It fails where that differs without a
// reason, and where a reason is given and nothing differs.
func sameRequests(t *testing.T, answers []string, sdk, ours func(url string) error, differ reasons) {
	t.Helper()
	theirs, own := record(t, answers), record(t, answers)
	if err := sdk(theirs.URL); err != nil {
		t.Fatal("SDK:", err)
	}
	if err := ours(own.URL); err != nil {
		t.Fatal("ours:", err)
	}
	if len(theirs.sent) == 0 || len(theirs.sent) != len(own.sent) {
		t.Fatalf("got %d requests of the SDK and %d of ours", len(theirs.sent), len(own.sent))
	}
	for place, why := range differ {
		same := true
		for i, sdk := range theirs.sent {
			taken, ours := sdk.take(place), own.sent[i].take(place)
			same = same && cmp.Equal(taken, ours)
		}
		if same {
			t.Errorf("%s is the same on both sides, and said to differ: %s", place, why)
		}
	}
	for i, sdk := range theirs.sent {
		if diff := cmp.Diff(sdk, own.sent[i]); diff != "" {
			t.Errorf("request %d (-SDK +ours):\n%s", i+1, diff)
		}
	}
}

// reasons say why the two sides differ, by the places in which they do (patterns
// of path.Match, by which * matches anything).
type reasons map[string]string

// about reports whether there is a reason for a place.
func (r reasons) about(place string) bool {
	for pattern := range r {
		if ok, _ := path.Match(pattern, place); ok {
			return true
		}
	}
	return false
}

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

// repeating returns a request whose first five bytes are to be cached.
func repeating() providers.Request {
	return providers.Request{Messages: user(), CacheKey: "k", Prefixes: []providers.Prefix{{Offset: 5, Keep: true}}}
}

// image is a PNG of one pixel, in base64.
const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="

func decoded(t *testing.T, encoded string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// pictured returns a request with an image after its first five bytes, and with another at its end if it has an address.
func pictured(address string) providers.Request {
	all := user()
	all[0].Images = []providers.Image{{Offset: 5, Type: "image/png", Data: image, Width: 1, Height: 1}}
	if address != "" {
		all[0].Images = append(all[0].Images, providers.Image{Offset: len(all[0].Content), URL: address})
	}
	return providers.Request{Messages: all}
}

// repair is a talk in which an answer was not what was asked.
func repair() []providers.Message {
	return append(user(),
		providers.Message{Role: providers.Assistant, Content: "a?"},
		providers.Message{Role: providers.User, Content: "JSON, please."})
}

// verdict is a schema that every provider takes.
const verdict = `{"type":"object","properties":{"winner_doc_id":{"type":"string","enum":["a","b"]},"reason":{"type":"string"}},"required":["winner_doc_id","reason"],"additionalProperties":false}`

func verdictSchema() *providers.Schema {
	return &providers.Schema{Name: "verdict", Schema: json.RawMessage(verdict)}
}

// complete is the request for the model careful, and with the usual prompt where
// there is none.
func complete(req providers.Request) *providers.Request {
	req.Key, req.Model = key, "careful"
	if req.Messages == nil {
		req.Messages = user()
	}
	return &req
}

// known says the same of every model.
func known(capabilities providers.Capabilities) providers.CapabilitiesOf {
	return func(string) providers.Capabilities { return capabilities }
}
