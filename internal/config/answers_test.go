package config

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// inspectLog returns an inspect log: a zip archive with the compression of one of the tool's versions.
func inspectLog(t testing.TB, method uint16, files ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(93, zstd.ZipCompressor())
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestSpeed) })
	for i := 0; i < len(files); i += 2 {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: files[i], Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// formats are files in the shapes of tools, what is read from them, and the line that says so.
func formats(t testing.TB) []formatCase {
	arena := func(model, text string) string {
		return fmt.Sprintf(`{"uid":"u1","ans_id":"x","model":%q,"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":{"answer":%q}}],"tstamp":1.5,"metadata":{"token_len":3}}`, model, text) + "\n"
	}
	arena0 := func(model, text string) string {
		return fmt.Sprintf(`{"question_id":"h1","answer_id":"x","model_id":%q,"choices":[{"index":0,"turns":[{"content":%q,"token_len":3}]}],"tstamp":1.5}`, model, text) + "\n"
	}
	bench := func(model, first, second string) string {
		return fmt.Sprintf(`{"question_id":81,"answer_id":"x","model_id":%q,"choices":[{"index":0,"turns":[%q,%q]}],"tstamp":1.5}`, model, first, second) + "\n"
	}
	lm := func(filter, text string) string {
		return fmt.Sprintf(`{"doc_id":0,"doc":{"question":"2+2?","answer":"4"},"target":"4","arguments":{"gen_args_0":{"arg_0":"Q: 2+2?\nA:","arg_1":{"until":["\n"]}}},"resps":[[%q]],"filtered_resps":["4"],"filter":%q,"exact_match":1.0}`, text, filter) + "\n"
	}
	sample := func(epoch int, text string) string {
		return fmt.Sprintf(`{"id":1,"epoch":%d,"input":[{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"}],"target":"4","messages":[],"output":{"model":"m","choices":[{"message":{"role":"assistant","content":[{"type":"reasoning","reasoning":"hm"},{"type":"text","text":%q}]},"stop_reason":"stop"}]},"scores":{"match":{"value":"C"}}}`, epoch, text)
	}
	header := func(model string) string {
		return fmt.Sprintf(`{"version":2,"status":"success","eval":{"task":"sums","model":%q},"plan":{}}`, model)
	}
	openai := func(model, text string) string {
		return fmt.Sprintf(`{"spec":{"completion_fns":[%q],"eval_name":"sums.dev.v0","base_eval":"sums","split":"dev","run_config":{}}}
{"run_id":"r","event_id":0,"sample_id":"sums.dev.0","type":"sampling","data":{"prompt":[{"role":"system","content":"Add."},{"role":"user","content":"2+2?"}],"sampled":[%q]},"created_by":""}
{"run_id":"r","event_id":1,"sample_id":"sums.dev.0","type":"sampling","data":{"prompt":"Is it right?","sampled":["Yes"]}}
{"run_id":"r","event_id":2,"sample_id":"sums.dev.0","type":"match","data":{"correct":true,"expected":"4","picked":"4"}}
{"final_report":{"accuracy":1.0}}
`, model, text)
	}
	helm := func(model, text string) string {
		return fmt.Sprintf(`{"adapter_spec":{"method":"generation","model":%q},"request_states":[
{"instance":{"input":{"text":"2+2?"},"references":[{"output":{"text":"5"},"tags":[]},{"output":{"text":"4"},"tags":["correct"]}],"split":"test","id":"id7"},"train_trial_index":0,"request":{"model":%q},"result":{"success":true,"completions":[{"text":%q,"logprob":-1}]}}
]}`, model, model, text)
	}
	foo := func(index, test int, provider, label, output string) string {
		return fmt.Sprintf(`{"promptIdx":%d,"testIdx":%d,"provider":{"id":%q,"label":""},"prompt":{"raw":"Add 2 and 2, %s","label":%q},"vars":{"sum":"2+2"},"response":%s,"success":true,"score":1}`, index, test, provider, label, label, output)
	}
	battle := `{"question_id":"b1","model_a":"x","model_b":"y","winner":"model_a","judge":"arena_user_1","conversation_a":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"},{"role":"user","content":"And?"},{"role":"assistant","content":"Ha"}],"conversation_b":[{"role":"user","content":"Hi"},{"role":"assistant","content":"He"},{"role":"user","content":"And?"},{"role":"assistant","content":"Hu"}],"turn":2}` + "\n"
	return []formatCase{
		{"arena-hard", map[string]string{"a.jsonl": arena("x", "A"), "b.jsonl": arena("y", "B")}, nil,
			[]string{"u1/x|u1|x|A", "u1/y|u1|y|B"}, "Why?", "read 2 files of arena-hard answers: 2 answers of 2 candidates to 1 item"},
		{"arena-hard v0.1", map[string]string{"a.jsonl": arena0("x", "A"), "b.jsonl": arena0("y", "B"),
			"question.jsonl": `{"question_id":"h1","category":"arena-hard-v0.1","cluster":"ABC","turns":[{"content":"How?"}]}` + "\n"}, nil,
			[]string{"h1/x|h1|x|A", "h1/y|h1|y|B"}, "How?", "read 2 files of arena-hard answers: 2 answers of 2 candidates to 1 item\nread 1 file of questions of MT-bench or arena-hard: 1 item"},
		{"mt-bench", map[string]string{"a.jsonl": bench("x", "A", "B"), "b.jsonl": bench("y", "C", "D"),
			"question.jsonl": `{"question_id":81,"category":"writing","turns":["Write.","Shorten."]}` + "\n"}, nil,
			[]string{"81/x|81|x|[Turn 1]\nA\n\n[Turn 2]\nB", "81/y|81|y|[Turn 1]\nC\n\n[Turn 2]\nD"}, "[Turn 1]\nWrite.\n\n[Turn 2]\nShorten.",
			"read 2 files of MT-bench answers: 2 answers of 2 candidates to 1 item\nread 1 file of questions of MT-bench or arena-hard: 1 item"},
		{"alpaca_eval", map[string]string{"a.json": `[{"dataset":"koala","instruction":"Why?\nSay.","output":"A","generator":"x"}]`,
			"b.json": `[{"dataset":"koala","instruction":"Why?\nSay.","output":"B","generator":"y"}]`}, nil,
			[]string{"q-6af438a0c181/x|q-6af438a0c181|x|A", "q-6af438a0c181/y|q-6af438a0c181|y|B"}, "Why?\nSay.",
			"read 2 files of alpaca_eval outputs: 2 answers of 2 candidates to 1 item"},
		{"alpaca_eval annotations", map[string]string{"annotations.json": `[{"instruction":"Why?","output_1":"A","generator_1":"x","output_2":"B","generator_2":"y","preference":2.0},
{"instruction":"Why?","output_1":"A","generator_1":"x","output_2":"C","generator_2":"z","preference":1.0}]`}, nil,
			[]string{"q-5d8a995a6fa7/x|q-5d8a995a6fa7|x|A", "q-5d8a995a6fa7/y|q-5d8a995a6fa7|y|B", "q-5d8a995a6fa7/z|q-5d8a995a6fa7|z|C"}, "Why?",
			"read 1 file of alpaca_eval annotations (the answers in them): 3 answers of 3 candidates to 1 item; not taken: 1 (answers that other rows have, too)"},
		{"lm-eval", map[string]string{"x/samples_sums_2024-05-01T10-00-00.1.jsonl": lm("strict-match", "A") + lm("flexible-extract", "A"),
			"y/samples_sums_2024-05-02T10-00-00.1.jsonl": lm("strict-match", "B") + `{"doc_id":1,"doc":{"question":"?"},"target":1,"arguments":[["Q"," A"]],"resps":[[["-1.5","False"]]],"filtered_resps":[["-1.5","False"]],"filter":"strict-match"}` + "\n"},
			nil, []string{"sums/0/x|sums/0|x|A", "sums/0/y|sums/0|y|B"}, "2+2?",
			"read 2 files of lm-eval samples: 2 answers of 2 candidates to 1 item; not taken: 1 (log-likelihoods, not texts), 1 (the same responses under another filter)"},
		{"inspect", map[string]string{"a.eval": inspectLog(t, zip.Deflate, "header.json", header("x"), "samples/1_epoch_1.json", sample(1, "A"), "summaries.json", "[]"),
			"b.eval": inspectLog(t, 93, "_journal/start.json", header("y"), "samples/1_epoch_1.json", sample(1, "B"), "samples/1_epoch_2.json", sample(2, "C"))}, nil,
			[]string{"sums/1/x|sums/1|x|A", "sums/1/y#2|sums/1|y|C", "sums/1/y|sums/1|y|B"}, "2+2?",
			"read 2 files of inspect log: 3 answers of 2 candidates to 1 item"},
		{"inspect as JSON", map[string]string{"a.json": strings.TrimSuffix(header("x"), "}") + `,"samples":[` + sample(1, "A") + `,{"id":2,"epoch":1,"input":"?","target":"","error":{"message":"timeout"}}]}`,
			"b.json": strings.TrimSuffix(header("y"), "}") + `,"samples":[` + sample(1, "B") + `]}`}, nil,
			[]string{"sums/1/x|sums/1|x|A", "sums/1/y|sums/1|y|B"}, "2+2?",
			"read 2 files of inspect log: 2 answers of 2 candidates to 1 item; not taken: 1 (samples that failed)"},
		{"OpenAI evals", map[string]string{"a.jsonl": openai("x", "A"), "b.jsonl": openai("y", "B")}, nil,
			[]string{"sums.dev.0/x|sums.dev.0|x|A", "sums.dev.0/y|sums.dev.0|y|B"}, "2+2?",
			"read 2 files of OpenAI evals log: 2 answers of 2 candidates to 1 item; not taken: 4 (events that are not answers), 2 (further calls for the same sample, such as a grader's), 2 (header of the file)"},
		{"promptfoo", map[string]string{"results.json": `{"evalId":"eval-1","results":{"version":3,"prompts":[],"results":[` + foo(0, 0, "p:x", "plain", `{"output":"A"}`) + "," +
			foo(1, 0, "p:y", "plain", `{"output":{"sum":4}}`) + "," + foo(1, 1, "p:y", "plain", `null`) + `],"stats":{}},"config":{}}`}, nil,
			[]string{"0/p:x|0|p:x|A", `0/p:y|0|p:y|{"sum":4}`}, "Add 2 and 2, plain",
			"read 1 file of promptfoo results: 2 answers of 2 candidates to 1 item; not taken: 1 (calls without an answer)"},
		{"promptfoo with two prompts", map[string]string{"results.jsonl": foo(0, 0, "p:x", "plain", `{"output":"A"}`) + "\n" + foo(1, 0, "p:x", "loud", `{"output":"B"}`) + "\n"}, nil,
			[]string{"0/p:x · loud|0|p:x · loud|B", "0/p:x · plain|0|p:x · plain|A"}, "2+2",
			"read 1 file of promptfoo results: 2 answers of 2 candidates to 1 item"},
		{"HELM", map[string]string{"sums:digits=1,model=o_x/scenario_state.json": helm("o/x", "A"), "sums:digits=1,model=o_y/scenario_state.json": helm("o/y", "B")}, nil,
			[]string{"sums:digits=1/id7/o/x|sums:digits=1/id7|o/x|A", "sums:digits=1/id7/o/y|sums:digits=1/id7|o/y|B"}, "2+2?",
			"read 2 files of HELM scenario state: 2 answers of 2 candidates to 1 item"},
		{"HELM predictions", map[string]string{"sums:model=o_x/display_predictions.json": `[{"instance_id":"id7","train_trial_index":0,"predicted_text":"A","stats":{}}]`,
			"sums:model=o_y/display_predictions.json": `[{"instance_id":"id7","train_trial_index":0,"predicted_text":"B","stats":{}}]`,
			"sums:model=o_y/instances.json":           `[{"input":{"text":"2+2?"},"references":[{"output":{"text":"4"},"tags":["correct"]}],"split":"test","id":"id7"}]`}, nil,
			[]string{"sums/id7/o_x|sums/id7|o_x|A", "sums/id7/o_y|sums/id7|o_y|B"}, "2+2?",
			"read 2 files of HELM predictions: 2 answers of 2 candidates to 1 item\nread 1 file of HELM instances: 1 item"},
		{"LMSYS", map[string]string{"battles.jsonl": battle}, nil,
			[]string{"b1/x|b1|x|[Turn 1]\nHo\n\n[Turn 2]\nHa", "b1/y|b1|y|[Turn 1]\nHe\n\n[Turn 2]\nHu"}, "[Turn 1]\nHi\n\n[Turn 2]\nAnd?",
			"read 1 file of LMSYS battles (the answers in them): 2 answers of 2 candidates to 1 item"},
		{"LMSYS in CSV", map[string]string{"train.csv": "id,model_a,model_b,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n" +
			`30,x,y,"[""Hi""]","[""A""]","[""B"",""C""]",1,0,0` + "\n"}, nil,
			[]string{"30/x|30|x|A", "30/y|30|y|[Turn 1]\nB\n\n[Turn 2]\nC"}, "Hi",
			"read 1 file of LMSYS battles (the answers in them): 2 answers of 2 candidates to 1 item"},
		{"a table", map[string]string{"a.csv": "\ufeff,question,model,response\n0,Why?,x,\"A, or\nB\"\n1,Why?,y,C\n"}, nil,
			[]string{"q-5d8a995a6fa7/x|q-5d8a995a6fa7|x|A, or\nB", "q-5d8a995a6fa7/y|q-5d8a995a6fa7|y|C"}, "Why?",
			"read 1 file of answers: 2 answers of 2 candidates to 1 item"},
		{"one table a model", map[string]string{"x.tsv": "item\ttext\tlast, first\nq1\tA, B\t\n", "y.tsv": "item\ttext\tlast, first\nq1\tC\t\n"}, nil,
			[]string{"q1/x|q1|x|A, B", "q1/y|q1|y|C"}, "", "read 2 files of answers: 2 answers of 2 candidates to 1 item"},
		{"one file of lines a model", map[string]string{"x.jsonl": `{"question_id":7,"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"A"}]}` + "\n",
			"y.jsonl": `{"question_id":7,"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"B"}]}` + "\n"}, nil,
			[]string{"7/x|7|x|A", "7/y|7|y|B"}, "Why?", "read 2 files of answers: 2 answers of 2 candidates to 1 item"},
		{"prompto", map[string]string{"done.jsonl": `{"id":1,"prompt":"Why?","api":"openai","model_name":"x","timestamp_sent":"1","response":"A"}` + "\n" + `{"id":2,"prompt":"Why?","api":"openai","model_name":"y","timestamp_sent":"1","response":"B"}` + "\n"},
			[]string{"answers: done.jsonl"}, []string{"q-5d8a995a6fa7/x|q-5d8a995a6fa7|x|A", "q-5d8a995a6fa7/y|q-5d8a995a6fa7|y|B"}, "Why?", "read 1 file of prompto answers: 2 answers of 2 candidates to 1 item"},
	}
}

type formatCase struct {
	name     string
	files    map[string]string
	block    []string // the keys of documents; nil: the files are named on the command line, and by a pattern
	want     []string
	question string
	taken    string
}

// TestFilesOfTools: files in the shapes of each tool are read without conversion, named on the command line or by a
// pattern in an evaluation file, and what was taken is said.
func TestFilesOfTools(t *testing.T) {
	t.Parallel()
	for _, c := range formats(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			block := "answers: ['**/*.*']"
			files := with(nil)
			for name, text := range c.files {
				files["data/"+name] = text
			}
			if c.block != nil {
				block = "answers: data/done.jsonl"
			}
			dir := folder(t, with(files, "eval.yaml", judged+"documents: {"+strings.Replace(block, "**/", "data/**/", 1)+"}\n"))
			read := func(how string, s *Submission, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				got := documentsOf(s)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s: documents (-want +got):\n%s", how, diff)
				}
				if got := s.Evaluation.Items[0].Question; len(s.Evaluation.Items) != 1 || got != c.question {
					t.Errorf("%s: %d items, the question %q; want one with %q", how, len(s.Evaluation.Items), got, c.question)
				}
				want := c.taken
				if s.Evaluation.Pairwise != nil && s.Evaluation.Pairwise.Apart {
					want += "\n1 document is a further answer of a candidate to an item; a candidate's answers are not compared with each other"
				}
				if got := strings.Join(s.Taken, "\n"); got != want {
					t.Errorf("%s: said\n%s\nwant\n%s", how, got, want)
				}
				samples := strings.Contains(strings.Join(got, "\n"), "#2|")
				if pairwise := s.Evaluation.Pairwise; pairwise != nil && pairwise.Apart != samples {
					t.Errorf("%s: answers of one candidate are kept apart: %v; there are some: %v", how, pairwise.Apart, samples)
				}
			}
			s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
			read("an evaluation file", s, err)
			if c.block != nil {
				return
			}
			in, err := InputOf([]string{filepath.Join(dir, "data", "**", "*.*")})
			if err != nil {
				t.Fatal(err)
			}
			s, err = in.Load([]string{"simulator:careful"}, Options{})
			read("the command line", s, err)
			text, _, err := in.Look(Options{})
			if want := "looks like "; err != nil || !strings.HasPrefix(text, want) || !strings.Contains(text, "run with: evalfleet run ") {
				t.Errorf("looked at: %q, %v", text, err)
			}
		})
	}
}

// TestFieldsByPath: fields of known and unknown kinds are named by paths, and a wrong one is refused.
func TestFieldsByPath(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.jsonl": `{"meta":{"n":1,"who":"x"},"choices":[{"turns":["A","B"]}],"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"Z"}]}
{"meta":{"n":1,"who":"y"},"choices":[{"turns":["C","D"]}],"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"Y"}]}
`}
	for text, want := range map[string][]string{
		"choices[0].turns[0]":              {"1/x|1|x|A", "1/y|1|y|C"},
		"choices[-1].turns[-1]":            {"1/x|1|x|B", "1/y|1|y|D"},
		"messages[-1].content":             {"1/x|1|x|Z", "1/y|1|y|Y"},
		"messages[role=assistant].content": {"1/x|1|x|Z", "1/y|1|y|Y"},
		"choices[0].turns[*]":              {"1/x|1|x|[Turn 1]\nA\n\n[Turn 2]\nB", "1/y|1|y|[Turn 1]\nC\n\n[Turn 2]\nD"},
	} {
		for _, key := range []string{"answers", "jsonl"} {
			s := load(t, with(files, "eval.yaml", judged+"documents: {"+key+": a.jsonl, item: meta.n, candidate: meta.who, text: '"+text+"', question: 'messages[0].content'}\n"), Options{})
			if diff := cmp.Diff(want, documentsOf(s)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", key, text, diff)
			}
			if got := s.Evaluation.Items[0].Question; got != "Q" {
				t.Errorf("%s: the question is %q, want Q", key, got)
			}
		}
	}
	for keys, want := range map[string]string{
		"text: 'choices[0'":              `documents.text: "choices[0": a [ has no ]; want a name, or a path such as choices[0].turns[0]`,
		"text: 'choices[x].turns'":       `documents.text: "choices[x].turns": [x] is neither a number, nor *, nor name=value`,
		"text: 'choices..turns'":         `documents.text: "choices..turns": a name is empty`,
		"text: 'choices[2].turns[0]'":    `a.jsonl:1: choices[2].turns[0]: the field is missing`,
		"text: meta":                     `a.jsonl:1: meta: the value is not text; want text`,
		"as: arenahard, text: meta.who":  `documents.as: unknown kind of answers arenahard; did you mean arena-hard?`,
		"jsonl: a.jsonl, text: meta.who": `documents.jsonl: answers and jsonl both name files; use answers alone`,
	} {
		_, got := problemsOf(t, with(files, "eval.yaml", judged+"documents: {answers: a.jsonl, item: meta.n, candidate: meta.who, "+keys+"}\n"), Options{})
		if !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", keys, got, want)
		}
	}
}

// TestPromptsAsItems: an item named by its prompt has a hash as its id, and the prompt as its question.
func TestPromptsAsItems(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("why ", 300) + "\nso?"
	var lines strings.Builder
	for _, model := range []string{"x", "y"} {
		fmt.Fprintf(&lines, `{"prompt":%q,"model":%q,"output":"A"}`+"\n", long, model)
		fmt.Fprintf(&lines, `{"prompt":"short","model":%q,"output":"B"}`+"\n", model)
	}
	for _, block := range []string{"{answers: a.jsonl}", "{answers: a.jsonl, item: prompt}", "{answers: a.jsonl, item: prompt, question: prompt}"} {
		s := load(t, map[string]string{"a.jsonl": lines.String(), "eval.yaml": judged + "documents: " + block + "\n"}, Options{})
		var questions []string
		for _, item := range s.Evaluation.Items {
			questions = append(questions, item.Question)
			if !strings.HasPrefix(item.ID, "q-") || len(item.ID) != 14 {
				t.Errorf("%s: the item %q has no hash as its id", block, item.ID)
			}
		}
		slices.Sort(questions)
		if want := []string{"short", long}; !slices.Equal(questions, want) || len(s.Evaluation.Documents) != 4 {
			t.Errorf("%s: %d documents, questions %q", block, len(s.Evaluation.Documents), questions)
		}
	}
}

// TestBadAnswers: a row that cannot be taken is an error with its place and fix.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	alpaca := `{"instruction":"Why?","output":"A","generator":"x"}`
	for name, c := range map[string]struct {
		file, text string
		want       string
	}{
		"a field is missing":  {"a.jsonl", alpaca + "\n" + `{"instruction":"Why?","outptu":"B","generator":"y"}`, "a.jsonl:2: output: the field is missing; did you mean outptu?"},
		"not a text":          {"a.jsonl", alpaca + "\n" + `{"instruction":"Why?","output":{"a":1},"generator":"y"}`, "a.jsonl:2: output: the value is not text; want text"},
		"broken JSON":         {"a.jsonl", alpaca + "\n" + `{"instruction":`, "a.jsonl:2: not a JSON object: the line ends within it"},
		"a row of a table":    {"a.csv", "item,model,output\nq,x,A\nq,y\n", "a.csv:3:1: not a row of CSV: wrong number of fields"},
		"two columns":         {"a.csv", "item,model,output,model\nq,x,A,y\n", `a.csv:1:19: model: a second column has this name; give each column a unique name`},
		"no known fields":     {"a.jsonl", `{"alpha":1,"beta":2}`, "a.jsonl:1: no known kind of answers; its first row has alpha, beta; name its fields in an evaluation file"},
		"a list cut short":    {"a.json", `{"eval":{"task":"t","model":"m"},"samples":[{"id":1},` + "\n" + `{"id":`, "a.json:2:7: not one JSON object: the line ends within it"},
		"a row of a list":     {"a.json", `{"eval":{"task":"t","model":"m"},"samples":[` + "\n" + `{"id":1,"input":"?","output":{"choices":[]}}]}`, "a.json:2: samples[0].output.completion or output.choices[0].message.content: the field is missing"},
		"no list":             {"a.json", `{"eval":{"task":"t","model":"m"}}`, "a.json:1: the object has no list samples"},
		"a sample of a log":   {"a.eval", inspectLog(t, zip.Deflate, "header.json", `{"eval":{"task":"t","model":"m"}}`, "samples/1_epoch_1.json", `{"id":`), "a.eval: samples/1_epoch_1.json: not a JSON object"},
		"another archive":     {"a.eval", inspectLog(t, zip.Deflate, "word/document.xml", "x"), "a.eval:1: no known kind of answers"},
		"a cut-off archive":   {"a.eval", inspectLog(t, zip.Deflate, "header.json", "{}")[:40], "a.eval:1: no known kind of answers"},
		"two questions":       {"a.jsonl", `{"item":"q","question":"1","model":"x","output":"A"}` + "\n" + `{"item":"q","question":"2","model":"y","output":"B"}`, `a.jsonl:2: item "q" has another question here than in a.jsonl:1`},
		"nothing but scores":  {"a.jsonl", `{"doc_id":1,"doc":{"question":"?"},"target":1,"arguments":[["Q"," A"]],"resps":[[["-1.5","False"]]],"filter":"none"}`, "no documents found: a.jsonl; read 1 file of lm-eval samples: 0 answers of 0 candidates to 0 items; not taken: 1 (log-likelihoods, not texts)"},
		"an empty text field": {"a.jsonl", `{"item":"q","model":"","output":"A"}`, "a.jsonl:1: the document has no id; give each line an id, or an item and a candidate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got := problemsOf(t, map[string]string{c.file: c.text, "eval.yaml": judged + "documents: {answers: " + c.file + "}\n"}, Options{})
			if !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestArchivesAreBounded: what an archive unpacks to is bounded, whatever it says about its size.
func TestArchivesAreBounded(t *testing.T) {
	t.Parallel()
	header := `{"eval":{"task":"t","model":"m"}}`
	big := `{"id":1,"x":"` + strings.Repeat("x", 65<<20) + `"}`
	for name, c := range map[string]struct {
		log  string
		want string
	}{
		"one sample":      {inspectLog(t, zip.Deflate, "header.json", header, "samples/1.json", big), `"samples/1.json": it unpacks to more than 67108864 bytes`},
		"one with zstd":   {inspectLog(t, 93, "header.json", header, "samples/1.json", big), `"samples/1.json": `},
		"the header":      {inspectLog(t, zip.Deflate, "header.json", big, "samples/1.json", "{}"), "no known kind of answers"},
		"a path upwards":  {inspectLog(t, zip.Deflate, "header.json", header, "samples/../../../x.json", `{"id":`), "a.eval: samples/../../../x.json: not a JSON object"},
		"an entry's name": {inspectLog(t, zip.Deflate, "header.json", header, "samples/\x1b[31m.json", `{"id":`), "not a JSON object"},
	} {
		_, got := problemsOf(t, map[string]string{"a.eval": c.log, "eval.yaml": judged + "documents: {answers: a.eval}\n"}, Options{})
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %.300s, want %s", name, got, c.want)
		}
	}
}

// TestSamplesOfTables: the same rows in JSON lines, a list and two kinds of tables are the same evaluation.
func TestSameRowsInEveryContainer(t *testing.T) {
	t.Parallel()
	rows := []map[string]string{{"item": "q", "model": "x", "output": "A \"quoted\", text"}, {"item": "q", "model": "y", "output": "B"}}
	list, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.ReplaceAll(strings.Trim(string(list), "[]"), "},{", "}\n{")
	want := ""
	for name, text := range map[string]string{
		"a.jsonl": lines, "a.json": string(list), "a.csv": "item,model,output\nq,x,\"A \"\"quoted\"\", text\"\nq,y,B\n",
		"a.tsv": "item\tmodel\toutput\nq\tx\t\"A \"\"quoted\"\", text\"\nq\ty\tB\n",
	} {
		s := load(t, map[string]string{name: text, "eval.yaml": "name: e\n" + judged + "documents: {answers: " + name + "}\n"}, Options{})
		if id := string(s.Evaluation.ID()); want == "" {
			want = id
		} else if id != want {
			t.Errorf("%s is another evaluation: %q", name, documentsOf(s))
		}
	}
}

// TestAnswersNeedAJudge: files of answers alone are described, and refused without a judge or a second candidate.
func TestAnswersNeedAJudge(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"x.jsonl": `{"item":"q","output":"A"}`, "y.jsonl": `{"item":"q","output":"B"}`, "e.yaml": "name: x\n", "p.jsonl": `{"prompt":"?","api":"test"}`})
	at := func(names ...string) []string {
		for i := range names {
			names[i] = filepath.Join(dir, names[i])
		}
		return names
	}
	for _, c := range []struct {
		files, judges []string
		want          string
	}{
		{at("x.jsonl", "y.jsonl"), nil, "these look like files of answers; they need a judge; name a judge, for example --judge simulator:careful"},
		{at("x.jsonl"), []string{"simulator:careful"}, "no item has answers of two candidates: read 1 file of answers: 1 answer of 1 candidate to 1 item; add the files of other candidates"},
		{at("x.jsonl", "e.yaml"), []string{"simulator:careful"}, "e.yaml:1: not a known kind of answers; several files are compared with each other; run evaluations, experiments and lists of runs one at a time"},
		{at("x.jsonl", "p.jsonl"), []string{"simulator:careful"}, "p.jsonl:1: not a known kind of answers; its first row has api, prompt; "},
		{at("x.jsonl", "none.jsonl"), []string{"simulator:careful"}, "none.jsonl: no such file"},
		{at("x.jsonl", "."), []string{"simulator:careful"}, "this is a folder; name its files"},
	} {
		in, err := InputOf(c.files)
		if err == nil {
			_, err = in.Load(c.judges, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %s", c.files, err, c.want)
		}
	}
	s, err := loadFolder(filepath.Dir(folderOf(t, dir)), []string{"simulator:careful"}, Options{})
	if err != nil || !slices.Equal(documentsOf(s), []string{"q/x|q|x|A", "q/y|q|y|B"}) {
		t.Errorf("a folder of files of answers: got %v, %v", s, err)
	}
}

// folderOf copies the two files of answers into a folder of their own, and returns one of them.
func folderOf(t *testing.T, dir string) string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"x.jsonl", "y.jsonl"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return filepath.Join(folder(t, files), "x.jsonl")
}

// TestTablesAreReadByRows: a table of answers is not held in memory, so that a quote without an end is found out by the
// bound of one row. Text in another encoding is refused with its place.
func TestTablesAreReadByRows(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"endless.csv": "item,model,output\nq,x,\"A", "latin.csv": "item,model,output\nq,x,A\nq,y,caf\xe9\n",
		"wide.csv": "item,model,output\nq,x,\xff\xfei\x00t\x00",
	})
	if err := os.Truncate(filepath.Join(dir, "endless.csv"), maxLine+1<<20); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"endless.csv": "bytes: is a quote missing?", "latin.csv": "latin.csv:3:5: output: not UTF-8; save the file as UTF-8",
		"wide.csv": "wide.csv:2:5: output: not UTF-8",
	} {
		_, err := InputAt(filepath.Join(dir, name)).Load([]string{"simulator:careful"}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
