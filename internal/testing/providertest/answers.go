package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// success checks that an answer is read completely, and that the request is not changed. One call is one request, and
// the next uses the same connection.
func success(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	req, untouched := d.verdict(), d.verdict()
	for range 2 {
		result := s.answer(t, req)
		if !strings.Contains(result.Text, better) || result.Finish != providers.FinishStop || result.Model != d.Model || len(result.Raw) == 0 {
			t.Errorf("got %s", brief(result))
		}
		if diff := cmp.Diff(untouched, req); diff != "" {
			t.Fatalf("the request was changed (-was +is):\n%s", diff)
		}
		used := s.waitForEnd(t)
		if u := result.Usage; !u.Reported || u.Input != used.InputTokens || u.Output != used.OutputTokens {
			t.Errorf("usage: got %+v, want %d and %d tokens", u, used.InputTokens, used.OutputTokens)
		}
		s.Reset()
	}
	if requests, connections := s.calls(); requests != 2 || connections != 1 {
		t.Errorf("got %d requests over %d connections, want 2 over 1", requests, connections)
	}
	if (s.protocol == 2) != d.http2 {
		t.Errorf("got a request over HTTP/%d, want HTTP/2: %v", s.protocol, d.http2)
	}
}

// manyAtOnce checks that a provider is safe for concurrent use, and that each call gets its own answer.
func manyAtOnce(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	const calls = 16
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			req := d.request()
			words := 10 + 7*i // the simulator answers how many words it was shown
			req.Messages = []providers.Message{{Role: providers.User, Content: strings.Repeat("word ", words)}}
			result, err := s.provider.Call(t.Context(), req)
			if want := fmt.Sprintf("shown %d words", words); err != nil || !strings.Contains(result.Text, want) {
				t.Errorf("got %s, %v, want %q", brief(result), err, want)
			}
		})
	}
	wg.Wait()
	if requests, _ := s.calls(); requests != calls {
		t.Errorf("got %d requests, want %d", requests, calls)
	}
}

// prompts checks that all messages arrive, of every role and turn.
func prompts(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	req := d.request()
	req.Messages = append(req.Messages,
		providers.Message{Role: providers.Assistant, Content: "The second."},
		providers.Message{Role: providers.User, Content: "Are you “sure”?\n<b>&amp;</b>"})
	s.answer(t, req)
	said := scalars(t, s.last(t).body)
	for _, m := range req.Messages {
		if !slices.Contains(said, any(m.Content)) {
			t.Errorf("%s: %q is not among %q", m.Role, m.Content, said)
		}
	}
}

// scalars returns the strings, numbers and booleans in a JSON body.
func scalars(t *testing.T, body string) (found []any) {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(body), &root); err != nil {
		t.Fatalf("the body is no JSON: %v", err)
	}
	var visit func(any)
	visit = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, inner := range value {
				visit(inner)
			}
		case []any:
			for _, inner := range value {
				visit(inner)
			}
		default:
			found = append(found, value)
		}
	}
	visit(root)
	return found
}

// extra checks that further fields are passed through, and that they replace none of the request's fields.
func extra(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	req := d.request()
	req.Extra = maps.Clone(d.Extra)
	untouched := maps.Clone(req.Extra)
	s.answer(t, req)
	body := s.last(t).body
	said := scalars(t, body)
	if !slices.Contains(said, any(Mark)) || !slices.Contains(said, any(instruction)) {
		t.Errorf("got %s, want the mark and the prompt in it", body)
	}
	if diff := cmp.Diff(untouched, req.Extra); diff != "" {
		t.Errorf("the request was changed (-was +is):\n%s", diff)
	}
}

// limits checks that limits in the headers of answers and of failures are read.
func limits(t *testing.T, d Dialect) {
	if d.WithoutLimits {
		t.Skip("this dialect's providers say nothing of limits")
	}
	s := d.start(t, simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 2, Window: time.Hour}}}})
	for left := int64(1); left >= 0; left-- {
		checkLimit(t, s.answer(t, d.request()).Limits, left)
	}
	failed := s.fails(t, d.request())
	checkLimit(t, failed.Limits, 0)
	if failed.Class != providers.RateLimited || failed.Exceeded != providers.LimitRequests {
		t.Errorf("got class %s and limit %q, want %s and %s", failed.Class, failed.Exceeded, providers.RateLimited, providers.LimitRequests)
	}
	if !d.WithoutHints && (failed.RetryAfter < 59*time.Minute || failed.RetryAfter > time.Hour+time.Second) {
		t.Errorf("retry after: got %v, want about an hour", failed.RetryAfter)
	}
}

func checkLimit(t *testing.T, states []providers.LimitState, left int64) {
	t.Helper()
	if len(states) != 1 || states[0].Kind != providers.LimitRequests || states[0].Limit != 2 || states[0].Remaining != left ||
		states[0].Reset < 59*time.Minute || states[0].Reset > time.Hour+time.Second {
		t.Errorf("limits: got %+v, want %d of 2 requests left and an hour to go", states, left)
	}
}

// temperature checks that the temperature is either sent, or listed as dropped.
func temperature(t *testing.T, d Dialect) {
	const cool = 0.25
	for sampling, sent := range map[providers.Sampling]bool{providers.SamplingAlways: true, providers.SamplingNever: false} {
		d.Capabilities.Sampling = sampling
		s := d.start(t, simulator.Config{})
		req, value := d.request(), cool
		req.Temperature = &value
		dropped := slices.Contains(s.answer(t, req).Dropped, "temperature")
		if found := slices.Contains(scalars(t, s.last(t).body), any(cool)); found != sent || dropped == sent {
			t.Errorf("sampling %q: sent: %v, dropped: %v; want %v, %v", sampling, found, dropped, sent, !sent)
		}
	}
}

// effort checks that an effort which the model does not accept is not sent, and listed as dropped.
func effort(t *testing.T, d Dialect) {
	d.Capabilities.Efforts = []string{"low"}
	s := d.start(t, simulator.Config{})
	req := d.request()
	req.ReasoningEffort = "high"
	if dropped := s.answer(t, req).Dropped; !slices.Contains(dropped, "reasoning_effort") {
		t.Errorf("dropped: got %q, want reasoning_effort among it", dropped)
	}
	if body := s.last(t).body; strings.Contains(strings.ToLower(body), `"high"`) {
		t.Errorf("sent: %s", body)
	}
}

// reasoning checks that reasoning is reported if it was requested, and only if there was some.
func reasoning(t *testing.T, d Dialect) {
	if d.Capabilities.Reasoning == providers.ReasoningNone {
		t.Skip("this dialect's models do not reason")
	}
	for share, want := range map[float64]bool{0: true, 1: false} {
		s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{UnreasonedRate: share}})
		req := d.request()
		req.Reason, req.ReasoningEffort = true, "medium"
		result := s.answer(t, req)
		if got := result.Reasoning != "" || result.Usage.Reasoning > 0; got != want {
			t.Errorf(
				"unreasoned answers %v: got reasoning %q and %d tokens of it, want any: %v", share, result.Reasoning,
				result.Usage.Reasoning, want,
			)
		}
		if strings.Contains(result.Text, result.Reasoning) && result.Reasoning != "" || !strings.Contains(result.Text, better) {
			t.Errorf("text: got %q, want the answer alone", result.Text)
		}
	}
}

// schema checks that the answer's JSON is recognised, and that prose is not taken for JSON.
func schema(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	result := s.answer(t, d.verdict())
	var verdict struct {
		Winner string `json:"winner_doc_id"`
	}
	if err := json.Unmarshal(result.JSON, &verdict); err != nil || verdict.Winner != "a" {
		t.Errorf("got %s, %v, want winner a", result.JSON, err)
	}
	if result := s.answer(t, d.request()); result.JSON != nil {
		t.Errorf("without a schema: got JSON %s", result.JSON)
	}
}

// schemaRefused checks that a provider adapts within a few calls if its endpoint accepts no schema, and uses another
// way from then on.
func schemaRefused(t *testing.T, d Dialect) {
	d.Capabilities.JSON = providers.JSONAuto
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{WithoutSchemas: true}})
	if result := s.answer(t, d.verdict()); !strings.Contains(result.Text, better) {
		t.Errorf("got %s", brief(result))
	}
	before, _ := s.calls()
	s.answer(t, d.verdict())
	if after, _ := s.calls(); before < 2 || after != before+1 {
		t.Errorf("got %d requests and then %d more, want 2 or more and then 1", before, after-before)
	}
}

// systemRefused checks that a provider adapts within one call if its model accepts no system messages. It then adds
// the instructions to the user's message.
func systemRefused(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{WithoutSystem: true}})
	req, untouched := d.request(), d.request()
	for _, want := range []int{2, 3} {
		if result := s.answer(t, req); !strings.Contains(result.Text, better) {
			t.Errorf("got %s", brief(result))
		}
		if requests, _ := s.calls(); requests != want {
			t.Errorf("got %d requests, want %d", requests, want)
		}
	}
	said := func(value any) bool {
		text, _ := value.(string)
		return strings.HasPrefix(text, instruction) && strings.Contains(text, "Which document")
	}
	if all := scalars(t, s.last(t).body); !slices.ContainsFunc(all, said) {
		t.Errorf("the instructions did not arrive before the question: %q", all)
	}
	if diff := cmp.Diff(untouched, req); diff != "" {
		t.Errorf("the request was changed (-was +is):\n%s", diff)
	}
}

// search checks that a search and its sources are reported, and only if there was a search.
func search(t *testing.T, d Dialect) {
	if d.Capabilities.Search == "" {
		t.Skip("this dialect's models do not search")
	}
	for share, want := range map[float64]bool{0: true, 1: false} {
		s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{UngroundedRate: share}})
		req := d.request()
		req.Search = true
		result := s.answer(t, req)
		if got := result.Grounding; got.Evident() != want || (len(got.Sources) > 0) != want {
			t.Errorf("ungrounded answers %v: got %+v, want evidence: %v", share, got, want)
		}
		for _, source := range result.Grounding.Sources {
			if !strings.HasPrefix(source.URL, "https://") {
				t.Errorf("source: got %+v", source)
			}
		}
		if !strings.Contains(result.Text, better) {
			t.Errorf("text: got %q", result.Text)
		}
	}
}

// impossible checks that nothing is sent if the model is known not to support a request.
func impossible(t *testing.T, d Dialect) {
	searching := d.verdict()
	searching.Search = true
	for name, caps := range map[string]providers.Capabilities{
		"no search":         {},
		"not with a schema": {Search: "a search", JSONWithSearch: false},
	} {
		d.Capabilities = caps
		s := d.start(t, simulator.Config{})
		failed := s.fails(t, searching)
		if requests, _ := s.calls(); failed.Class != providers.BadRequest || failed.MayBeBilled || requests != 0 {
			t.Errorf("%s: got %s and %d requests, want %s and none", name, told(failed), requests, providers.BadRequest)
		}
	}
}

// truncation checks that a truncated answer is reported as such.
func truncation(t *testing.T, d Dialect) {
	bounded := d.request()
	bounded.MaxOutputTokens = 16 // the minimum of OpenAI
	for name, test := range map[string]struct {
		behaviour simulator.Behaviour
		req       *providers.Request
	}{
		"by the request":  {simulator.Behaviour{}, bounded},
		"by the provider": {simulator.Behaviour{TruncateRate: 1}, d.request()},
	} {
		result := d.start(t, simulator.Config{Behaviour: test.behaviour}).answer(t, test.req)
		if result.Finish != providers.FinishTruncated || strings.HasSuffix(result.Text, "}") {
			t.Errorf("%s: got %s with %q, want %s", name, result.Finish, result.Text, providers.FinishTruncated)
		}
	}
}

// refusal checks that an answer which declines is a result.
func refusal(t *testing.T, d Dialect) {
	if slices.Contains(d.Unknown, simulator.Refused) {
		t.Skip("this dialect's providers have no word for it")
	}
	if slices.Contains(d.Unknown, simulator.Refused) {
		t.Skip("this dialect has no word for a refusal")
	}
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{RefuseRate: 1}})
	if result := s.answer(t, d.request()); result.Finish != providers.FinishRefused {
		t.Errorf("got %s, want %s", brief(result), providers.FinishRefused)
	}
}

// slowBody checks that a body which arrives slowly is read, within the time of the call.
func slowBody(t *testing.T, d Dialect) {
	const drip = 200 * time.Millisecond
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{Trickle: simulator.Span{Min: drip, Max: drip}}})
	began := time.Now()
	if result := s.answer(t, d.request()); !strings.Contains(result.Text, better) || time.Since(began) < drip/2 {
		t.Errorf("got %s after %v", brief(result), time.Since(began))
	}
}

// longAnswers checks that an answer of ten megabytes is read if the limit allows it. A longer one must be a failure,
// of which only a part is kept.
func longAnswers(t *testing.T, d Dialect) {
	if d.Vendor != "" && d.Vendor != simulator.OpenAI {
		t.Skip("vendors do not differ in it, and it takes its time")
	}
	const long = 10 << 20
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{AnswerBytes: long}})
	asked := false
	ctx := providers.WithReading(
		outliving(t), providers.Reading{Most: 2 * long, Room: func(context.Context) error { asked = true; return nil }},
	)
	if result, err := s.provider.Call(ctx, d.request()); err != nil || len(result.Text) != long || !asked {
		t.Errorf("got %s, %v, want %d bytes, for which there was room (%v)", brief(result), err, long, asked)
	}
	s = d.start(t, simulator.Config{Behaviour: simulator.Behaviour{AnswerBytes: providers.DefaultAnswer}})
	failed := s.fails(t, d.request())
	if failed.Class != providers.Malformed || !failed.MayBeBilled || len(failed.Raw) > transport.MaxErrorBytes {
		t.Errorf("got class %s, may be billed %v, and %d bytes, want %s, true, at most %d",
			failed.Class, failed.MayBeBilled, len(failed.Raw), providers.Malformed, transport.MaxErrorBytes)
	}
}
