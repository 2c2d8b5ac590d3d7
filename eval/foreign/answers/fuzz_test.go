package answers_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval/foreign/answers"
)

// Whatever a row contains, reading it as any shape ends with answers that have a text and a name, a reason why there
// is none, or faults that name a path.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		`{"question_id":81,"model_id":"m","choices":[{"turns":["a",{"content":[{"type":"text","text":"b"}]}]}]}`,
		`{"doc_id":0,"doc":{"question":"?"},"target":4,"resps":[["a"]],"arguments":[["p",{}]],"filter":"none"}`,
		`{"id":1,"input":[{"role":"user","content":"?"}],"output":{"completion":"attachment://1"},"attachments":{"1":"a"}}`,
		`{"spec":{"completion_fns":["m"]}}`, `{"type":"sampling","sample_id":"s","data":{"sampled":[]}}`,
		`{"promptIdx":0,"testIdx":0,"provider":{"id":"p"},"prompt":{"raw":"?"},"vars":{"a":1,"b":[]},"response":{"output":{}}}`,
		`{"model_a":"a","model_b":"b","conversation_a":[{"role":"user","content":"?"},{"role":"assistant","content":null}],"conversation_b":[]}`,
	} {
		f.Add([]byte(seed), "choices[0].turns[-1]", "out/m/samples_t_2024-01-01.jsonl")
	}
	f.Add([]byte(`{"a.b":{"c":[1,{"k":["v"]}]}}`), "a[k=v].c[*][", "/")
	f.Fuzz(func(t *testing.T, text []byte, path, file string) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var values map[string]any
		if decoder.Decode(&values) != nil {
			return
		}
		answers.Sniff(values)
		shapes := []*answers.Shape{answers.Plain, answers.PlainItems}
		for _, name := range answers.Names() {
			shapes = append(shapes, answers.Named(name))
		}
		if guessed := answers.Guess(values); guessed != nil {
			shapes = append(shapes, guessed)
		}
		if own, err := answers.Plain.With(answers.Fields{Item: path, Text: path}); err == nil {
			shapes = append(shapes, own)
		}
		for _, shape := range shapes {
			reader := answers.NewReader(shape, file, func(name string) bool { return !strings.Contains(name, "\n") })
			for range 2 {
				taken, skipped, faults := reader.Take(answers.Row{Values: values, Head: values})
				if len(taken) == 0 && skipped == "" && len(faults) == 0 {
					t.Errorf("%s: no answer, no reason and no fault", shape.Name)
				}
				for _, fault := range faults {
					if fault.Path == "" {
						t.Errorf("%s: a fault without a path", shape.Name)
					}
				}
			}
		}
	})
}

// Whatever a file begins with, its first object is found or not, and never more deeply nested than is read.
func FuzzFirst(f *testing.F) {
	for _, seed := range []string{`{"a":[{"b":1`, `[{"a":{}},{"b":2}]`, `{"a":1}` + "\n" + `{"b":2}`, `[[`, `{"a":tru`, strings.Repeat(`{"a":`, 100), strings.Repeat("[", 100)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		first := answers.First(head)
		if first != nil {
			answers.Sniff(first)
			answers.Guess(first)
		}
		var whole map[string]any
		if json.Unmarshal(head, &whole) == nil && len(whole) != len(first) && !bytes.Contains(head, []byte(strings.Repeat(`{`, 60))) {
			t.Errorf("%d fields of %d", len(first), len(whole))
		}
	})
}

// Whatever an archive contains, reading it ends.
func FuzzArchive(f *testing.F) {
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, file []byte) {
		archive, err := answers.OpenArchive(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		if head, err := archive.Head(); (head == nil) != (err != nil) {
			t.Errorf("got %v and %v, want one of them", head, err)
		}
		_ = archive.Samples(func(name string, text []byte) {
			if !strings.HasPrefix(name, "samples/") {
				t.Errorf("%q is no sample", name)
			}
		})
	})
}
