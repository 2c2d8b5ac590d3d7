package record

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever a stream contains, decoding it neither panics nor changes it: a decoded entry
// encodes to one that decodes to the same.
func FuzzDecodeEntry(f *testing.F) {
	values := exampleEntry().Values()
	f.Add(values[1], values[3], values[5], true, true)
	f.Add("1", "null", "null", true, true)
	f.Add("1", `{"phase":-1,"scores":[{"score":1e308}]}`, `[{}]`, true, true)
	f.Add("1", `[]`, `{}`, true, false)
	f.Add("2", "", "", false, false)
	f.Add("1", `{"started":"2026-01-02T03:04:05+24:00"}`, `[{"usage":{"cost_usd":0}}]`, true, true)
	f.Fuzz(func(t *testing.T, version, run, calls string, hasRun, hasCalls bool) {
		values := map[string]any{EntryField: version}
		if hasRun {
			values[RunField] = run
		}
		if hasCalls {
			values[CallsField] = calls
		}
		entry, err := DecodeEntry(values)
		if err != nil {
			return
		}
		if version != "1" {
			t.Errorf("version %q was taken", version)
		}
		if _, err := json.Marshal(entry); err != nil {
			return // a time zone that RFC 3339 cannot write; ours are UTC
		}
		first := entry.Values()
		again, err := DecodeEntry(valueMap(first))
		if err != nil {
			t.Fatalf("encoded, it does not decode: %v\n%v", err, first)
		}
		if diff := cmp.Diff(first, again.Values()); diff != "" {
			t.Errorf("decoded again, it is another (-first +second):\n%s", diff)
		}
	})
}

func FuzzDecodeTask(f *testing.F) {
	f.Add(exampleTask().Encode())
	f.Add([]byte(`{"v":1,"phase":1e3}`))
	f.Add([]byte(`{"v":1,"documents":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		task, err := DecodeTask(payload)
		if err != nil {
			return
		}
		again, err := DecodeTask(task.Encode())
		if diff := cmp.Diff(task, again); diff != "" || err != nil {
			t.Errorf("encoded and decoded: %v (-want +got):\n%s", err, diff)
		}
	})
}

func FuzzParseTaskID(f *testing.F) {
	f.Add("ev-abcdefgh2345.0.17.0")
	f.Add("ev-abcdefgh2345.0.17.-1")
	f.Add("...")
	f.Fuzz(func(t *testing.T, s string) {
		run, generation, err := ParseTaskID(s)
		if err != nil {
			return
		}
		task := Task{Evaluation: run.Evaluation, Phase: run.Phase, Index: run.Index, Generation: generation}
		gotRun, gotGeneration, err := ParseTaskID(task.ID())
		if gotRun != run || gotGeneration != generation || err != nil {
			t.Errorf("%q reads as %v generation %d, and that as %v generation %d, %v", s, run, generation, gotRun, gotGeneration, err)
		}
		if generation < 0 {
			t.Errorf("%q has a generation below 0", s)
		}
	})
}
