package verdict

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzLeniently requires that repairs change nothing about JSON, that what they make is JSON with
// as many strings, and that what was read is read again.
func FuzzLeniently(f *testing.F) {
	for _, text := range []string{
		`{"a": [1, -2.5e3, true, null, {"b": "\u00e9\n"}]} rest`, "{\"a\": \"x\ny\\(z\\)\",}", `[{"a": "\u12"},]`, `{"a"`, `{"a": 01}`, `{"\_": "\_"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || text[0] != '{' && text[0] != '[' {
			return
		}
		strict, strictLength, strictErr := strictly(text)
		value, length, err := leniently(text)
		if length < 1 || length > len(text) {
			t.Fatalf("length %d of %d bytes", length, len(text))
		}
		isJSON := strictErr == nil && json.Valid([]byte(strict))
		same := err == nil && length == strictLength && compact(json.RawMessage(strict)) == compact(json.RawMessage(value))
		if isJSON && !same {
			t.Fatalf("JSON %q is read as %q, %v", strict, value, err)
		}
		if err != nil {
			return
		}
		if !json.Valid([]byte(value)) {
			t.Fatalf("%q is repaired to %q, which is no JSON", text[:length], value)
		}
		again, _, err := leniently(value)
		if err != nil || again != value {
			t.Fatalf("%q is read again as %q, %v", value, again, err)
		}
		unescaped := strings.NewReplacer(`\\`, "", `\"`, "")
		if was, is := strings.Count(unescaped.Replace(text[:length]), `"`), strings.Count(unescaped.Replace(value), `"`); was != is {
			t.Fatalf("%q has %d quotes, its repair %q %d", text[:length], was, value, is)
		}
	})
}
