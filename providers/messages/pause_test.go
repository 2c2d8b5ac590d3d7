package messages

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// A turn that was paused amid a search, in parts, as in
// https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn.
const (
	paused = `{"model":"claude-sonnet-4-6","content":[{"type":"text","text":"I'll search."},{"type":"server_tool_use","id":"1","name":"web_search","input":{"query":"q1"}}],"stop_reason":"pause_turn","container":{"id":"container_1"},"usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":20,"output_tokens_details":{"thinking_tokens":3},"server_tool_use":{"web_search_requests":1}}}`
	again  = `{"model":"claude-sonnet-4-6","content":[{"type":"web_search_tool_result","tool_use_id":"1","content":[{"type":"web_search_result","url":"https://a.example/","title":"A"}]},{"type":"text","text":"It is "}],"stop_reason":"pause_turn","usage":{"input_tokens":100,"output_tokens":1}}`
	ended  = `{"model":"claude-sonnet-4-6","content":[{"type":"text","text":"B."}],"stop_reason":"end_turn","usage":{"input_tokens":200,"output_tokens":2,"server_tool_use":{"web_search_requests":2}}}`
)

// inParts answers the first request with the first answer and so on; an answer
// that begins with a number is an error with that status.
func inParts(t *testing.T, bodies *[]string, answers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		*bodies = append(*bodies, string(raw))
		if len(*bodies) > len(answers) {
			t.Errorf("request %d was sent, want %d", len(*bodies), len(answers))
			return
		}
		answer, status := answers[len(*bodies)-1], http.StatusOK
		if _, err := fmt.Sscanf(answer, "%d ", &status); err == nil {
			answer = answer[4:]
		}
		w.Header().Set("Request-Id", fmt.Sprintf("req_%d", len(*bodies)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}
}

func TestAPausedTurnGoesOn(t *testing.T) {
	t.Parallel()
	var bodies []string
	provider := endpoint(t, providers.Capabilities{Search: "web_search_20250305"}, inParts(t, &bodies, paused, again, ended))
	asked := 0
	got, err := provider.Call(t.Context(), with(func(r *providers.Request) {
		r.Search, r.Ready = true, func() error { asked++; return nil }
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := &providers.Result{
		Text: "I'll search.\n\nIt is B.", Finish: providers.FinishStop, Model: "claude-sonnet-4-6", RequestID: "req_3",
		Usage: providers.Usage{Reported: true, Input: 315, Output: 23, Cached: 5, Reasoning: 3},
		Grounding: providers.Grounding{
			Searches: 3, Queries: []string{"q1"}, Sources: []providers.Source{{URL: "https://a.example/", Title: "A"}},
		},
		Raw: []byte(paused + "\n" + again + "\n" + ended),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if asked != 3 {
		t.Errorf("Ready was asked %d times, want before each of 3 requests", asked)
	}
	const (
		user   = `{"role":"user","content":"a or b?"}`
		search = `{"type":"text","text":"I'll search."},{"type":"server_tool_use","id":"1","name":"web_search","input":{"query":"q1"}}`
		found  = `{"type":"web_search_tool_result","tool_use_id":"1","content":[{"type":"web_search_result","url":"https://a.example/","title":"A"}]},{"type":"text","text":"It is "}`
		rest   = `,"model":"claude-sonnet-4-6","system":"judge","tools":[{"name":"web_search","type":"web_search_20250305"}]}`
	)
	sent := []string{
		`{"max_tokens":4096,"messages":[` + user + `]` + rest,
		`{"container":"container_1","max_tokens":4096,"messages":[` + user + `,{"content":[` + search + `],"role":"assistant"}]` + rest,
		`{"container":"container_1","max_tokens":4096,"messages":[` + user + `,{"content":[` + search + `,` + found + `],"role":"assistant"}]` + rest,
	}
	if diff := cmp.Diff(sent, bodies); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	var bodies []string
	answers := make([]string, mostPauses+1)
	for i := range answers {
		answers[i] = paused
	}
	got, err := endpoint(t, providers.Capabilities{}, inParts(t, &bodies, answers...)).Call(t.Context(), request())
	if err != nil || got.Finish != providers.FinishTruncated || len(bodies) != len(answers) || got.Usage.Output != 20*9 {
		t.Errorf("got %+v, %v after %d requests, want what was said, truncated, after %d", got, err, len(bodies), len(answers))
	}
}

func TestUsageThatOnePartLeavesOutIsNotReported(t *testing.T) {
	t.Parallel()
	const without = `{"content":[{"type":"text","text":"B."}],"stop_reason":"pause_turn"}`
	for _, answers := range [][]string{{without, ended}, {paused, strings.Replace(without, "pause_turn", "end_turn", 1)}} {
		var bodies []string
		got, err := endpoint(t, providers.Capabilities{}, inParts(t, &bodies, answers...)).Call(t.Context(), request())
		if err != nil || got.Usage.Reported || got.Usage.Output == 0 {
			t.Errorf("got %+v, %v, want usage that is not reported as whole", got, err)
		}
	}
}

// What was answered before a failure was paid for, whatever the failure itself
// costs.
func TestAFailureAfterAPauseMayBeBilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		answers []string
		class   providers.Class
		billed  bool
	}{
		{"a limit, before anything was answered", []string{`429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}`}, providers.RateLimited, false},
		{"a limit", []string{paused, `429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}`}, providers.RateLimited, true},
		{"no answer", []string{paused, `{"content":`}, providers.Transient, true},
		{"an error with status 200", []string{paused, again, `{"error":{"type":"overloaded_error","message":"x"}}`}, providers.Overloaded, true},
	} {
		var bodies []string
		result, err := endpoint(t, providers.Capabilities{}, inParts(t, &bodies, test.answers...)).Call(t.Context(), request())
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != test.class || failed.MayBeBilled != test.billed || result != nil {
			t.Errorf("%s: got %+v, %+v, want class %s, may be billed %v", test.name, result, err, test.class, test.billed)
			continue
		}
		if used := failed.Used; used.Reported != test.billed || (used.Input > 0) != test.billed || (used.Output > 0) != test.billed {
			t.Errorf("%s: used %+v, want that of the parts that were answered, if there are any", test.name, used)
		}
	}
}

func TestAPartThatIsNotReadyIsNotSent(t *testing.T) {
	t.Parallel()
	var bodies []string
	lost := errors.New("the lease is lost")
	_, err := endpoint(t, providers.Capabilities{}, inParts(t, &bodies, paused)).Call(t.Context(), with(func(r *providers.Request) {
		r.Ready = func() error {
			if len(bodies) == 1 {
				return lost
			}
			return nil
		}
	}))
	var failed *providers.Error
	if !errors.Is(err, lost) || !errors.As(err, &failed) || !failed.MayBeBilled {
		t.Errorf("got %+v, want the refusal, and the first part to be paid for", err)
	}
}

func TestPartsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	half := &transport.Answer{Body: []byte(paused + strings.Repeat(" ", providers.DefaultAnswer/2))}
	var whole turn
	for part, tooLong := range []bool{false, true} {
		if err := whole.add(half); (err != nil) != tooLong {
			t.Errorf("part %d: got %v, want an error: %v", part, err, tooLong)
		}
	}
}
