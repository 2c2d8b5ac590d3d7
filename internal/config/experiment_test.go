package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/eval"
)

// without is text without the folder that names of files begin with.
func without(dir, text string) string {
	return strings.ReplaceAll(text, dir+string(filepath.Separator), "")
}

// experimentOf loads an experiment file of a text.
func experimentOf(t testing.TB, name, text string, o Options) (s *Submission, problems string) {
	t.Helper()
	dir := folder(t, map[string]string{name: text})
	s, err := loadExperiment(filepath.Join(dir, name), o)
	if err != nil {
		return nil, without(dir, err.Error())
	}
	return s, without(dir, Problems(s.Warnings).Error())
}

func TestExperimentProblems(t *testing.T) {
	t.Parallel()
	const good = `"model_name": "m", "prompt": "?"`
	for name, c := range map[string]struct{ text, want string }{
		"nothing":         {"\n \n", `x.jsonl: the file has no prompts; write one JSON object per line: {"id": 0, "api": "openai", "model_name": "gpt-4o", "prompt": "…"}`},
		"what is missing": {`{}`, "x.jsonl:1: prompt: the line has no prompt; add \"prompt\": \"…\"\nx.jsonl:1: api: the line has no api; add \"api\": \"openai\"\nx.jsonl:1: model_name: the line has no model_name; add \"model_name\": \"gpt-4o\""},
		"what is misspelt": {`{"api": "test", "modelname": "m", "promt": "?"}`,
			"x.jsonl:1: prompt: the line has no prompt; call \"promt\" prompt, if that is what it is\nx.jsonl:1: model_name: the line has no model_name; call \"modelname\" model_name, if that is what it is"},
		"not JSON":                 {"\n{\"api\": test}", "x.jsonl:2:10: not JSON: invalid character 'e' in literal true (expecting 'r'); write one JSON object per line"},
		"cut off":                  {`{"api": "te`, "x.jsonl:1:1: not a JSON object: the line ends within it; write one JSON object per line"},
		"two in a line":            {`{"api": "test", ` + good + `} {}`, "x.jsonl:1:51: there is text after the object; write one JSON object per line"},
		"no object":                {`["a"]`, "x.jsonl:1:1: not a JSON object: got string; write one JSON object per line"},
		"not UTF-8":                {"{\"api\": \"test\xff\"}", "x.jsonl:1:14: not UTF-8: a byte is not part of a character; save the file as UTF-8"},
		"a key twice":              {`{"api": "test", "api": "test", ` + good + `}`, "x.jsonl:1:17: api: key given twice; remove one of them"},
		"a key twice, within":      {`{"api": "test", ` + good + `, "parameters": {"a": [{"b": 1, "b": 2}]}}`, "x.jsonl:1:81: b: key given twice; remove one of them"},
		"an unknown api":           {`{"api": "opnai", ` + good + `}` + "\n" + `{"api": "opnai", ` + good + `}`, "x.jsonl:1:9: api: unknown provider opnai; did you mean openai?"},
		"an api without address":   {`{"api": "azure-openai", ` + good + `}`, `x.jsonl:1:9: api: no address for azure-openai; add base_url: "https://RESOURCE.openai.azure.com/openai/v1" under providers.azure-openai of --config`},
		"another":                  {`{"api": "vertexai", ` + good + `}`, `x.jsonl:1:9: api: no address for vertexai; write in --config: providers: {vertexai: {dialect: generate, base_url: "https://…", api_key_env: VERTEXAI_API_KEY}}`},
		"an api of no text":        {`{"api": 5, "model_name": "", "prompt": "?"}`, "x.jsonl:1:9: api: got 5; want text, for example \"openai\"\nx.jsonl:1:26: model_name: got \"\"; want text, for example \"gpt-4o\""},
		"a prompt that is none":    {`{"api": "test", "model_name": "m", "prompt": {"role": "user"}}`, `x.jsonl:1:46: prompt: got {"role": "user"}; want text, a list of texts or a list of messages, for example [{"role": "user", "content": "…"}]`},
		"no turns":                 {`{"api": "test", "model_name": "m", "prompt": []}`, `x.jsonl:1:46: prompt: the list is empty; want text, a list of texts or a list of messages, for example [{"role": "user", "content": "…"}]`},
		"turns and messages":       {`{"api": "test", "model_name": "m", "prompt": ["a", {"role": "user"}]}`, `x.jsonl:1:46: prompt: {"role": "user"} is among them; want text, a list of texts or a list of messages, for example [{"role": "user", "content": "…"}]`},
		"parameters that are none": {`{"api": "test", ` + good + `, "parameters": "hot"}`, `x.jsonl:1:65: parameters: got "hot"; want an object, for example {"temperature": 0}`},
		"a number too large":       {`{"api": "test", ` + good + `, "parameters": {"a": [{"seed": 12345678901234567890}]}}`, `x.jsonl:1:65: parameters: 12345678901234567890 is a number that JSON cannot hold exactly; write it in quotes if it is text`},
		"a group that is none":     {`{"api": "test", ` + good + `, "group": ["a"]}`, `x.jsonl:1:60: group: got ["a"]; want text`},
		"a safety filter":          {`{"api": "gemini", ` + good + `, "safety_filter": "mots"}`, `x.jsonl:1:70: safety_filter: "mots" is not a safety filter; did you mean most?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, got := experimentOf(t, "x.jsonl", c.text, Options{})
			if s != nil || got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Wrong lines keep no other line from being asked: they are warned of, and skipped.
func TestWrongLinesOfExperimentsAreSkipped(t *testing.T) {
	t.Parallel()
	const good = `{"api": "test", "model_name": "m", "prompt": "?"}`
	for name, c := range map[string]struct{ file, text, want string }{
		"JSON": {"x.jsonl", good + "\n{\"api\": \"test\", \"prompt\": \"?\"}\nnonsense\n" + good,
			"x.jsonl:2: model_name: the line has no model_name; add \"model_name\": \"gpt-4o\"\n" +
				"x.jsonl:3:2: not JSON: invalid character 'o' in literal null (expecting 'u'); write one JSON object per line\n" +
				"x.jsonl: 2 of 4 lines are skipped; correct them in a separate file and submit that: if this file changes, it is another experiment, and all its prompts are sent again\n"},
		"CSV": {"x.csv", "api,model_name,prompt\ntest,m,?\ntest,,?\ntest,m,!\n",
			"x.csv:3: model_name: the line has no model_name; add \"model_name\": \"gpt-4o\"\n" +
				"x.csv: 1 of 3 lines are skipped; correct them in a separate file and submit that: if this file changes, it is another experiment, and all its prompts are sent again\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, got := experimentOf(t, c.file, c.text, Options{})
			if s == nil || len(s.Evaluation.Prompts.List) != 2 || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %+v and\n%s\nwant two prompts and\n%s", s, got, c.want)
			}
		})
	}
	many := strings.Repeat("nonsense\n", 100)
	s, got := experimentOf(t, "x.jsonl", many+good, Options{})
	if s == nil || strings.Count(got, "not JSON") != maxListed || !strings.Contains(got, "100 of 101 lines are skipped") {
		t.Errorf("of 100 wrong lines: got\n%s", got)
	}
}

// Everything wrong is told at once, but not without end.
func TestExperimentProblemsEnd(t *testing.T) {
	t.Parallel()
	_, got := experimentOf(t, "x.jsonl", strings.Repeat("{}\n", 1000), Options{})
	if lines := strings.Count(got, "\n"); lines > maxListed+3 || !strings.Contains(got, "fix these first") {
		t.Errorf("got %d lines, want at most %d and a word that reading stopped:\n%s", lines, maxListed+3, got)
	}
}

// line is one of an experiment for the test api only.
func line(more string) string {
	return `{"api": "test", "model_name": "m", "prompt": "?"` + more + "}\n"
}

// Runs are called by the lines' ids, whatever these are, and each otherwise than all
// others.
func TestExperimentIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines, warnings string
		want            []string
	}{
		"of all types": {line(`, "id": "a"`) + line(`, "id": 1`) + line(`, "id": 1.50`) + line(`, "id": true`) + line(`, "id": [1,  {"b": 2}]`), "",
			[]string{"a", "1", "1.50", "true", `[1,{"b":2}]`}},
		"none": {line("") + line(`, "id": null`) + "\n" + line(`, "id": ""`) + line(`, "id": "a\nb"`), `x.jsonl:1: 4 lines have no id that can name a run; the first run is called "line 1"; add one, so that answers can refer to it`,
			[]string{"line 1", "line 2", "line 4", "line 5"}},
		"one of another type": {line(`, "id": 1`) + line(`, "id": "1"`), `x.jsonl:2: 1 line has the id of a line before; the first, "1" of line 1 again, is run as "1 (line 2)"`,
			[]string{"1", "1 (line 2)"}},
		"what we would call it is taken": {line("") + line(`, "id": "line 1"`) + line(`, "id": "line 1'"`),
			`x.jsonl:1: 1 line has no id that can name a run; the first run is called "line 1''"; add one, so that answers can refer to it`,
			[]string{"line 1''", "line 1", "line 1'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, warnings := experimentOf(t, "x.jsonl", c.lines, Options{})
			if s == nil || warnings != c.warnings {
				t.Fatalf("got\n%s\nwant\n%s", warnings, c.warnings)
			}
			var got []string
			for _, p := range s.Evaluation.Prompts.List {
				got = append(got, p.ID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What an experiment comes to: rows as they are written, each once; models by their
// settings, with their provider's own name.
func TestExperiment(t *testing.T) {
	t.Parallel()
	text := "\ufeff" + `  {"id": 0, "api": "gemini", "model_name": "m", "prompt": "$A {} <b>", "unknown": 1e2, "parameters": {"max_output_tokens": 5}}` + "\r\n\n" +
		`{"id": 1, "api": "google", "model_name": "m", "prompt": ["a", "b"], "group": 7}` + "\n" +
		`{"id": 2, "api": "ollama", "model_name": "z", "prompt": "?"}` + "\n" +
		`{"id": 3, "api": "openrouter-openai", "model_name": "m", "prompt": "?"}` + "\n" +
		`{"id": 4, "api": "ollama", "model_name": "a", "prompt": "?"}` + "\n" +
		`{"api": "test", "model_name": "m", "prompt": "?"}` + "\n" + `{"api": "test", "model_name": "m", "prompt": "?"}`
	s, _ := experimentOf(t, "my.tests.jsonl", text, Options{Experiment: Experiment{Parallel: true}})
	if s == nil {
		t.Fatal("it does not load")
	}
	e := s.Evaluation
	if e.Name != "my.tests" || e.JSON != eval.JSONFalse || s.Settings.ConcurrencySource != "" || s.Settings.Retry.MaxAttempts != 5 {
		t.Errorf("name %q, JSON %s, concurrency by %q, %d attempts: want my.tests, false, by no model, 5",
			e.Name, e.JSON, s.Settings.ConcurrencySource, s.Settings.Retry.MaxAttempts)
	}
	var got []string
	for _, p := range e.Prompts.List {
		row, model := e.Prompts.Rows[p.Row], e.Prompts.Models[p.Model]
		got = append(got, fmt.Sprintf("%s: %s in %s, %s: %s", p.ID, model.Target(), s.Settings.Groups[p.Model], row.ID, s.Texts[row.Hash]))
	}
	want := []string{
		`0: google:m in gemini, line 1: {"id": 0, "api": "gemini", "model_name": "m", "prompt": "$A {} <b>", "unknown": 1e2, "parameters": {"max_output_tokens": 5}}`,
		`1: google:m in 7, line 3: {"id": 1, "api": "google", "model_name": "m", "prompt": ["a", "b"], "group": 7}`,
		`4: ollama:a in ollama, line 6: {"id": 4, "api": "ollama", "model_name": "a", "prompt": "?"}`,
		`3: openrouter:m in openrouter-openai, line 5: {"id": 3, "api": "openrouter-openai", "model_name": "m", "prompt": "?"}`,
		`2: ollama:z in ollama, line 4: {"id": 2, "api": "ollama", "model_name": "z", "prompt": "?"}`,
		`line 7: test:m in test, line 7: {"api": "test", "model_name": "m", "prompt": "?"}`,
		`line 8: test:m in test, line 7: {"api": "test", "model_name": "m", "prompt": "?"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
	if n := len(e.Prompts.Models); n != 6 {
		t.Errorf("%d models, want 6: google by two names, two of ollama, openrouter, test", n)
	}
	if most := e.Prompts.Models[0].Overrides["max_completion_tokens"]; most != 5.0 {
		t.Errorf("max_output_tokens became %v of max_completion_tokens, want 5", most)
	}
}

// A prompt that cannot be sent fails alone; it is told of before.
func TestExperimentPromptThatFails(t *testing.T) {
	t.Parallel()
	s, got := experimentOf(t, "x.jsonl", `{"id": 0, "api": "gemini", "model_name": "m", "prompt": [{"role": "user", "parts": "a"}, {"role": "system", "parts": "b"}]}`, Options{})
	const want = "x.jsonl:1:57: prompt: prompt[1] has the role system, which only the first message of gemini can have; this line's run will fail"
	if s == nil || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExperimentCSV(t *testing.T) {
	t.Parallel()
	text := "id,prompt,api,model_name,parameters-temperature,parameters-max_tokens,parameters-echo,group,n,more\n" +
		"id-0,What is the capital of France?,openai,gpt-3.5-turbo,0.5,100,True,,1,x\n" +
		"id-1,\"two\nlines, \"\"quoted\"\" <b>\",test,7,,,,g,2,3\n" +
		"id-2,None,test,7,1,,false,,,\n"
	s, warnings := experimentOf(t, "x.csv", text, Options{})
	if s == nil || warnings != "" {
		t.Fatal(warnings)
	}
	got := map[string]string{}
	for _, row := range s.Evaluation.Prompts.Rows {
		got[row.ID] = s.Texts[row.Hash]
	}
	want := map[string]string{
		"line 2": `{"id": "id-0", "prompt": "What is the capital of France?", "api": "openai", "model_name": "gpt-3.5-turbo", "n": 1, "more": "x", "parameters": {"temperature": 0.5, "max_tokens": 100, "echo": true}}`,
		"line 3": `{"id": "id-1", "prompt": "two\nlines, \"quoted\" <b>", "api": "test", "model_name": "7", "group": "g", "n": 2, "more": "3"}`,
		"line 5": `{"id": "id-2", "prompt": "None", "api": "test", "model_name": "7", "parameters": {"temperature": 1, "echo": false}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":             {"", "x.csv: the file has no header; write the names of the columns into the first line: id,api,model_name,prompt"},
		"no rows":             {"prompt,api,model_name\n", "x.csv:1: there are no rows below the header"},
		"an api misspelt":     {"prompt,api,model_name\n\n\"?\",tset,m\n", "x.csv:3:5: api: unknown provider tset; did you mean test?"},
		"a prompt is missing": {"prompt,api\n,test\n", "x.csv:2: model_name: the line has no model_name; add \"model_name\": \"gpt-4o\""},
		"a cell too many":     {"prompt,api,model_name\n?,test,m,x\n", "x.csv:2:1: not a row of CSV: wrong number of fields"},
		"no CSV":              {"prompt,\"api\"s,model_name\n?,test,m\n", "x.csv:1:12: not a row of CSV: extraneous or missing \" in quoted-field"},
		"a column twice":      {"prompt,prompt,,api,model_name\n", "x.csv:1:8: prompt: a second column has this name; give each column a unique name\nx.csv:1:15: column 3 has no name; give each column a unique name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, got := experimentOf(t, "x.csv", c.text, Options{})
			if s != nil || got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// JSON and CSV that the source calls equivalent are.
func TestExperimentCSVIsAsJSON(t *testing.T) {
	t.Parallel()
	asJSON, _ := experimentOf(t, "x.jsonl", `{"id": "id-0", "prompt": "What is the capital of France?", "api": "openai", "model_name": "gpt-3.5-turbo", "parameters": {"temperature": 0.5, "max_tokens": 100}}`, Options{})
	asCSV, _ := experimentOf(t, "x.csv", "id,prompt,api,model_name,parameters-temperature,parameters-max_tokens\nid-0,What is the capital of France?,openai,gpt-3.5-turbo,0.5,100\n", Options{})
	ignored := cmpopts.IgnoreFields(eval.Document{}, "ID", "Candidate")
	if diff := cmp.Diff(asJSON.Evaluation, asCSV.Evaluation, ignored); diff != "" {
		t.Errorf("(-JSON +CSV):\n%s", diff)
	}
}

// How often a prompt is tried: five times, or what --config, the environment and the
// flag say, the last of them first.
func TestExperimentAttempts(t *testing.T) {
	t.Parallel()
	flag, none := 9, 0
	for name, c := range map[string]struct {
		o    Options
		want int
	}{
		"nothing said":              {Options{}, 5},
		"--config":                  {Options{Fleet: fleet(t, "retry: {max_attempts: 3}\n")}, 3},
		"--config, of another kind": {Options{Fleet: fleet(t, "retry: {initial_delay: 1s}\n")}, 5},
		"environment":               {Options{Env: env("RETRY_MAX_ATTEMPTS", "4")}, 4},
		"--max-attempts":            {Options{Env: env("RETRY_MAX_ATTEMPTS", "4"), Experiment: Experiment{MaxAttempts: &flag}}, 9},
	} {
		s, problems := experimentOf(t, "x.jsonl", line(`, "id": 0`), c.o)
		if s == nil || s.Settings.Retry.MaxAttempts != c.want {
			t.Errorf("%s: %s: got %+v, want %d attempts", name, problems, s, c.want)
		}
	}
	for want, o := range map[string]Experiment{
		"--max-attempts: got 0; want a whole number of at least 1":                    {MaxAttempts: &none},
		"--max-queries: got 0; want a whole number of prompts per minute, at least 1": {MaxQueries: &none},
	} {
		if s, got := experimentOf(t, "x.jsonl", line(`, "id": 0`), Options{Experiment: o}); s != nil || got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// Two endpoints behind two groups: a group of --config names its provider.
func TestGroupsWithProviders(t *testing.T) {
	t.Parallel()
	const endpoints = "providers: {near: {dialect: ollama, base_url: \"http://127.0.0.1:1\"}, far: {dialect: ollama, base_url: \"http://127.0.0.1:2\"}}\n"
	o := Options{Fleet: fleet(t, endpoints+"concurrency: {groups: {group1: {provider: near}, group2: {provider: far, requests_per_minute: 3}}}\n"), Experiment: Experiment{Parallel: true}}
	s, err := loadExperiment(filepath.Join("testdata", "prompto", "documentation_example_groups_2.jsonl"), o)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, m := range s.Evaluation.Prompts.Models {
		got[s.Settings.Groups[i]] = m.Provider
	}
	if diff := cmp.Diff(map[string]string{"gemini": "google", "openai": "openai", "group1": "near", "group2": "far"}, got); diff != "" {
		t.Errorf("providers of groups (-want +got):\n%s", diff)
	}
	_, err = loadExperiment(filepath.Join("testdata", "prompto", "documentation_example_groups_1.jsonl"), o)
	if err == nil || !strings.Contains(err.Error(), "group group1 also has lines of api gemini, but") {
		t.Errorf("a group of several apis with one provider: got %v, want it refused", err)
	}
	dir := folder(t, map[string]string{"fleet.yaml": "concurrency: {groups: {g: {provider: oollama}}}\n"})
	_, err = LoadFleet(filepath.Join(dir, "fleet.yaml"))
	if want := "fleet.yaml:1:38: concurrency.groups.g.provider: unknown provider oollama; did you mean ollama?"; err == nil || without(dir, err.Error()) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
