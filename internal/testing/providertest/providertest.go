// Package providertest is the suite that every wire dialect must pass against the simulated provider, which shares no
// code with the dialects. Each dialect's own tests run it, and cover the dialect's peculiarities.
package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// Dialect describes a dialect to the suite.
type Dialect struct {
	// New returns a provider for the endpoint at url ("http://127.0.0.1:41234").
	New func(url string, client *http.Client, caps providers.CapabilitiesOf) (providers.Provider, error)
	// Model is the name of a model that the simulator knows; "careful" if empty.
	Model string
	// Vendor selects the vendor that the simulator imitates, if several vendors use the dialect.
	Vendor simulator.Vendor
	// Capabilities are those of the model. Tests of search and reasoning are skipped if it does not support them.
	Capabilities providers.Capabilities
	KeyHeader    string // name of the header that contains the key
	// Extra is a Request.Extra with fields that the dialect writes itself, which must have no effect. It also has a
	// further field with the value Mark, which must arrive.
	Extra map[string]any
	// WithoutLimits says that answers have no headers about limits.
	WithoutLimits bool
	// WithoutHints says that failures do not contain a delay after which to retry.
	WithoutHints bool
	// WithoutLogProbs says that the dialect has no log probabilities.
	WithoutLogProbs bool
	// Unknown are the failures that providers of the dialect do not have.
	Unknown []simulator.Failure

	http2 bool // use HTTPS and HTTP/2, as the large providers do
}

// Run runs the whole suite as parallel subtests of t. The caller's TestMain checks for leaked goroutines.
func Run(t *testing.T, d Dialect) {
	d.runAll(t, []test{
		{"success", success, true},
		{"many at once", manyAtOnce, true},
		{"prompts", prompts, false},
		{"images", images, false},
		{"log probabilities", logProbs, false},
		{"extra", extra, false},
		{"limits", limits, true},
		{"temperature", temperature, false},
		{"effort", effort, false},
		{"reasoning", reasoning, false},
		{"schema", schema, false},
		{"schema refused", schemaRefused, false},
		{"system messages refused", systemRefused, false},
		{"search", search, false},
		{"impossible", impossible, false},

		{"truncation", truncation, false},
		{"refusal", refusal, false},
		{"failures", failures, true},
		{"not ready", notReady, true},
		{"cancelled", cancelled, true},
		{"out of time", outOfTime, true},
		{"slow body", slowBody, true},
		{"cut body", cutBody, true},
		{"long answers", longAnswers, true},
		{"key", keys, true},
	})
}

// test is one test of a suite.
type test struct {
	name string
	run  func(*testing.T, Dialect)
	wire bool // it depends on the transport, so it also runs over HTTP/2
}

// runAll runs the tests of a suite as parallel subtests of t.
func (d Dialect) runAll(t *testing.T, suite []test) {
	if d.Model == "" {
		d.Model = "careful"
	}
	for _, test := range suite {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, d)
		})
		if test.wire {
			t.Run(test.name+" over HTTP/2", func(t *testing.T) {
				t.Parallel()
				over := d
				over.http2 = true
				test.run(t, over)
			})
		}
	}
}

// site is a simulator that records its requests, and a provider for it.
type site struct {
	*simulator.Simulator
	provider providers.Provider
	url      string
	client   *http.Client
	arrived  chan struct{} // one for each request, as it arrives

	mu       sync.Mutex
	received []received
	protocol int // HTTP version of the latest request
	open     int // connections
	opened   int // connections so far
}

type received struct {
	url    string
	header http.Header
	body   string
}

// start serves a simulator and creates d's provider for it. When the test ends, closing idle connections must leave
// none open.
func (d Dialect) start(t *testing.T, config simulator.Config) *site {
	t.Helper()
	config.Vendor = d.Vendor
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	s := &site{
		Simulator: simulator.New(config),
		arrived:   make(chan struct{}, 1000),
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.receive))
	server.Config.ConnState = s.count
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients open connections that they do not use
	s.client = transport.NewClient(transport.Connections{Slots: 16})
	if server.EnableHTTP2 = d.http2; d.http2 {
		server.StartTLS()
		s.client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	} else {
		server.Start()
	}

	s.url = server.URL
	t.Cleanup(func() {
		s.waitForNoConnection(t)
		server.Close()
	})
	s.provider = s.make(t, d)
	return s
}

// make returns a new provider for the site.
func (s *site) make(t *testing.T, d Dialect) providers.Provider {
	t.Helper()
	provider, err := d.New(s.url, s.client, func(model string) providers.Capabilities {
		if model != d.Model {
			t.Errorf("the capabilities of %q are asked, want %q", model, d.Model)
		}
		return d.Capabilities
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func (s *site) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	s.mu.Lock()
	s.protocol = r.ProtoMajor
	s.received = append(s.received, received{url: r.URL.String(), header: r.Header.Clone(), body: string(body)})
	s.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.arrived <- struct{}{}
	s.ServeHTTP(w, r)
}

// count counts the connections of the server.
func (s *site) count(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	switch state {
	case http.StateNew:
		s.open++
		s.opened++
	case http.StateClosed:
		s.open--
	}
	s.mu.Unlock()
}

// waitForNoConnection closes idle connections until none is open. It repeats this, because the stream of a cancelled
// call ends a little later than the call.
func (s *site) waitForNoConnection(t *testing.T) {
	t.Helper()
	testrun.EventuallyGot(t, "no connection is left", func() (string, bool) {
		s.client.CloseIdleConnections()
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprintf("%d connections", s.open), s.open == 0
	})
}

// waitForEnd waits until the simulator has no call in flight.
func (s *site) waitForEnd(t *testing.T) simulator.Counts {
	t.Helper()
	var all simulator.Counts
	testrun.EventuallyGot(t, "no call is in flight", func() (string, bool) {
		all = s.Stats().All
		return fmt.Sprintf("%+v", all), all.Arrived > 0 && all.InFlight == 0
	})
	return all
}

// last returns the latest request; there must be one.
func (s *site) last(t *testing.T) received {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) == 0 {
		t.Fatal("nothing arrived")
	}
	return s.received[len(s.received)-1]
}

// calls returns how many requests arrived, over how many connections.
func (s *site) calls() (requests, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.received), s.opened
}

// answer makes a call that must succeed. It repeats the call while the provider adapts to its endpoint.
func (s *site) answer(t *testing.T, req *providers.Request) *providers.Result {
	t.Helper()
	for range 4 {
		result, err := s.provider.Call(outliving(t), req)
		switch {
		case errors.Is(err, providers.ErrAgain):
		case err != nil:
			t.Fatalf("got %v, want an answer", err)
		default:
			return result
		}
	}
	t.Fatal("learns without an end")
	return nil
}

// outliving returns a context that does not end with the test. Its end would hide what a call leaves behind.
func outliving(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// fails makes a call that must fail, in a context that does not end; see failure.
func (s *site) fails(t *testing.T, req *providers.Request) *providers.Error {
	t.Helper()
	return s.failure(outliving(t), t, req)
}

// failure makes a call that must fail, with only a *providers.Error. The error must not contain the key.
func (s *site) failure(ctx context.Context, t *testing.T, req *providers.Request) *providers.Error {
	t.Helper()
	result, err := s.provider.Call(ctx, req)
	var failed *providers.Error
	if !errors.As(err, &failed) || result != nil {
		t.Fatalf("got %s and error %v, want a *providers.Error alone", brief(result), err)
	}
	if failed.Message == "" || !slices.Contains(providers.Classes, failed.Class) {
		t.Errorf("got class %q and message %q, want one of the classes and words", failed.Class, failed.Message)
	}
	if said := fmt.Sprintf("%v %s %s %v", failed, failed.Code, failed.Raw, failed.Err); strings.Contains(said, key) {
		t.Errorf("the error tells the key: %s", said)
	}
	return failed
}

// brief formats a result without its body, for messages.
func brief(result *providers.Result) string {
	if result == nil {
		return "no result"
	}
	said := *result
	said.Raw = nil
	text := fmt.Sprintf("%+v", said)
	return text[:min(len(text), 1000)]
}

// told formats an error with the fields that its text omits.
func told(err error) string {
	var failed *providers.Error
	if !errors.As(err, &failed) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%v, may be billed: %v", failed, failed.MayBeBilled)
}

// Mark is the value of the field that must be passed through.
const Mark = "passed through"

const (
	key         = "sk-0123456789-secret"
	instruction = "You are a judge who reads with care."
	schemaText  = `{"type":"object","properties":{"winner_doc_id":{"type":"string","enum":["a","b"]},"reason":{"type":"string"}},` +
		`"required":["winner_doc_id","reason"],"additionalProperties":false}`
	better = `"winner_doc_id":"a"`
)

// request returns a request that asks which of two documents is better; a is.
func (d Dialect) request() *providers.Request {
	question := strings.Join([]string{
		"Which document is better?",
		`<document id="a" fence="0badcafe">`, "A clean sentence stands here.", `</document fence="0badcafe">`,
		`<document id="b" fence="0badcafe">`, "a uncleen sentense stand here", `</document fence="0badcafe">`,
		"JSON schema: " + schemaText,
	}, "\n")
	return &providers.Request{
		Key:      key,
		Model:    d.Model,
		Messages: []providers.Message{{Role: providers.System, Content: instruction}, {Role: providers.User, Content: question}},
	}
}

// verdict returns the same request with a schema.
func (d Dialect) verdict() *providers.Request {
	req := d.request()
	req.Schema = &providers.Schema{Name: "verdict", Schema: json.RawMessage(schemaText)}
	return req
}
