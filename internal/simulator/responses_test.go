package simulator

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

const responsesPath = "/v1/responses"

// responseObject is a response as JSON, without what only repeats the request.
func responseObject(model, status, problem, incomplete, output, usage string) string {
	return fmt.Sprintf(`{"object":"response","model":%q,"status":%q,"error":%s,"incomplete_details":%s,"output":[%s],"usage":%s}`,
		model, status, problem, incomplete, output, usage)
}

// withoutEcho leaves of a response what became of it, without ids.
func (w wire) withoutEcho() wire {
	for _, name := range []string{
		"id", "created_at", "background", "instructions", "max_output_tokens", "reasoning", "text", "tools", "tool_choice",
		"parallel_tool_calls", "store", "previous_response_id", "temperature", "top_p", "truncation", "metadata",
	} {
		delete(w.body, name)
	}
	output, _ := w.body["output"].([]any)
	for _, item := range output {
		delete(item.(map[string]any), "id")
	}
	return w
}

func TestResponsesOnTheWire(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Models: map[string]Model{
		"cached":           {Behaviour: &Behaviour{CachedShare: 0.5}},
		"lazy":             {Behaviour: &Behaviour{UngroundedRate: 1, UnreasonedRate: 1}},
		"prim":             {Behaviour: &Behaviour{RefuseRate: 1}},
		"filtered":         {Behaviour: &Behaviour{FilterRate: 1}},
		"short":            {Behaviour: &Behaviour{TruncateRate: 1}},
		"o3-deep-research": {},
		"wary":             {Behaviour: &Behaviour{SearchWithJSON: SearchRefused}},
	}})
	const (
		asked     = `"input":"Say something."`
		searching = `,"tools":[{"type":"web_search"}]`
		plain     = `{"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + saying + `,"annotations":[],"logprobs":[]}]}`
		cites     = `[{"type":"url_citation","start_index":0,"end_index":114,"url":"https://library.example/78f8044a78b0e79f","title":"A page of the library"},
			{"type":"url_citation","start_index":0,"end_index":114,"url":"https://gazette.example/d89a7e7d5254b73f","title":"A page of the gazette"}]`
		cited   = `{"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + saying + `,"annotations":` + cites + `,"logprobs":[]}]}`
		sources = `,"sources":[{"type":"url","url":"https://library.example/78f8044a78b0e79f"},{"type":"url","url":"https://gazette.example/d89a7e7d5254b73f"}]`
		search  = `{"type":"web_search_call","status":"completed","action":{"type":"search","query":"Say something.","queries":["Say something."]%s}}`
		format  = `,"text":{"format":{"type":"json_schema","name":"verdict","schema":{}}}`
	)
	usage := func(input, cached, output, reasoning int) string {
		return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
			input, cached, output, reasoning, input+output)
	}
	done := func(model, output, usage string) string {
		return responseObject(model, "completed", "null", "null", output, usage)
	}
	wrong := func(message string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":null}}`, message)
	}
	for name, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"an answer": {`{"model":"careful",` + asked + `}`, 200, done("careful", plain, usage(8, 0, 29, 0))},
		"items": {
			`{"model":"careful","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Say something."}]},{"type":"reasoning","summary":[]}]}`, 200,
			done("careful", plain, usage(8, 0, 29, 0)),
		},
		"reasoning with a summary": {
			`{"model":"careful","reasoning":{"effort":"low","summary":"auto"},` + asked + `}`, 200,
			done("careful", `{"type":"reasoning","summary":[{"type":"summary_text","text":`+thinking+`}]},`+plain, usage(8, 0, 65, 36)),
		},
		"reasoning without":    {`{"model":"careful","reasoning":{"effort":"low"},` + asked + `}`, 200, done("careful", `{"type":"reasoning","summary":[]},`+plain, usage(8, 0, 65, 36))},
		"an effort of nothing": {`{"model":"careful","reasoning":{"effort":"none"},` + asked + `}`, 200, done("careful", plain, usage(8, 0, 29, 0))},
		"a search":             {`{"model":"careful",` + asked + searching + `}`, 200, done("careful", fmt.Sprintf(search, "")+","+cited, usage(50, 0, 29, 0))},
		"a search with its sources": {
			`{"model":"careful","include":["web_search_call.action.sources"],"tool_choice":"required",` + asked + searching + `}`, 200,
			done("careful", fmt.Sprintf(search, sources)+","+cited, usage(50, 0, 29, 0)),
		},
		"deep research":             {`{"model":"o3-deep-research","tools":[{"type":"web_search_preview"}],` + asked + `}`, 200, done("o3-deep-research", fmt.Sprintf(search, "")+","+cited, usage(50, 0, 29, 0))},
		"no evidence and no effort": {`{"model":"lazy","reasoning":{"effort":"high"},` + asked + searching + `}`, 200, done("lazy", plain, usage(8, 0, 29, 0))},
		"declined": {
			`{"model":"prim",` + asked + `}`, 200,
			done("prim", `{"type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"I'm sorry, but I cannot help with that."}]}`, usage(8, 0, 10, 0)),
		},
		"filtered": {`{"model":"filtered",` + asked + `}`, 200, responseObject("filtered", "incomplete", "null", `{"reason":"content_filter"}`, "", usage(8, 0, 0, 0))},
		"truncated": {
			`{"model":"short",` + asked + `}`, 200,
			responseObject("short", "incomplete", "null", `{"reason":"max_output_tokens"}`, strings.NewReplacer("completed", "incomplete", "cuments, and no verdict was asked that I know how to give.", "").Replace(plain), usage(8, 0, 14, 0)),
		},
		"a bound within the reasoning": {
			`{"model":"careful","max_output_tokens":20,"reasoning":{"summary":"auto"},` + asked + `}`, 200,
			responseObject("careful", "incomplete", "null", `{"reason":"max_output_tokens"}`, `{"type":"reasoning","summary":[{"type":"summary_text","text":`+thinking+`}]}`, usage(8, 0, 20, 20)),
		},

		"no input":                                 {`{"model":"careful"}`, 400, wrong("Missing required parameter: 'input'.")},
		"no model":                                 {`{` + asked + `}`, 400, wrong("Missing required parameter: 'model'.")},
		"a small bound":                            {`{"model":"careful","max_output_tokens":15,` + asked + `}`, 400, wrong("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.")},
		"a field of another dialect":               {`{"model":"careful","messages":[],` + asked + `}`, 400, wrong(`Unknown or invalid parameter: json: unknown field "messages"`)},
		"reasoning and a temperature":              {`{"model":"careful","temperature":0,"reasoning":{"effort":"low"},` + asked + `}`, 400, wrong("Unsupported parameter: 'temperature' is not supported with this model.")},
		"a job that is not stored":                 {`{"model":"careful","background":true,"store":false,` + asked + `}`, 400, wrong("Background mode requires 'store' to be true.")},
		"a schema without a name":                  {`{"model":"careful","text":{"format":{"type":"json_schema","schema":{}}},` + asked + `}`, 400, wrong("Missing required parameter: 'text.format.name' or 'text.format.schema'.")},
		"JSON that was not mentioned":              {`{"model":"careful","instructions":"JSON, please.","text":{"format":{"type":"json_object"}},` + asked + `}`, 400, wrong("Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.")},
		"JSON mode and search":                     {`{"model":"careful","input":"JSON, please.","text":{"format":{"type":"json_object"}}` + searching + `}`, 400, wrong("Web Search cannot be used with JSON mode.")},
		"a schema and search, where it is refused": {`{"model":"wary",` + asked + searching + format + `}`, 400, wrong("Web Search cannot be used with JSON mode.")},
		"research without a source":                {`{"model":"o3-deep-research","tools":[{"type":"code_interpreter"}],` + asked + `}`, 400, wrong("Deep research models require at least one of 'web_search_preview', 'mcp', or 'file_search' tools.")},
		"research with a plain search":             {`{"model":"o3-deep-research",` + asked + searching + `}`, 400, wrong("Hosted tool 'web_search' is not supported with o3-deep-research.")},
		"research after a schema":                  {`{"model":"o3-deep-research","tools":[{"type":"mcp"}],` + asked + format + `}`, 400, wrong("Invalid parameter: 'text.format' of type 'json_schema' is not supported with o3-deep-research.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.post(t, responsesPath, test.body).withoutEcho().is(t, test.status, test.want)
		})
	}
	s.post(t, responsesPath, `{"model":"cached",`+asked+`}`)
	if got := s.post(t, responsesPath, `{"model":"cached",`+asked+`}`); at(got.body, "usage", "input_tokens_details", "cached_tokens") != 4.0 {
		t.Errorf("the cache: got %+v", got.body)
	}
	got := s.post(t, responsesPath, `{"model":"careful",`+asked+format+`}`)
	if at(got.body, "text", "format", "name") != "verdict" || got.body["store"] != true || got.header.Get("X-Request-Id") == "" {
		t.Errorf("what was asked: got %+v", got)
	}
}

// TestResponsesFailures: problems are told as in chat, but for the one that is a
// response of its own.
func TestResponsesFailures(t *testing.T) {
	t.Parallel()
	for _, failure := range failures {
		if failure == Garbage || failure == FailedIn200 {
			continue
		}
		s := start(t, always(failure))
		got := s.post(t, responsesPath, `{"model":"careful","input":"x"}`)
		want := s.post(t, chatPath, `{"model":"careful","messages":[{"role":"user","content":"x"}]}`)
		if fmt.Sprint(got.body) != fmt.Sprint(want.body) || got.status != want.status || got.header.Get("Retry-After") != "34" {
			t.Errorf("%s: got %+v, want %+v", failure, got, want)
		}
	}
	codes := map[any]int{}
	s := start(t, always(FailedIn200))
	for i := range 20 {
		got := s.post(t, responsesPath, fmt.Sprintf(`{"model":"careful","input":"Number %d."}`, i))
		codes[at(got.body, "error", "code")]++
		if got.status != http.StatusOK || got.body["status"] != "failed" || at(got.body, "error", "message") == "" {
			t.Errorf("got %+v", got)
		}
	}
	if len(codes) != 2 || codes["server_error"] == 0 || codes["rate_limit_exceeded"] == 0 {
		t.Errorf("codes: got %v", codes)
	}
}

// begin begins a job and tells its id.
func (s *Server) begin(t *testing.T, model string) string {
	t.Helper()
	got := s.post(t, responsesPath, fmt.Sprintf(`{"model":%q,"background":true,"input":"Say something."}`, model))
	id, _ := got.body["id"].(string)
	if got.status != http.StatusOK || got.body["status"] != "queued" || id == "" || got.body["background"] != true {
		t.Fatalf("got %+v, want a queued job", got)
	}
	return id
}

func (s *Server) stateOf(t *testing.T, id string) any {
	t.Helper()
	return s.exchange(t, http.MethodGet, responsesPath+"/"+id, "").body["status"]
}

func TestJobsEndInEveryState(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Models: map[string]Model{
		"failed":     {Behaviour: &Behaviour{FailRate: 1, FailAs: FailedIn200}},
		"incomplete": {Behaviour: &Behaviour{FilterRate: 1}},
	}})
	for model, want := range map[string]string{"careful": "completed", "failed": "failed", "incomplete": "incomplete"} {
		id := s.begin(t, model)
		for deadline := testrun.Deadline(t); s.stateOf(t, id) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: got %v, want %s", model, s.stateOf(t, id), want)
			}
		}
		got := s.exchange(t, http.MethodGet, responsesPath+"/"+id, "")
		if text := at(got.body, "output", 0, "content", 0, "text"); (text != nil) != (model == "careful") || got.body["id"] != id {
			t.Errorf("%s: got %+v", model, got.body)
		}
	}
	all := s.Stats().All
	if all.Submitted != 3 || all.Polled < 6 || all.Arrived != 3 || all.Answered != 2 || all.Failed != 1 || all.InFlight != 0 || all.OutputTokens == 0 {
		t.Errorf("counted: got %+v", all)
	}
}

// TestAJobIsInFlightUntilItEnds looks at one while it lasts, and cancels it.
func TestAJobIsInFlightUntilItEnds(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		Limits: Limits{MaxInFlight: 1},
		Models: map[string]Model{
			"slow":    {Behaviour: &Behaviour{Latency: Span{time.Hour, time.Hour}}},
			"endless": {Behaviour: &Behaviour{HangRate: 1}},
			"lasting": {Behaviour: &Behaviour{Latency: Span{50 * time.Millisecond, 50 * time.Millisecond}}},
		},
	})
	for _, model := range []string{"slow", "endless"} {
		id := s.begin(t, model)
		if c := s.mustAsk(t, prompt("careful", "x")); c.status != http.StatusTooManyRequests {
			t.Errorf("beside a job: got %+v, want 429", c)
		}
		if got, want := s.stateOf(t, id), map[string]string{"slow": "queued", "endless": "in_progress"}[model]; got != want {
			t.Errorf("%s: got %v, want %s", model, got, want)
		}
		for range 2 { // a second time changes nothing
			got := s.exchange(t, http.MethodPost, responsesPath+"/"+id+"/cancel", "")
			if got.status != http.StatusOK || got.body["status"] != "cancelled" {
				t.Errorf("cancelled: got %+v", got)
			}
		}
		if c := s.mustAsk(t, prompt("careful", "x")); c.status != http.StatusOK {
			t.Errorf("after the job: got %+v", c)
		}
	}
	id := s.begin(t, "lasting")
	s.until(t, "the job's end", func(c Counts) bool { return c.InFlight == 0 })
	if got := s.exchange(t, http.MethodPost, responsesPath+"/"+id+"/cancel", ""); got.body["status"] != "completed" {
		t.Errorf("cancelled after its end: got %v, want completed", got.body["status"])
	}
	if all := s.Stats().All; all.Submitted != 3 || all.Abandoned != 2 || all.MaxInFlight != 1 {
		t.Errorf("counted: got %+v", all)
	}
}

func TestAJobIsQueuedForAQuarterOfItsTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	j := &job{call: &call{admitted: began}, lasts: time.Minute}
	for after, want := range map[time.Duration]string{0: "queued", 14 * time.Second: "queued", 15 * time.Second: "in_progress", time.Hour: "in_progress"} {
		if got := j.status(began.Add(after)); got != want {
			t.Errorf("after %v: got %s, want %s", after, got, want)
		}
	}
}

func TestJobsThatAreNotThere(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Keys: []string{"right"}, Behaviour: Behaviour{LoseRate: 1}})
	right := []string{"Authorization", "Bearer right"}
	lost := s.post(t, responsesPath, `{"model":"careful","background":true,"input":"x"}`, right...).body["id"].(string)
	for _, id := range []string{lost, "resp_other"} {
		got := s.exchange(t, http.MethodGet, responsesPath+"/"+id, "", right...)
		got.is(t, http.StatusNotFound, fmt.Sprintf(`{"error":{"message":"Response with id '%s' not found.","type":"invalid_request_error","param":null,"code":null}}`, id))
	}
	if got := s.exchange(t, http.MethodGet, responsesPath+"/"+lost, ""); got.status != http.StatusUnauthorized {
		t.Errorf("without a key: got %+v", got)
	}
}

// TestAJobWhoseAnswerIsCutOffGoesOn: its client cannot know of it.
func TestAJobWhoseAnswerIsCutOffGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{CutRate: 1}})
	resp, err := client.Post(s.URL+responsesPath, "application/json", strings.NewReader(`{"model":"careful","background":true,"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(body) == 0 {
		t.Errorf("got %q, %v, want half an answer", body, err)
	}
	s.until(t, "the job's end", func(c Counts) bool { return c.Submitted == 1 && c.Answered == 1 && c.Cut == 0 })
}
