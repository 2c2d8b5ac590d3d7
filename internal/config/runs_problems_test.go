package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblemsOfRuns(t *testing.T) {
	t.Parallel()
	const asks = "provider: simulator\nmodel: careful\n"
	const files = "file_a: a.md, file_b: b.md"
	for _, c := range []struct{ name, text, want string }{
		{"none", asks + "runs: []\n",
			"eval.yaml:3:7: runs: no runs are listed; for example [{provider: openai, model: gpt-5-mini, file_a: instructions.md, file_b: input.md}]"},
		{"no list", asks + "runs: all\n", `eval.yaml:3:7: runs: got "all"; want a list`},
		{"no run", asks + "runs: [a.md]\n",
			`eval.yaml:3:8: runs[0]: got "a.md"; want a run, for example {model: gpt-5-mini, file_a: instructions.md, file_b: input.md}`},
		{"both forms", asks + "runs: [{" + files + "}]\ntest: {" + files + "}\n",
			"eval.yaml:4:1: test: line 3 already has a list of runs; remove one of them"},
		{"unknown key", asks + "runs: [{" + files + ", overides: {}}]\n", "eval.yaml:3:37: runs[0].overides: unknown key; did you mean overrides?"},
		{"unknown key of a single run", asks + "test: {" + files + ", fileb: x}\n", "eval.yaml:3:36: test.fileb: unknown key; did you mean file_b?"},
		{"unknown key of all", asks + "runs: [{" + files + "}]\nprovder: x\n", "eval.yaml:4:1: provder: unknown key; did you mean provider?"},
		{"id twice", asks + "runs:\n- {id: run2, " + files + "}\n- {" + files + "}\n",
			"eval.yaml:5:3: runs[1]: a second run with the id run2, the first is in DIR/eval.yaml:4; give each run a unique id; a run without one is named after its position in the list"},
		{"id that does not show", asks + "runs: [{id: \"a\\nb\", " + files + "}]\n",
			`eval.yaml:3:13: runs[0].id: "a\nb" cannot be a run's id; use at most 512 printable characters`},
		{"no provider", "runs: [{" + files + "}]\n", "eval.yaml:1:8: runs[0]: the run has no provider; add provider, to the run or to the file for all its runs"},
		{"no model", "runs: [{provider: openai, " + files + "}]\n", "eval.yaml:1:8: runs[0]: the run has no model; add model, to the run or to the file for all its runs"},
		{"a model of another provider", asks + "runs: [{provider: openai, " + files + "}]\n",
			"eval.yaml:3:8: runs[0]: the run has no model; add model, to the run or to the file for all its runs"},
		{"unknown provider", "runs: [{provider: simulatr, model: careful, " + files + "}]\n", "eval.yaml:1:36: runs[0].model: unknown provider simulatr; did you mean simulator?"},
		{"no search", "runs: [{provider: ollama, model: llama3, " + files + "}]\n",
			"eval.yaml:1:34: runs[0].model: ollama:llama3 has no known web search; set grounding: off, use another model, or set its search under providers.ollama.models"},
		{"no reasoning", "reasoning: required\nruns: [{provider: openai, model: gpt-4.1, " + files + "}]\n",
			"eval.yaml:2:34: runs[0].model: openai:gpt-4.1 does not reason; set reasoning: off, or use another model"},
		{"no files", asks + "runs: [{}]\n", "eval.yaml:3:8: runs[0]: the run has no file_a; add file_a, the file of the instructions\n" +
			"eval.yaml:3:8: runs[0]: the run has no file_b; add file_b, the file of the input"},
		{"missing files, each once", asks + "runs:\n- {file_a: x.md, file_b: b.md}\n- {file_a: x.md, file_b: sub}\n",
			"eval.yaml:4:12: runs[0].file_a: DIR/x.md: no such file\neval.yaml:5:26: runs[1].file_b: DIR/sub: this is a folder, not a file"},
		{"nothing to ask", asks + "runs: [{file_a: empty.md, file_b: empty.md}]\n",
			"eval.yaml:3:8: runs[0]: both files are empty, so there is nothing to send; put the instructions into file_a and the input into file_b"},
		{"override set by evalfleet", asks + "runs: [{" + files + ", overrides: {stream: true}}]\n",
			"eval.yaml:3:49: runs[0].overrides.stream: evalfleet sets stream itself; remove it"},
		{"runs and documents, nothing asked", asks + "runs: [{" + files + "}]\ndocuments: [a.md]\njudges: [simulator:careful]\n",
			"eval.yaml: there is no question about the documents; add single, pairwise or panel"},
		{"an older name beside its successor", asks + "runs: [{" + files + "}]\nenforce_web_search: true\ngrounding: off\nretries: {attempts: 2}\nretry: {max_attempts: 3}\n" +
			"llm_api: {max_concurrent_llm_calls: 2, timeout_seconds: 5}\nconcurrency: {max_concurrency: 3, timeout_seconds: 6}\n",
			"eval.yaml:4:1: enforce_web_search: grounding sets the same in line 5; remove one of them\n" +
				"eval.yaml:6:1: retries: retry sets the same in line 7; remove one of them\n" +
				"eval.yaml:8:11: llm_api.max_concurrent_llm_calls: concurrency.max_concurrency sets the same in line 9; remove one of them\n" +
				"eval.yaml:8:40: llm_api.timeout_seconds: concurrency.timeout_seconds sets the same in line 9; remove one of them"},
		{"older names, misspelt", asks + "runs: [{" + files + "}]\nenforce_web_search: 1\nretries: {attempt: 2}\nllm_api: {timeout: 5}\n",
			"eval.yaml:4:21: enforce_web_search: got \"1\"; want true or false\n" +
				"eval.yaml:5:11: retries.attempt: unknown key; did you mean attempts?\n" +
				"eval.yaml:6:11: llm_api.timeout: unknown key; did you mean timeout_seconds?"},
		{"a price is missing", "provider: openrouter\nmodel: any\n" + "runs: [{" + files + "}]\nbudget: {usd: 1}\n",
			`eval.yaml:2:8: model: the budget needs the price of openrouter:any; add prices: {"openrouter:any": {input: …, output: …}}, US dollars per million tokens, here or to --config`},

		{"out of the folder", asks + "runs: [{" + files + ", out: ../x.md}]\n",
			"eval.yaml:3:42: runs[0].out: ../x.md is outside the working folder; want a path below it; --out of a single pair may be anywhere"},
		{"out of the folder and back", asks + "runs: [{" + files + ", out: x/../../y/x.md}]\n", "eval.yaml:3:42: runs[0].out: x/../../y/x.md is outside the working folder; "},
		{"out in a hidden folder", asks + "runs: [{" + files + ", out: .git/config}]\n", "eval.yaml:3:42: runs[0].out: .git/config contains a name that starts with a dot, which is not allowed for answers; "},
		{"out at an absolute path", asks + "runs: [{" + files + ", out: /tmp/x.md}]\n", "eval.yaml:3:42: runs[0].out: /tmp/x.md is outside the working folder; "},
		{"out is a folder", asks + "runs: [{" + files + ", out: x/}, {" + files + ", out: .}]\n",
			"eval.yaml:3:42: runs[0].out: x/ is a folder; name a file in it: x/<run_id>.md\neval.yaml:3:81: runs[1].out: . is a folder; "},
		{"out of a folder that there is", asks + "runs: [{" + files + ", out: testdata}]\n", "eval.yaml:3:42: runs[0].out: testdata is a folder; name a file in it"},
		{"out below a file", asks + "runs: [{" + files + ", out: outs.go/x}]\n", "eval.yaml:3:42: runs[0].out: outs.go is not a folder; choose another path"},
		{"unknown placeholder", asks + "runs: [{" + files + ", out: \"<file_b_stm>.md\"}]\n",
			"eval.yaml:3:42: runs[0].out: no placeholder <file_b_stm>; did you mean <file_b_stem>?"},
		{"one file of two runs", asks + "runs:\n- {" + files + ", out: \"x/<file_b_stem>.md\"}\n- {" + files + ", out: x/B.MD}\n",
			"eval.yaml:5:37: runs[1].out: the run would write x/B.MD, like run run1; end it with <run_id>, and give runs ids that differ in more than case and in characters that file names cannot contain"},
		{"ids with one file name", asks + "runs:\n- {id: a/b, " + files + "}\n- {id: A_b, " + files + "}\n", "eval.yaml:5:8: runs[1].id: the run would write b.careful.A_b.fpf.response.md, like run a/b; "},
		{"a file below another", asks + "runs:\n- {" + files + ", out: x/y}\n- {" + files + ", out: x/y/z}\n- {" + files + ", out: x}\n",
			"eval.yaml:5:37: runs[1].out: x/y is not a folder, because run run1 writes that file; choose another path\neval.yaml:6:37: runs[2].out: x is a folder, because run run1 writes into it; choose another path"},
		{"everything at once", asks + "runs:\n- {file_a: a.md, file_b: x.md, out: ../x.md}\n- {" + files + ", out: y/}\n- {" + files + ", out: z.md}\n- {" + files + ", out: z.md}\ngroundig: off\n",
			"eval.yaml:4:26: runs[0].file_b: DIR/x.md: no such file\n" +
				"eval.yaml:4:37: runs[0].out: ../x.md is outside the working folder; want a path below it; --out of a single pair may be anywhere\n" +
				"eval.yaml:5:37: runs[1].out: y/ is a folder; name a file in it: y/<run_id>.md\n" +
				"eval.yaml:7:37: runs[3].out: the run would write z.md, like run run3; end it with <run_id>, and give runs ids that differ in more than case and in characters that file names cannot contain\n" +
				"eval.yaml:8:1: groundig: unknown key; did you mean grounding?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := with(pairOfFiles, "eval.yaml", c.text, "empty.md", "", "sub/x", "")
			dir := folder(t, all)
			_, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
			expect(t, dir, err, c.want)
		})
	}
}

// expect wants problems that begin as told, line by line.
func expect(t *testing.T, dir string, err error, want string) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %T: %v, want Problems", err, err)
	}
	got := err.Error()
	wanted := strings.Split(want, "\n")
	lines := strings.Split(got, "\n")
	ok := len(lines) == len(wanted)
	for i := 0; ok && i < len(lines); i++ {
		line := strings.TrimPrefix(lines[i], dir+string(filepath.Separator))
		ok = strings.HasPrefix(strings.ReplaceAll(line, dir+string(filepath.Separator), "DIR/"), wanted[i])
	}
	if !ok {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An answer is never written over what is read.
func TestOutOverInput(t *testing.T) {
	t.Chdir(folder(t, with(pairOfFiles, "eval.yaml",
		"provider: simulator\nmodel: careful\nruns: [{file_a: a.md, file_b: b.md, out: \"<file_b_stem>.md\"}, {file_a: a.md, file_b: b.md, out: eval.yaml}]\n")))
	_, err := loadEvaluation("eval.yaml", Options{})
	expect(t, ".", err, "eval.yaml:3:42: runs[0].out: the answer would overwrite b.md; choose another path\n"+
		"eval.yaml:3:97: runs[1].out: the answer would overwrite eval.yaml; choose another path")
}

// An answer never leaves the working folder through a symbolic link, and the file is
// refused before anything is sent.
func TestOutThroughALink(t *testing.T) {
	outside := t.TempDir()
	t.Chdir(folder(t, with(pairOfFiles, "eval.yaml", `provider: simulator
model: careful
runs:
- {file_a: a.md, file_b: b.md, out: away/x.md}
- {file_a: a.md, file_b: b.md, out: away/deep/er/x.md}
- {file_a: a.md, file_b: b.md, out: near/x.md}
`, "kept/y.md", "")))
	for link, to := range map[string]string{"away": outside, "near": "kept"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	_, err := loadEvaluation("eval.yaml", Options{})
	expect(t, ".", err, "eval.yaml:4:37: runs[0].out: away/x.md leads outside the working folder through a symbolic link; choose another path; --out of a single pair may be anywhere\n"+
		"eval.yaml:5:37: runs[1].out: away/deep/er/x.md leads outside the working folder through a symbolic link; ")
	_, err = loadRuns(Options{Listed: Listed{FileA: "a.md", FileB: "b.md", Out: "away/x.md"}, Provider: "simulator", Model: "careful"})
	if err != nil {
		t.Errorf("--out into a linked folder: %v", err)
	}
}

func TestProblemsOfRunsListedByFlags(t *testing.T) {
	t.Parallel()
	json := func(text string) Listed { return Listed{JSON: strings.NewReader(text)} }
	const example = `want a JSON array of runs, for example [{"provider": "openai", "model": "gpt-5-mini", "file_a": "a.md", "file_b": "b.md"}]`
	for _, c := range []struct {
		name, text string
		files      map[string]string
		o          Options
		want       string
	}{
		{"two ways", "", pairOfFiles, Options{Listed: Listed{File: "runs.yaml", FileA: "a.md"}}, "--file-a: --runs-config also lists runs; use one of them"},
		{"a list in the file too", "runs: [{}]\n", pairOfFiles, Options{Listed: Listed{FileA: "a.md", FileB: "b.md"}}, "eval.yaml:1:1: runs: --file-a also lists runs; remove one of them"},
		{"a single run in the file too", "test: {}\n", pairOfFiles, Options{Listed: json("[]")}, "eval.yaml:1:1: test: --runs-stdin also lists runs; remove one of them"},
		{"no instructions", "", pairOfFiles, Options{Listed: Listed{FileB: "b.md"}}, "--file-a: it is missing; add --file-a, the file of the instructions"},
		{"no input", "", pairOfFiles, Options{Listed: Listed{FileA: "a.md"}}, "--file-b: it is missing; add --file-b, the file of the input"},
		{"an answer and no files", "", pairOfFiles, Options{Listed: Listed{Out: "x.md"}}, "--file-a: it is missing; "},
		{"no such input", "", pairOfFiles, Options{Listed: Listed{FileA: "a.md", FileB: "c.md"}, Provider: "simulator", Model: "careful"}, "--file-b: DIR/c.md: no such file"},
		{"no provider for a pair", "", pairOfFiles, Options{Listed: Listed{FileA: "a.md", FileB: "b.md"}}, "--file-a: the run has no provider; add --provider"},
		{"unknown provider", "", pairOfFiles, Options{Listed: Listed{FileA: "a.md", FileB: "b.md"}, Provider: "opanai", Model: "x"}, "--model: unknown provider opanai; did you mean openai?"},
		{"an answer over its input", "", pairOfFiles, Options{Listed: Listed{FileA: "a.md", FileB: "b.md", Out: "b.md"}, Provider: "simulator", Model: "careful"},
			"--out: the answer would overwrite DIR/b.md; choose another path"},
		{"a model in the file and no runs", minimal + "model: x\n", two, Options{}, "eval.yaml:4:8: model: it applies to listed runs, but there are none; remove it, or list runs"},
		{"a model and no runs", minimal, two, Options{Model: "x"}, "--model: it applies to listed runs, but there are none; remove it, or list runs"},
		{"no such file", "", pairOfFiles, Options{Listed: Listed{File: "runs.yaml"}}, "runs.yaml: no such file"},
		{"no list in the file", "name: x\n", with(pairOfFiles, "runs.yaml", "model: x\n"), Options{Listed: Listed{File: "runs.yaml"}},
			"runs.yaml: no runs are listed; add runs: [{file_a: instructions.md, file_b: input.md}]"},
		{"settings in the list's file", "name: x\n", with(pairOfFiles, "runs.yaml", "retry: {}\nruns: [{provider: simulator, model: careful, file_a: a.md, file_b: b.md}]\n"),
			Options{Listed: Listed{File: "runs.yaml"}}, "runs.yaml:1:1: retry: unknown key; known: model, provider, runs"},
		{"nothing on standard input", "", nil, Options{Listed: json(" \n")}, "stdin: standard input was empty; " + example},
		{"no JSON", "", nil, Options{Listed: json("[\n {\"id\": }]")}, "stdin:2:9: not JSON: invalid character '}' looking for beginning of value; " + example},
		{"cut JSON", "", nil, Options{Listed: json("[{\"id\": \"a\"}")}, "stdin:1:12: not JSON: unexpected end of JSON input; "},
		{"an object", "", nil, Options{Listed: json("{\"runs\": []}")}, "stdin: got something else; " + example},
		{"not UTF-8", "", nil, Options{Listed: json("[{\"id\": \"\xff\"}]")}, "stdin: not UTF-8: byte 9 is not part of a character; write it as UTF-8"},
		{"an empty list", "", nil, Options{Listed: json("[]")}, "stdin:1:1: no runs are listed; "},
		{"no run", "", nil, Options{Listed: json("[1]")}, `stdin:1:2: [0]: got "1"; want a run, `},
		{"unknown key", "", nil, Options{Listed: json("[{\"id\": \"a\",\n\"file_c\": 1}]")}, "stdin:1:2: [0]: the run has no provider; \nstdin:1:2: [0]: the run has no file_a; \nstdin:1:2: [0]: the run has no file_b; \nstdin:2:1: [0].file_c: unknown key; did you mean file_a?"},
		{"key twice", "", nil, Options{Listed: json("[{\"id\": \"a\", \"id\": \"b\"}]"), Provider: "simulator", Model: "careful"}, "stdin:1:2: [0]: the run has no file_a; \nstdin:1:2: [0]: the run has no file_b; \nstdin:1:14: [0].id: duplicate key, first in line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, dir, err := listedFrom(t, c.text, c.files, c.o)
			expect(t, dir, err, c.want)
		})
	}
}

// Names that Windows takes for devices are refused on every system.
func TestOutsAreNoDevices(t *testing.T) {
	t.Parallel()
	for name, device := range map[string]bool{
		"nul": true, "answers/Con.md": true, "COM1.tar.gz": true, "lpt9 .md": true, "aux/x.md": true, "prn:x.md": true, "CONIN$": true, "com².md": true,
		"console/null/com10/auxiliary.md": false, "communism": false,
	} {
		dir := folder(t, with(pairOfFiles, "eval.yaml", "provider: simulator\nmodel: careful\nruns: [{file_a: a.md, file_b: b.md, out: \""+name+"\"}]\n"))
		_, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
		if refused := err != nil && strings.Contains(err.Error(), name+" contains the name of a device on Windows"); refused != device || !device && err != nil {
			t.Errorf("out: %s: got %v, want it refused as a device: %v", name, err, device)
		}
	}
}
