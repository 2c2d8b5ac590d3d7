package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// FuzzMany compares the readers of long bodies with encoding/json, which has the whole body in memory.
func FuzzMany(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[1, "]", {"a": [1, 2, {"b": "\"}"}]}, null]`, `["a\\", "b,]"]`, `{"a":{"b":"c","d":[{"e":1}]},"":"","x":[[],{}]}`,
		"{\"a\":1}\n\n{\"a\":2}\r\n", `{"a":`, `[1,2`, ``, ` `, `7`, `{"a":1}}`, `[{]`, `{"":{"":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &Answer{status: 200}
		read := func(err error) {
			var failed *providers.Error
			if err != nil && !errors.As(err, &failed) {
				t.Fatalf("%q: got %v, want a *providers.Error", body, err)
			}
		}

		var elements []json.RawMessage
		if json.Unmarshal(body, &elements) == nil && len(elements) > 0 {
			var got []json.RawMessage
			inner := bytes.TrimLeft(body, " \t\r\n")[1:]
			err := a.Elements(t.Context(), bytes.NewReader(inner), func(element []byte, whole bool) error {
				got = append(got, bytes.Clone(element))
				return nil
			})
			if err != nil || !reflect.DeepEqual(got, elements) {
				t.Fatalf("%q: got %q, %v, want %q", body, got, err, elements)
			}
		}

		values := 0
		err := a.Walk(t.Context(), bytes.NewReader(body), func(string, json.Token) error { values++; return nil }, nil)
		read(err)
		if json.Valid(body) && err != nil && !strings.Contains(err.Error(), "within each other") {
			t.Fatalf("%q: got %v, but it is JSON", body, err)
		}
		var object map[string]any
		if json.Unmarshal(body, &object) == nil && bytes.Count(body, []byte(`"a"`)) == 1 && err == nil {
			if text, is := object["a"].(string); is && TextIn(body, "a") != text {
				t.Fatalf("%q: got %q, want %q", body, TextIn(body, "a"), text)
			}
		}
		read(a.Lines(t.Context(), bytes.NewReader(body), func([]byte, bool) error { return nil }))
	})
}

// TestPathsOfWalk: each value has the path of the fields around it.
func TestPathsOfWalk(t *testing.T) {
	t.Parallel()
	const body = `{"a":{"b":"c","d":[{"e":1},[2]]},"":null,"x":[],"y":{},"z":true}`
	var got []string
	err := (&Answer{}).Walk(t.Context(), strings.NewReader(body), func(path string, token json.Token) error {
		if d, is := token.(json.Delim); is {
			got = append(got, path+" "+d.String())
		} else {
			raw, _ := json.Marshal(token)
			got = append(got, path+" "+string(raw))
		}
		return nil
	}, nil)
	want := []string{
		" {", "a {", `a.b "c"`, "a.d [", "a.d {", "a.d.e 1", "a.d }", "a.d [", "a.d 2", "a.d ]", "a.d ]", "a }", " null", "x [", "x ]", "y {", "y }", "z true", " }",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestRoomForAnswers: a body of many small answers asks for no room, and one of several long ones asks once.
func TestRoomForAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ bytes, asked int }{"small": {10_000, 0}, "long": {200_000, 1}} {
		asked := 0
		ctx := providers.WithReading(t.Context(), providers.Reading{Room: func(context.Context) error { asked++; return nil }})
		line := `"` + strings.Repeat("x", test.bytes) + `"`
		n := 0
		each := func([]byte, bool) error { n++; return nil }
		a := &Answer{}
		if err := a.Lines(ctx, strings.NewReader(strings.Repeat(line+"\n", 20)), each); err != nil || n != 20 || asked != test.asked {
			t.Errorf("%s lines: got %d, %v, asked %d times for room, want %d", name, n, err, asked, test.asked)
		}
		n, asked = 0, 0
		if err := a.Elements(ctx, strings.NewReader(strings.Repeat(line+",", 19)+line+"]"), each); err != nil || n != 20 || asked != test.asked {
			t.Errorf("%s elements: got %d, %v, asked %d times for room, want %d", name, n, err, asked, test.asked)
		}
	}
}

// TestKeysInManyAnswers: a key that the other side repeats is removed from each answer.
func TestKeysInManyAnswers(t *testing.T) {
	t.Parallel()
	const secret = "sk-0123456789-secret"
	a := &Answer{struck: secrets{secret}}
	each := func(part []byte, _ bool) error {
		if bytes.Contains(part, []byte(secret)) || !bytes.Contains(part, []byte("[key]")) {
			t.Errorf("got %s", part)
		}
		return nil
	}
	if err := a.Lines(t.Context(), strings.NewReader(`"`+secret+`"`+"\n"), each); err != nil {
		t.Error(err)
	}
	if err := a.Elements(t.Context(), strings.NewReader(`"`+secret+`"]`), each); err != nil {
		t.Error(err)
	}
	if failed := a.Part(400, secret, []byte(`{"error":{"message":"`+secret+`"}}`)).Failure(); strings.Contains(failed.Message+failed.RequestID+string(failed.Raw), secret) {
		t.Errorf("the error tells the key: %+v", failed)
	}
}
