package results

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/providers"
)

// asked is an experiment of these lines, each of the model "test:m".
func asked(name string, lines ...string) (Evaluation, iter.Seq2[string, string]) {
	prompts := &eval.Prompts{Format: eval.PromptsExperiment, Models: []eval.Judge{{Name: "test:m", Provider: "test", Model: "m"}}}
	texts := map[string]string{}
	for i, line := range lines {
		texts[eval.TextHash(line)] = line
		id := "line " + string(rune('1'+i))
		prompts.Rows = append(prompts.Rows, eval.Document{ID: id, Candidate: id, Hash: eval.TextHash(line), Bytes: len(line)})
		prompts.List = append(prompts.List, eval.Prompt{ID: string(rune('a' + i)), Row: i})
	}
	plan := &eval.Evaluation{PlanVersion: eval.PlanVersion, Name: name, Items: []eval.Item{{}}, Prompts: prompts, JSON: eval.JSONFalse}
	return Evaluation{
		ID: plan.ID(), Plan: plan, Created: epoch, Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry, Groups: []string{"test"}},
		Phases: []record.Phase{{Kind: eval.KindPrompts, Runs: len(lines)}},
	}, maps.All(texts)
}

// ended is the entry of an experiment's run whose last call began at a time, the
// zero time for none.
func ended(e Evaluation, index int, sent time.Time, change func(*record.Run)) record.Entry {
	entry := record.Entry{Run: &record.Run{
		Index: index, Kind: eval.KindPrompts, Name: e.Plan.Prompts.List[index].ID, State: "succeeded", Queue: "test",
		Judge: "test:m", Model: "test:m", AnsweredBy: "test:m", Documents: []string{e.Plan.Prompts.Rows[index].ID},
		Candidates: []string{e.Plan.Prompts.Rows[index].Candidate}, Trial: 1, Finish: "stop",
		Attempts: 1, Started: sent, Ended: sent.Add(time.Second), Worker: "w7k2p9qa",
	}}
	change(entry.Run)
	if entry.Run.State == "failed" {
		entry.Run.AnsweredBy, entry.Run.Finish = "", ""
	}
	if entry.Run.Attempts == 0 {
		return entry
	}
	for _, ago := range []time.Duration{time.Hour, 0} { // the last counts
		entry.Calls = append(entry.Calls, call(0, index, 0, len(entry.Calls)+1, func(c *record.Call) { c.Started = sent.Add(-ago) }))
	}
	return entry
}

func putExperiment(t *testing.T, url string, e Evaluation, texts iter.Seq2[string, string], entries ...record.Entry) Store {
	t.Helper()
	db, err := Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.PutEvaluation(context.Background(), e, texts); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, db, e.ID, entries...)
	return db
}

// exportedFiles writes an experiment's files and returns their texts by what they are.
func exportedFiles(t *testing.T, place Place, db Store, e Evaluation) (files map[string]string, done Exported) {
	t.Helper()
	done, err := Export(context.Background(), place, db, e.ID, Rankings{})
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, path := range slices.Concat(done.Files, done.Answers) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.Base(path), prompto.Stamp(e.Created.Local())+"-")
		files[name] = string(raw)
	}
	return files, done
}

// What the other tool wrote is what is written here of the same lines and answers,
// byte for byte.
func TestExperimentsAreWrittenAsTheOtherToolDoes(t *testing.T) {
	t.Parallel()
	given, err := filepath.Glob("testdata/prompto/*.jsonl")
	if err != nil || len(given) < 4 {
		t.Fatalf("%v, %v", given, err)
	}
	added := regexp.MustCompile(`, "timestamp_sent": "([^"]*)", "response": (.*)\}$`)
	for _, path := range given {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var lines, want []string
			var found [][]string
			for line := range strings.Lines(string(raw)) {
				parts := added.FindStringSubmatch(strings.TrimSpace(line))
				if parts == nil {
					t.Fatalf("%s has neither time nor answer", line)
				}
				found, want = append(found, parts), append(want, strings.TrimSpace(line))
				lines = append(lines, strings.TrimSuffix(strings.TrimSpace(line), parts[0])+"}")
			}
			e, texts := asked("x", lines...)
			var entries []record.Entry
			for i, parts := range found {
				sent, err := time.ParseInLocation("02-01-2006-15-04-05", parts[1], time.Local)
				if err != nil {
					t.Fatal(err)
				}
				entries = append(entries, ended(e, i, sent, func(r *record.Run) {
					r.Ended = epoch.Add(time.Duration(i) * time.Second)
					if json.Unmarshal([]byte(parts[2]), &r.Answers) == nil {
						return
					}
					if err := json.Unmarshal([]byte(parts[2]), &r.Answer); err != nil {
						t.Fatal(err)
					}
					if message, ok := strings.CutPrefix(r.Answer, "ValueError - "); ok {
						r.State, r.Class, r.Error, r.Answer = "failed", providers.BadRequest, message, ""
						want[i] = strings.TrimSuffix(want[i], "}") + `, "error": "bad_request: ` + message + `"}`
					}
				}))
			}
			slices.Reverse(entries) // the order in which they ended counts
			db := putExperiment(t, filepath.Join(t.TempDir(), "results.db"), e, texts, entries...)
			files, _ := exportedFiles(t, Place{Dir: t.TempDir()}, db, e)
			if diff := cmp.Diff(strings.Join(want, "\n")+"\n", files["completed-x.jsonl"]); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Join(lines, "\n")+"\n", files["input-x.jsonl"]); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

// Keys of a line are kept; added ones follow, or replace those of the same name.
func TestExperimentFiles(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"prompt":"caf\u00e9 😀 $HOME {x}","id":7,"=own":[1.50,{"b":null,"a":true}],"parameters":{"temperature":0},"model_name":"m","api":"test"}`,
		`{"response": "old", "prompt": ["a", "b"], "id": "=1+1", "error": null}`,
		`{"id": 9, "prompt": 7}`,
		`{"id": 10, "prompt": "p"}`,
		`{"id": 11, "prompt": "never ended"}`,
		`{"id": 12, "prompt": "cancelled"}`,
	}
	e, texts := asked("my/../exp", lines...)
	at := func(i int) time.Time { return epoch.Add(time.Duration(i) * time.Minute) }
	db := putExperiment(t, filepath.Join(t.TempDir(), "results.db"), e, texts,
		ended(e, 3, at(3), func(r *record.Run) {
			r.State, r.Class, r.Error, r.Attempts, r.Model = "failed", providers.RateLimited, "slow\ndown", 5, "openai-chat:m"
		}),
		ended(e, 0, at(2), func(r *record.Run) { r.Answer = "a \"quoted\"\x7f\x00\u2028 שלום 🙂" }),
		ended(e, 1, at(1), func(r *record.Run) { r.Answers = []string{"1", ""} }),
		ended(e, 2, at(0), func(r *record.Run) {
			r.State, r.Class, r.Error, r.Attempts = "failed", providers.BadRequest, "no prompt", 0
		}),
		ended(e, 5, at(4), func(r *record.Run) { r.State, r.Attempts = "cancelled", 0 }),
	)
	data := t.TempDir()
	files, done := exportedFiles(t, Place{Dir: t.TempDir(), Data: data, CSV: true}, db, e)

	stamps := make([]string, 4)
	for i := range stamps {
		stamps[i] = prompto.Stamp(at(i).Local())
	}
	none := prompto.Stamp(at(0).Add(time.Second).Local()) // no call was made: when it ended
	const failed = "An unexpected error occurred when querying the API: (RateLimitError - slow\\ndown) after maximum 5 attempts"
	want := `{"id": 9, "prompt": 7, "timestamp_sent": "` + none + `", "response": "TypeError - no prompt", "error": "bad_request: no prompt"}
{"response": ["1", ""], "prompt": ["a", "b"], "id": "=1+1", "error": null, "timestamp_sent": "` + stamps[1] + `"}
{"prompt": "caf\u00e9 \ud83d\ude00 $HOME {x}", "id": 7, "=own": [1.50, {"b": null, "a": true}], "parameters": {"temperature": 0}, "model_name": "m", "api": "test", "timestamp_sent": "` + stamps[2] + `", "response": "a \"quoted\"\u007f\u0000\u2028 \u05e9\u05dc\u05d5\u05dd \ud83d\ude42"}
{"id": 10, "prompt": "p", "timestamp_sent": "` + stamps[3] + `", "response": "` + failed + `", "error": "rate_limited: slow\ndown"}
`
	if diff := cmp.Diff(want, files["completed-my_.._exp.jsonl"]); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	folder := filepath.Join(data, "output", "my_.._exp")
	if path := filepath.Join(folder, prompto.Stamp(e.Created.Local())+"-completed-my_.._exp.jsonl"); !slices.Equal(done.Answers, []string{path}) {
		t.Errorf("answers are said to be in %q, want %s", done.Answers, path)
	}
	if diff := cmp.Diff(strings.Join(lines, "\n")+"\n", files["input-my_.._exp.jsonl"]); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
	wantCSV := `id,prompt,timestamp_sent,response,error,'=own,parameters,model_name,api
9,7,` + none + `,TypeError - no prompt,bad_request: no prompt,,,,
'=1+1,"[""a"", ""b""]",` + stamps[1] + `,"[""1"", """"]",,,,,
7,café 😀 $HOME {x},` + stamps[2] + `,"a ""quoted""��� שלום 🙂",,"[1.50, {""b"": null, ""a"": true}]","{""temperature"": 0}",m,test
10,p,` + stamps[3] + `,"` + strings.ReplaceAll(failed, `\n`, "\n") + `","rate_limited: slow
down",,,,
`
	if diff := cmp.Diff(wantCSV, files["completed-my_.._exp.csv"]); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}
	for i, want := range []string{
		", \\d\\d:\\d\\d: Error \\(i=3, id=c\\): TypeError - no prompt$",
		", \\d\\d:\\d\\d: Error \\(i=4, id=d\\): .*slow down.*$",
		"So far 4 of 6 prompts of experiment: my/../exp! Experiment processing time: 181.000 seconds, Average time per query: 45.250 seconds$",
	} {
		log := strings.Split(files["log-my_.._exp.txt"], "\n")
		if i >= len(log) || !regexp.MustCompile(want).MatchString(log[i]) {
			t.Errorf("line %d of the log is not %s:\n%s", i+1, want, files["log-my_.._exp.txt"])
		}
	}

	// After resuming, the same files have the rest; the input is copied if the file is here.
	mustAppend(t, db, e.ID, ended(e, 4, at(5), func(r *record.Run) { r.Answer = "late" }))
	input := filepath.Join(t.TempDir(), "exp.csv")
	if err := os.WriteFile(input, []byte("id,prompt\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, _ = exportedFiles(t, Place{Dir: t.TempDir(), Data: data, Input: input}, db, e)
	if got := strings.Count(files["completed-my_.._exp.jsonl"], "\n"); got != 5 {
		t.Errorf("%d lines after the rest was done, want 5", got)
	}
	if files["input-my_.._exp.csv"] != "id,prompt\r\n" {
		t.Errorf("the file itself is copied as %q", files["input-my_.._exp.csv"])
	}
	here, err := os.ReadDir(folder)
	if err != nil || len(here) != 5 {
		t.Errorf("%d files in the folder, %v; want 5: nothing is written twice", len(here), err)
	}
	if lines := strings.Count(files[ResponsesFile], "\n"); lines != 6 {
		t.Errorf("%s has %d lines, want one of each run that ended", ResponsesFile, lines)
	}
	if !strings.Contains(files[ResponsesFile], `"row":"line 2","answer":null,"answers":["1",""]`) {
		t.Errorf("%s does not have several answers:\n%s", ResponsesFile, files[ResponsesFile])
	}
}

// Several answers of a prompt are kept as they came, and go with their run.
func testPromptAnswers(t *testing.T, url string) {
	ctx := context.Background()
	e, texts := asked("x", `{"prompt": 1}`, `{"prompt": 2}`, `{"prompt": 3}`)
	prose := "Dear $HOME,\r\n\"quoted\" \x00 \u202e שלום 🙂\n"
	several := ended(e, 1, epoch, func(r *record.Run) { r.Answers = []string{prose, "", "c"} })
	one := ended(e, 0, epoch.Add(time.Minute), func(r *record.Run) { r.Answer = prose })
	none := ended(e, 2, epoch.Add(2*time.Minute), func(r *record.Run) { r.State, r.Class, r.Error, r.Attempts = "failed", "bad_request", "no", 0 })
	db := putExperiment(t, url, e, texts, none, one, several, several)

	want := []record.Run{*several.Run, *one.Run, *none.Run}
	got := mustCollect(t, db.PromptRows(ctx, e.ID))
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i, row := range got {
		if diff := cmp.Diff(want[i], row.Run); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
		if sent := want[i].Started; row.Attempts > 0 && !row.Sent.Equal(sent) || row.Attempts == 0 && !row.Sent.IsZero() {
			t.Errorf("row %d was sent at %s, want %s", i, row.Sent, sent)
		}
		alone, found, err := db.Run(ctx, row.RunID(e.ID))
		if diff := cmp.Diff(row.Run, alone.Run); diff != "" || !found || err != nil {
			t.Errorf("run %d alone: %t, %v (-of all +alone):\n%s", i, found, err, diff)
		}
	}
	if n := len(mustCollect(t, db.Responses(ctx, e.ID))); n != 3 {
		t.Errorf("%d responses, want 3", n)
	}
	again := ended(e, 1, epoch, func(r *record.Run) { r.State, r.Generation, r.Class = "failed", 1, "timeout" })
	mustAppend(t, db, e.ID, again)
	if row, _, err := db.Run(ctx, eval.RunID{Evaluation: e.ID, Index: 1}); err != nil || row.Answers != nil {
		t.Errorf("made again and failed: %+v, %v; want no answers", row.Run, err)
	}
}
