package results

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Answers and failures are in two files, in the form of OpenAI's Batch results.
func TestBatchFiles(t *testing.T) {
	t.Parallel()
	chat := `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[]}}`
	e, texts := asked("requests", chat, strings.Replace(chat, `"a"`, `"b"`, 1), strings.Replace(chat, `"a"`, `"c"`, 1),
		strings.NewReplacer(`"a"`, `"d"`, "/v1/chat/completions", "/v1/responses").Replace(chat))
	e.Plan.Prompts.Format = eval.PromptsBatch
	e.ID = e.Plan.ID()
	called := func(entry record.Entry, change func(*record.Call)) record.Entry {
		entry.Calls = []record.Call{call(0, entry.Run.Index, 0, 1, change)}
		return entry
	}
	db := putExperiment(t, newPath(t), e, texts,
		called(ended(e, 3, epoch, func(r *record.Run) { r.Answer, r.Finish = "<D>", "truncated" }), func(c *record.Call) { c.RequestID = "req-d" }),
		called(ended(e, 0, epoch.Add(time.Second), func(r *record.Run) { r.Answers = []string{"A", "A2"} }), func(c *record.Call) {
			c.RequestID = "req-a"
			c.Usage.Reported, c.Usage.Input, c.Usage.Output = true, 9, 4
		}),
		called(ended(e, 1, epoch.Add(2*time.Second), func(r *record.Run) { r.State, r.Class, r.Error = "failed", "bad_request", "no such model" }), func(c *record.Call) {
			c.Status, c.Class, c.RequestID = 404, "bad_request", "req-b"
		}),
		called(ended(e, 2, epoch.Add(3*time.Second), func(r *record.Run) { r.State, r.Class, r.Error = "failed", "timeout", "no answer in 2m0s" }), func(c *record.Call) {
			c.Class = "timeout"
		}),
	)
	files, _ := exportedFiles(t, Place{Dir: t.TempDir()}, db, e)
	id := string(e.ID)
	for name, want := range map[string][]string{
		"requests_output.jsonl": {
			`{"id":"batch_req_ID.0.3","custom_id":"d","response":{"status_code":200,"request_id":"req-d","body":{"id":"resp_ID.0.3","object":"response","created_at":1767323046,"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[{"type":"message","id":"msg_ID.0.3","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"<D>","annotations":[]}]}]}},"error":null}`,
			`{"id":"batch_req_ID.0.0","custom_id":"a","response":{"status_code":200,"request_id":"req-a","body":{"id":"chatcmpl-ID.0.0","object":"chat.completion","created":1767323047,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A","refusal":null},"logprobs":null,"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"A2","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}},"error":null}`,
		},
		"requests_error.jsonl": {
			`{"id":"batch_req_ID.0.1","custom_id":"b","response":{"status_code":404,"request_id":"req-b","body":{"error":{"message":"no such model","type":"bad_request","param":null,"code":"bad_request"}}},"error":null}`,
			`{"id":"batch_req_ID.0.2","custom_id":"c","response":null,"error":{"code":"timeout","message":"no answer in 2m0s"}}`,
		},
	} {
		if diff := cmp.Diff(objects(t, strings.ReplaceAll(strings.Join(want, "\n"), "ID", id)), objects(t, files[name])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if out := files["requests_output.jsonl"]; !strings.HasPrefix(out, `{"id":"batch_req_`) || !strings.Contains(out, `"<D>"`) {
		t.Errorf("keys of lines, or texts, are not as they should be:\n%s", out)
	}
}

// objects are those of a file of JSON Lines.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, one)
	}
	return all
}
