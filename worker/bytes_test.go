package worker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// strange is text that some step on the way may be tempted to expand, to escape or
// to clean.
const strange = "\n $HOME ${x} $1 {} {0} {INPUT_PROMPT} {{.}} %s %!d <file_b_stem> <b>&amp;</b> [[documents]] `rm -rf` ''' \"\"\" \\n \\u0041 \\\n" +
	"\ttab \r\n \x00 \x01 \x1b[31m \x7f \u0085 \u00a0 \u200b \u202e right to left \u2066 \u2028 \u2029 \ufeff \ufffd e\u0301 é 🙂 שלום \n```json\n{\"winner_doc_id\": \"a\"}\n```\n "

// Documents, their question and the files of listed runs arrive byte for byte, as the
// provider counts, in every dialect.
func TestTextsArriveByteForByte(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"openai": "/v1", "openai-chat": "/v1", "anthropic": "", "google": "", "ollama": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := simulator.Listen("127.0.0.1:0", simulator.Config{KeepArrivals: 100, KeepTexts: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			b := setup(t, nil)
			client := transport.NewClient(transport.Connections{Slots: 5})
			t.Cleanup(client.CloseIdleConnections)
			entry := catalog.BuiltIn()[name]
			entry.BaseURL = server.URL + path
			provider, err := entry.Open(client, catalog.Credentials{})
			if err != nil {
				t.Fatal(err)
			}
			config := b.config()
			config.Endpoints = map[string]providers.Endpoint{name: {Provider: provider, Key: "sk-0123456789", Capabilities: entry.Capabilities}}

			first, second, question := strange+"1", "2"+strange, "Which?"+strange
			b.submit(0, func(e *eval.Evaluation, texts map[string]string, _ *record.Settings) {
				e.Judges = []eval.Judge{{Name: "judge", Provider: name, Model: "careful", Overrides: map[string]any{"max_completion_tokens": 500}}}
				e.Items[0].Question = question
				e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}, Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1}
				e.Grounding, e.Reasoning = eval.Off, eval.Off
				var files []eval.Document
				for id, text := range map[string]string{"a.md": first, "b.md": second} {
					texts[eval.TextHash(text)] = text
					files = append(files, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(text), Bytes: len(text)})
				}
				if files[0].ID != "a.md" {
					files[0], files[1] = files[1], files[0]
				}
				e.Documents = files
				e.Runs = &eval.Runs{Models: e.Judges, Files: files, List: []eval.FileRun{{ID: "r1", FileB: 1}}}
			})
			defer b.start(config)()
			b.wait()

			arrivals := server.Arrivals()
			seen := map[string]int{} // of the documents between their tags, the question, and the run
			for _, a := range arrivals {
				prompt := strings.Join(a.Texts, "\n")
				for what, text := range map[string]string{
					"question": "\">\n" + question + "\n</question", "a.md": "<document id=\"a.md\" fence=", "b.md": "<document id=\"b.md\" fence=",
					"text of a.md": "\">\n" + first + "\n</document", "text of b.md": "\">\n" + second + "\n</document",
				} {
					seen[what] += strings.Count(prompt, text)
				}
				if diff := cmp.Diff([]string{first + "\n\n" + second}, a.Texts); diff == "" {
					seen["run"]++
				}
			}
			want := map[string]int{"question": 4, "a.md": 3, "b.md": 3, "text of a.md": 3, "text of b.md": 3, "run": 1}
			if diff := cmp.Diff(want, seen); diff != "" || len(arrivals) != 5 {
				t.Errorf("%d calls, want 5; what arrived as it was (-want +got):\n%s", len(arrivals), diff)
			}
		})
	}
}
