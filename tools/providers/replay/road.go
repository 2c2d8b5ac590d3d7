package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// hosts maps hosts to the providers whose requests differ from others in their dialect.
var hosts = map[string]string{
	"api.openai.com": "openai", "openrouter.ai": "openrouter",
	"api.anthropic.com": "anthropic", "generativelanguage.googleapis.com": "google",
}

var googleModel = regexp.MustCompile(`/models/([^/:]+):generateContent$`)

// call is what evalfleet would have called to get the recorded answer.
type call struct {
	dialect, host, provider, model string
}

// callOf returns the call of a recording; false: evalfleet makes no such call.
func callOf(r recording) (call, bool) {
	u, err := url.Parse(r.url)
	if err != nil || r.method != http.MethodPost || r.status == 0 {
		return call{}, false
	}
	var asked struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(r.request, &asked) // the model may be in the path, or missing
	c := call{host: u.Hostname(), model: asked.Model}
	c.provider = hosts[c.host]
	switch path := strings.TrimSuffix(u.Path, "/"); {
	case strings.HasSuffix(path, "/chat/completions"):
		c.dialect = catalog.Chat
		if c.provider == "openai" {
			c.provider = "openai-chat"
		}
	case strings.HasSuffix(path, "/responses"):
		c.dialect = catalog.Responses
	case strings.HasSuffix(path, "/messages"), bedrockClaude.MatchString(path):
		c.dialect = catalog.Messages
	case googleModel.MatchString(path):
		c.dialect, c.model = catalog.Generate, googleModel.FindStringSubmatch(path)[1]
	case strings.HasSuffix(path, "/api/chat"):
		c.dialect = catalog.Ollama
	default:
		return call{}, false
	}

	if c.model == "" {
		c.model = "unnamed"
	}
	return c, true
}

// numbersForWords reports whether the request asked for numbers instead of words such as STOP, as an older SDK of
// Google does. evalfleet asks for words.
func (r recording) numbersForWords() bool {
	query, err := url.QueryUnescape(r.url)
	return err == nil && strings.Contains(query, "enum-encoding=int")
}

// bedrockClaude is the path at which Amazon and Google serve Anthropic's dialect.
var bedrockClaude = regexp.MustCompile(`(?i)anthropic[^/]*/invoke$|claude[^/]*:rawPredict$`)

// road is a server that answers as recorded, and makes calls to it as a worker does.
type road struct {
	server *httptest.Server
	client *http.Client

	mu       sync.Mutex // guards the fields below
	playing  recording
	requests int
}

func openRoad() *road {
	r := &road{client: transport.NewClient(transport.Connections{})}
	r.server = httptest.NewServer(http.HandlerFunc(r.answer))
	return r
}

func (r *road) close() {
	r.client.CloseIdleConnections()
	r.server.Close()
}

// unanswered is the status for a second request, which the recording does not contain.
const unanswered = http.StatusNotImplemented

func (r *road) answer(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if r.requests > 1 {
		w.WriteHeader(unanswered)
		return
	}
	for name, value := range r.playing.header {
		if strings.Contains(name, "ratelimit") || name == "retry-after" || name == "content-type" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(r.playing.status)
	_, _ = w.Write(r.playing.response)
}

// take makes the call and returns its dialect's result for the recorded answer.
func (r *road) take(ctx context.Context, c call, of recording) (*providers.Result, error) {
	r.mu.Lock()
	r.playing, r.requests = of, 0
	r.mu.Unlock()
	entry := catalog.Entry{Name: "replayed", Like: c.provider, Dialect: c.dialect, BaseURL: r.server.URL}
	provider, err := entry.Open(r.client, catalog.Credentials{})
	if err != nil {
		return nil, err
	}
	return provider.Call(ctx, &providers.Request{
		Key: "sk-replayed-and-secret", Model: c.model,
		Messages: []providers.Message{{Role: providers.User, Content: "the recorded prompt"}},
	})
}
