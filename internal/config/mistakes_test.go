package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// TestModelsOfOtherTools: what another tool calls a model is answered with the line to write, and
// a provider beside its model is understood.
func TestModelsOfOtherTools(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"openai:chat:gpt-4o":                 "write openai-chat:gpt-4o",
		"openai:responses:gpt-5-mini":        "write openai:gpt-5-mini",
		"anthropic:messages:claude-opus-4-8": "write anthropic:claude-opus-4-8",
		"azure:chat:gpt-4o":                  "write azure-openai:gpt-4o",
		"ollama:chat:llama3":                 "write ollama:llama3",
	} {
		_, got := problemsOf(t, with(two, "eval.yaml", "documents: [docs/*.md]\njudges: [\""+written+"\"]\npairwise: {}\n"), Options{})
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, want %q", written, got, want)
		}
	}
	file := "documents: [docs/*.md]\npairwise: {}\n" +
		"judges: [{provider: openai, model: gpt-4o}, {name: b, provider: openai, model: \"openai:gpt-4o\"}, \"ollama:llama3:8b\", \"ollama:chat:latest\"]\n" +
		"fallback: {models: [{provider: gemini, model: gemini-2.5-flash}]}\njsonify: {provider: openai, model: gpt-4.1-mini}\n"
	s := load(t, with(two, "eval.yaml", file), Options{})
	var got []string
	for _, judge := range s.Evaluation.Judges {
		got = append(got, judge.Target())
	}
	if diff := cmp.Diff([]string{"openai:gpt-4o", "openai:gpt-4o", "ollama:llama3:8b", "ollama:chat:latest"}, got); diff != "" {
		t.Errorf("judges (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"google:gemini-2.5-flash"}, s.Settings.Fallback.Models); diff != "" {
		t.Errorf("fallback (-want +got):\n%s", diff)
	}
}

// TestAddressesOfRequests: the address of a request in place of an endpoint's is refused with
// the one to write, and an unusual one is warned of.
func TestAddressesOfRequests(t *testing.T) {
	t.Parallel()
	fleet := func(address string) (*Fleet, error) {
		path := filepath.Join(t.TempDir(), "fleet.yaml")
		if err := os.WriteFile(path, []byte("providers: {local: {base_url: \""+address+"\"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadFleet(path)
	}
	_, err := fleet("http://127.0.0.1:8000/v1/chat/completions")
	if err == nil || !strings.Contains(err.Error(), `write base_url: "http://127.0.0.1:8000/v1"`) {
		t.Errorf("the path of a request: got %v", err)
	}
	for address, want := range map[string]string{
		"http://127.0.0.1:8000": `if calls fail with 404, write base_url: "http://127.0.0.1:8000/v1"`, "http://127.0.0.1:8000/v1": "",
	} {
		f, err := fleet(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := Problems(f.Warnings).Error(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got the warning %q, want %q", address, got, want)
		}
	}
}

// answered are two answers, in the forms in which programs write them.
var answered = map[string]string{
	"lines": `{"id": 1, "candidate": "a", "text": "A.", "score": NaN}` + "\n" + `{"id": 2, "candidate": "b", "text": "NaN, \"Infinity\"", "score": -Infinity}` + "\n",
	"a list": `[{"id": 1, "candidate": "a", "text": "A.", "score": 1},
 {"id": 2, "candidate": "b", "text": "NaN, \"Infinity\"", "score": NaN}]`,
	"a list in one line": `[{"id": 1, "candidate": "a", "text": "A."}, {"id": 2, "candidate": "b", "text": "NaN, \"Infinity\""}]`,
	"an indented list":   "\ufeff[\n  {\n    \"id\": 1,\n    \"candidate\": \"a\",\n    \"text\": \"A.\"\n  },\n  {\n    \"id\": 2,\n    \"candidate\": \"b\",\n    \"text\": \"NaN, \\\"Infinity\\\"\"\n  }\n]\n",
	"indented objects":   "{\n  \"id\": 1,\n  \"candidate\": \"a\",\n  \"text\": \"A.\"\n}\n{\n  \"id\": 2,\n  \"candidate\": \"b\",\n  \"text\": \"NaN, \\\"Infinity\\\"\"\n}\n",
}

// TestFormsOfJSON: a list, and objects that span lines, are read as one object a line is.
func TestFormsOfJSON(t *testing.T) {
	t.Parallel()
	var want eval.ID
	for _, name := range []string{"lines", "a list", "a list in one line", "an indented list", "indented objects"} {
		s := load(t, map[string]string{"eval.yaml": "name: e\n" + judged + "documents: {jsonl: a.json}\n", "a.json": answered[name]}, Options{})
		if n := len(s.Evaluation.Documents); n != 2 {
			t.Errorf("%s: got %d documents, want 2", name, n)
		}
		if want == "" {
			want = s.Evaluation.ID()
		}
		if got := s.Evaluation.ID(); got != want {
			t.Errorf("%s: got another evaluation", name)
		}
	}
	for text, want := range map[string]string{
		"[{\"id\": 1, \"text\": \"a\"},\n{\"id\": 2 \"text\": \"b\"}]": "a.json:2: not JSON",
		"[{\"id\": 1, \"text\": \"a\"},\n7]":                           "a.json:2: not a JSON object: got number",
		"[{\"id\": 1, \"text\": \"a\"}":                                "a.json:1: not JSON",
		"[{\"id\": 1, \"text\": \"a\"}]\n{}":                           "a.json:2: there is text after the list",
		`{"id": 1, "text": NaN}`:                                       "a.json:1: text: the value is not text",
		"{\"id\": 1,\n\"text\": NaN}":                                  "a.json:1: text: the value is not text",
	} {
		_, got := problemsOf(t, map[string]string{"eval.yaml": judged + "documents: {jsonl: a.json}\n", "a.json": text}, Options{})
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestVotesAsProgramsWriteThem: semicolons and tabs separate cells, 1.0 is 1, and a field that is
// not used may have any value.
func TestVotesAsProgramsWriteThem(t *testing.T) {
	t.Parallel()
	want := []string{"a", "b", eval.Tie}
	for name, text := range map[string]string{
		"v.csv":   "item,candidate_a,candidate_b,winner,annotator\n,a,b,1,x\n,a,b,2,y\n,a,b,tie,z\n",
		"s.csv":   "item;candidate_a;candidate_b;winner;annotator\n;a;b;1.0;x\n;a;b;2.0;y\n;a;b;0.0;z\n",
		"t.csv":   "item\tcandidate_a\tcandidate_b\twinner\tannotator\n\ta\tb\tA\tx\n\ta\tb\tB\ty\n\ta\tb\tTie\tz\n",
		"j.jsonl": `[{"candidate_a": "a", "candidate_b": "b", "winner": 1.0, "annotator": "x", "notes": [1], "time": NaN}, {"candidate_a": "a", "candidate_b": "b", "winner": 2.0, "annotator": "y"}, {"candidate_a": "a", "candidate_b": "b", "winner": 0.0, "annotator": "z"}]`,
	} {
		file := "documents: {jsonl: a.jsonl}\nvotes: " + name + "\n"
		s := load(t, map[string]string{"eval.yaml": file, "a.jsonl": `{"candidate": "a", "text": "A."}` + "\n" + `{"candidate": "b", "text": "B."}`, name: text}, Options{})
		votes, err := eval.DecodeVotes(s.Texts[s.Settings.Votes])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, vote := range votes {
			got = append(got, vote.Winner)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAnAnswersFileIsNoExperiment: a file of answers is named as one. With the advice to add
// "api": "openai", people paid for answers to answers.
func TestAnAnswersFileIsNoExperiment(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a.jsonl": `{"question_id": 7, "model": "m", "output": "A.", "prompt": "Q?"}`,
		"b.json":  `[{"id": "1", "system": "m", "answer": "A."}]`,
		"c.csv":   "id,model_name,response\n1,m,A.\n",
		"d.jsonl": "{\n  \"instruction\": \"Q?\",\n  \"generator\": \"m\",\n  \"output\": \"A.\"\n}\n",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := InputAt(path).Load(nil, Options{})
		if err == nil || !strings.Contains(err.Error(), "looks like a file of answers") || strings.Contains(err.Error(), "add \"api\"") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line that says what it is", name, err)
		}
	}
	s, got := experimentOf(t, "x.jsonl", `{"api": "test", "model_name": "m", "prompt": "?", "response": null, "score": NaN}`, Options{})
	if s == nil || len(s.Evaluation.Prompts.List) != 1 {
		t.Errorf("a prompt with NaN in another field: got %s", got)
	}
}

// TestALineWithAnUnknownAPIRefusesNoOther: the others are asked, and the warning counts those
// that are not.
func TestALineWithAnUnknownAPIRefusesNoOther(t *testing.T) {
	t.Parallel()
	line := func(i int, api string) string {
		return fmt.Sprintf(`{"id": "%d", "api": "%s", "model_name": "m", "prompt": "?"}`+"\n", i, api)
	}
	text := line(0, "test") + line(1, "opnai") + line(2, "opnai") + line(3, "quart") + line(4, "test")
	s, got := experimentOf(t, "x.jsonl", text, Options{})
	if s == nil || len(s.Evaluation.Prompts.List) != 2 {
		t.Fatalf("got %s, want two prompts", got)
	}
	for want, times := range map[string]int{"unknown provider opnai": 1, "no address for quart": 1, "3 of 5 lines are skipped": 1} {
		if strings.Count(got, want) != times {
			t.Errorf("got\n%s\nwant %q once", got, want)
		}
	}
}

// TestProblemsAreBounded: neither one file nor a folder of them floods the terminal.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	var all Problems
	for i := range 1000 {
		all = append(all, Problem{File: "a", Line: i + 1, Message: "wrong"})
	}
	if got := strings.Split(all.Error(), "\n"); len(got) != maxListed+1 || got[maxListed] != "a: and 980 more problems" {
		t.Errorf("of one file: got %d lines, the last: %s", len(got), got[len(got)-1])
	}
	for i := range 1000 {
		all = append(all, Problem{File: fmt.Sprint("b", i), Message: "wrong"})
	}
	if got := strings.Split(all.Error(), "\n"); len(got) != maxLines+1 || !strings.HasSuffix(got[maxLines], " more problems elsewhere") {
		t.Errorf("of many files: got %d lines, the last: %s", len(got), got[len(got)-1])
	}
}
