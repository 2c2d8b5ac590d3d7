// Package verdict reads a judge's answer. It finds the JSON object in it, checks it against the question, and
// describes errors in words that can be sent to the judge.
//
// It never guesses. An answer with two possible readings is a Problem, never a tie, a lowest score or a win. Asking
// again costs a call, but a wrong verdict ruins the evaluation. Faults of the JSON are repaired only if a single
// reading remains. The caller decides whether to ask again.
package verdict

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
)

// Problem says why an answer is not a verdict. Its text says what was found and what is expected, for a repair turn
// and for people.
type Problem struct {
	words string
}

// Error returns the problem in words.
func (p *Problem) Error() string { return p.words }

func problem(format string, args ...any) *Problem {
	return &Problem{words: fmt.Sprintf(format, args...)}
}

// match returns the allowed id that was meant. ok is false if it is none, or could be several.
func match(said string, allowed []string) (id string, ok bool) {
	trimmed := strings.TrimSpace(said)
	var found []string
	for _, id := range allowed {
		meant := said == id || trimmed == id || html.UnescapeString(trimmed) == id || strings.ReplaceAll(trimmed, `\_`, "_") == id
		if meant && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// reasonOf reads the reason of an object from the field called key. where names the object in error messages.
func reasonOf(fields map[string]json.RawMessage, key, where string) (string, error) {
	raw, ok := fields[key]
	if !ok {
		return "", problem("%s%s is missing; say what decided, in one to three sentences", key, where)
	}
	reason, ok := stringOf(raw)
	if !ok {
		return "", problem("%s%s is %s, not a string", key, where, shorten(string(raw)))
	}
	if reason = strings.TrimSpace(reason); reason == "" {
		return "", problem("%s%s is empty; say what decided, in one to three sentences", key, where)
	}
	return latex.ReplaceAllStringFunc(reason, func(s string) string { return map[byte]string{'\f': `\f`, '\b': `\b`}[s[0]] + s[1:] }), nil
}

// latex matches \frac or \beta whose backslash was not escaped, so that it was read as a form feed or a backspace.
// Neither occurs in prose.
var latex = regexp.MustCompile(`[\f\x08][a-zA-Z]`)

// stringOf decodes a JSON string; ok is false for anything else, including null.
func stringOf(raw json.RawMessage) (value string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return value, json.Unmarshal(raw, &value) == nil
}

func quote(s string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic(fmt.Sprintf("verdict: encode a string: %v", err)) // cannot fail
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func quoteAll(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}

// shorten clips a judge's text to 80 characters, for use in a message.
func shorten(s string) string {
	const most = 80
	runes := 0
	for i := range s {
		if runes == most {
			return s[:i] + "…"
		}
		runes++
	}
	return s
}
