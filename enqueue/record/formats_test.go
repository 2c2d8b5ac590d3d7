package record

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
)

// page is docs/formats.md, whose examples are compared with the code here.
func page(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// golden is the fenced block of the page that is marked with name.
func golden(t *testing.T, name string) string {
	t.Helper()
	_, block, ok := strings.Cut(page(t), "\n```json golden="+name+"\n")
	if !ok {
		t.Fatalf("docs/formats.md has no block golden=%s", name)
	}
	block, _, _ = strings.Cut(block, "\n```")
	return block
}

const exampleID = eval.ID("ev-abcdefgh2345")

var exampleTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func exampleTask() Task {
	return Task{
		Version: TaskVersion, Evaluation: exampleID, Index: 17, Kind: eval.KindPairwise,
		Model: "openai:gpt-5-mini", Documents: []string{"a.md", "b.md"},
	}
}

// What a worker tells is as the page shows it.
func TestWorkerFormat(t *testing.T) {
	t.Parallel()
	recorded := "K5QWXR2D7PBVNT3CJZ4YAHLMEF"
	of := Worker{
		V: WorkerVersion, Host: "worker-7d9f", Process: 1, Version: "v1.2.0", Slots: 100, Flying: 12, Waiting: 3,
		Queues: []string{"openai"}, Since: exampleTime, Lease: 10 * time.Second,
		Recorded: &recorded,
	}
	got, err := json.Marshal(of)
	if err != nil || string(got) != golden(t, "worker") {
		t.Errorf("got %s, %v; want %s", got, err, golden(t, "worker"))
	}
}

func exampleEntry() Entry {
	call := Call{
		ID: "0.17.0-w7k2p9qa-1", Index: 17, Stage: "verdict", Model: "openai:gpt-5-mini", Attempt: 1,
		Asked: exampleTime, Started: exampleTime, Ended: exampleTime.Add(2 * time.Second), Status: 200,
		Text: `{"winner_doc_id":"a.md","reason":"It cites its sources."}`, Finish: "stop", Worker: "w7k2p9qa",
	}
	call.Usage.Reported, call.Usage.Input, call.Usage.Output = true, 900, 40
	return Entry{
		Run: &Run{
			Index: 17, Kind: eval.KindPairwise, State: eval.StateSucceeded.String(), Queue: "openai",
			Judge: "strict", Model: "openai:gpt-5-mini", AnsweredBy: "openai:gpt-5-mini", Item: "q1",
			Documents: []string{"a.md", "b.md"}, Candidates: []string{"a", "b"}, Trial: 1,
			Winner: "a.md", Reason: "It cites its sources.", Attempts: 1,
			Started: exampleTime, Ended: exampleTime.Add(2 * time.Second), Worker: "w7k2p9qa",
		},
		Calls: []Call{call},
	}
}

func TestGoldenTask(t *testing.T) {
	t.Parallel()
	want := golden(t, "task")
	if got := string(exampleTask().Encode()); got != want {
		t.Errorf("encoded:\n got %s\nwant %s", got, want)
	}
	got, err := DecodeTask([]byte(want))
	if diff := cmp.Diff(exampleTask(), got); diff != "" || err != nil {
		t.Errorf("decoded: %v (-want +got):\n%s", err, diff)
	}
}

func TestGoldenPhase(t *testing.T) {
	t.Parallel()
	open := Phase{Kind: eval.KindPairwise, Runs: 6, Queues: map[string]int{"openai": 6}, JudgeQueues: []string{"openai"}, Open: true}
	chosen := open
	chosen.Open, chosen.Chosen, chosen.Choice = false, true, &plan.Choice{Documents: []int{0, 2, 5}}
	for name, value := range map[string]any{
		"open": open, "chosen": chosen, "best": chosen.Choice, "round": plan.Choice{Pairs: [][]int{{0, 3}, {1, 2, 4}}},
		"escalated": plan.Choice{Contested: []int{1, 4}, Sampled: []int{0, 7}},
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != golden(t, name) {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, golden(t, name))
		}
	}
}

func TestGoldenEntry(t *testing.T) {
	t.Parallel()
	want := []string{"v", "1", "run", golden(t, "run"), "calls", golden(t, "calls")}
	if diff := cmp.Diff(want, exampleEntry().Values()); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
	got, err := DecodeEntry(valueMap(want))
	if diff := cmp.Diff(exampleEntry(), got); diff != "" || err != nil {
		t.Errorf("decoded: %v (-want +got):\n%s", err, diff)
	}
}

// valueMap is stream values as go-redis gives them.
func valueMap(values []string) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(values); i += 2 {
		m[values[i]] = values[i+1]
	}
	return m
}

func TestGoldenIdentifiers(t *testing.T) {
	t.Parallel()
	run := eval.RunID{Evaluation: exampleID, Index: 17}
	task := exampleTask().ID()
	formats := page(t)
	for _, row := range []struct{ what, want string }{
		{"run", run.String()},
		{"run, where the evaluation is clear", run.Short()},
		{"run, in tables", run.Cell()},
		{"task", task},
		{"call and lease", task + "-w7k2p9qa-1"},
		{"document text", eval.TextHash("hello")},
	} {
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row.what) + ` \|.*\| ` + "`(.*)`" + ` \|$`).FindStringSubmatch(formats)
		if line == nil || line[1] != row.want {
			t.Errorf("%s: docs/formats.md has %q, the code %q", row.what, line, row.want)
		}
	}
}

func TestGoldenStateBytes(t *testing.T) {
	t.Parallel()
	words := map[string]eval.State{
		"none": eval.StateNone, "succeeded": eval.StateSucceeded, "failed": eval.StateFailed, "cancelled": eval.StateCancelled,
	}
	examples := regexp.MustCompile("([a-z]+)/([0-9]) = `0x([0-9a-f]{2})`").FindAllStringSubmatch(page(t), -1)
	if len(examples) < 3 {
		t.Fatalf("docs/formats.md has the examples %v, want three", examples)
	}
	for _, example := range examples {
		generation := int(example[2][0] - '0')
		got := StateByte(words[example[1]], generation)
		if hex := "0123456789abcdef"; string([]byte{hex[got>>4], hex[got&15]}) != example[3] {
			t.Errorf("%s: got %#02x", example[0], got)
		}
	}
	for generation := range MaxGeneration + 1 {
		for word, state := range words {
			gotState, gotGeneration := ParseStateByte(StateByte(state, generation))
			if gotState != state || gotGeneration != generation {
				t.Errorf("%s of generation %d comes back as %v of %d", word, generation, gotState, gotGeneration)
			}
		}
	}
}

func TestGoldenKeys(t *testing.T) {
	t.Parallel()
	k := Keys{Namespace: DefaultNamespace}
	run := eval.RunID{Evaluation: exampleID, Phase: 1, Index: 20000}
	formats := page(t)
	for _, key := range []struct{ page, want, got string }{
		{"ef:evaluations", "ef:evaluations", k.Evaluations()},
		{"ef:{ef:evaluations}:cursors", "ef:{ef:evaluations}:cursors", k.Listings(k.Evaluations())},
		{"ef:{ef:active}:cursors", "ef:{ef:active}:cursors", k.Listings(k.Active())},
		{"ef:active", "ef:active", k.Active()},
		{"ef:sweep", "ef:sweep", k.SweepLock()},
		{"ef:topup", "ef:topup", k.TopUpLock()},
		{"ef:house", "ef:house", k.HouseLock()},
		{"ef:offers", "ef:offers", k.Offers()},
		{"ef:announce", "ef:announce", k.Announce()},
		{"ef:{<ev>}:record", "ef:{ev-abcdefgh2345}:record", k.Record(exampleID)},
		{"ef:{<ev>}:plan", "ef:{ev-abcdefgh2345}:plan", k.Plan(exampleID)},
		{"ef:{<ev>}:documents", "ef:{ev-abcdefgh2345}:documents", k.Documents(exampleID)},
		{"ef:{<ev>}:cursors", "ef:{ev-abcdefgh2345}:cursors", k.Cursors(exampleID)},
		{"ef:{<ev>}:counts", "ef:{ev-abcdefgh2345}:counts", k.Counts(exampleID)},
		{"ef:{<ev>}:states:<phase>:<n>", "ef:{ev-abcdefgh2345}:states:1:1", k.States(exampleID, 1, 20000)},
		{"ef:{<ev>}:choice:<phase>", "ef:{ev-abcdefgh2345}:choice:1", k.Choice(exampleID, 1)},
		{"ef:{<ev>}:run:<phase>.<index>", "ef:{ev-abcdefgh2345}:run:1.20000", k.Progress(run)},
		{"ef:{<ev>}:progress", "ef:{ev-abcdefgh2345}:progress", k.InProgress(exampleID)},
		{"ef:{<ev>}:results", "ef:{ev-abcdefgh2345}:results", k.Results(exampleID)},
		{`<phase>\|<queue>`, "1|openai", CursorField(1, "openai", false)},
		{`b<phase>\|<queue>`, "b1|openai", CursorField(1, "openai", true)},
		{`<phase>\|<state>\|<queue>`, "1|failed|openai", CountField(1, eval.StateFailed, "openai")},
	} {
		if key.got != key.want {
			t.Errorf("%s: got %s, want %s", key.page, key.got, key.want)
		}
		if !strings.Contains(formats, "`"+key.page+"`") {
			t.Errorf("docs/formats.md has no `%s`", key.page)
		}
	}
	chunk := regexp.MustCompile(`runs (\d+)·n`).FindStringSubmatch(formats)
	if chunk == nil || chunk[1] != "16384" || ChunkRuns != 16384 {
		t.Errorf("runs in a chunk: docs/formats.md has %v, the code %d", chunk, ChunkRuns)
	}
}

// Every field must be seen in the examples or be one that is left out when it is
// empty: a field that is renamed changes the format.
func TestGoldenFieldsAreAllShown(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"task": Task{}, "run": Run{}, "calls": Call{}} {
		block := golden(t, name)
		for _, part := range reflect.VisibleFields(reflect.TypeOf(value)) {
			field, options, _ := strings.Cut(part.Tag.Get("json"), ",")
			if field != "-" && !part.Anonymous && !strings.Contains(block, `"`+field+`":`) && options != "omitempty" {
				t.Errorf("golden=%s does not show %s", name, field)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"v":2}`: "upgrade the worker",
		`{}`:      "enqueue the evaluation again",
		`{"v":"1`: "decode task payload",
	} {
		if _, err := DecodeTask([]byte(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("task %s: got %v, want %q in the error", payload, err, want)
		}
	}
	for version, other := range map[string]bool{"": false, "2": true, "one": false, "-1": false} {
		if _, err := DecodeEntry(map[string]any{"v": version}); err == nil || errors.Is(err, ErrOtherVersion) != other {
			t.Errorf("entry of version %q: got %v, want an error about its version (of another program: %t)", version, err, other)
		}
	}
}

func TestEntryLeavesOutWhatIsAbsent(t *testing.T) {
	t.Parallel()
	whole := exampleEntry()
	for _, test := range []struct {
		entry Entry
		want  []string
	}{
		{Entry{}, []string{"v"}},
		{Entry{Run: whole.Run}, []string{"v", "run"}},
		{Entry{Calls: whole.Calls}, []string{"v", "calls"}},
	} {
		var fields []string
		values := test.entry.Values()
		for i := 0; i < len(values); i += 2 {
			fields = append(fields, values[i])
		}
		if diff := cmp.Diff(test.want, fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
		got, err := DecodeEntry(valueMap(values))
		if diff := cmp.Diff(test.entry, got); diff != "" || err != nil {
			t.Errorf("decoded: %v (-want +got):\n%s", err, diff)
		}
	}
	if raw, err := json.Marshal(Run{}); err != nil || strings.Contains(string(raw), "winner") {
		t.Errorf("a run without a winner: got %s, %v", raw, err)
	}
}
