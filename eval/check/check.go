// Package check tests texts by rules that need no model: eval.Check.
//
// It is pure: the same text always passes or fails in the same way, and nothing is read, run or loaded. What a check may
// cost is bounded, because texts and checks may come from other people. Commands are not among these tests: package command
// runs them.
package check

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval"
)

// Bounds of what a check may be.
const (
	MaxPattern = 1000      // bytes of a regular expression
	MaxSchema  = 256 << 10 // bytes of a JSON schema
	mostShown  = 60        // characters of a text that a reason quotes
)

// Test is a compiled check. It must not be used by several goroutines at once.
type Test func(text string, item eval.Item) (why string, passed bool)

// New compiles a check.
func New(c eval.Check) (Test, error) {
	switch c.Kind {
	case eval.CheckContains:
		return contains(c.Value, true), nil
	case eval.CheckNotContains:
		return contains(c.Value, false), nil
	case eval.CheckEquals:
		return equals(c.Value), nil
	case eval.CheckRegex:
		return matches(c.Value)
	case eval.CheckMaxWords:
		return maxWords(c.Value)
	case eval.CheckJSONSchema:
		return conforms(c.Value)
	}
	return nil, fmt.Errorf("unknown kind of check %q", c.Kind)
}

func contains(part string, want bool) Test {
	return func(text string, item eval.Item) (string, bool) {
		part := Fill(part, item)
		switch found := strings.Contains(text, part); {
		case found == want:
			return "", true
		case found:
			return "it contains " + quoted(part), false
		}
		return "it does not contain " + quoted(part), false
	}
}

func equals(whole string) Test {
	return func(text string, item eval.Item) (string, bool) {
		whole := strings.TrimSpace(Fill(whole, item))
		if strings.TrimSpace(text) == whole {
			return "", true
		}
		return "it is not " + quoted(whole), false
	}
}

func matches(pattern string) (Test, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes: at most %d are allowed", len(pattern), MaxPattern)
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return func(text string, _ eval.Item) (string, bool) {
		if compiled.MatchString(text) {
			return "", true
		}
		return "it does not match", false
	}, nil
}

func maxWords(number string) (Test, error) {
	most, err := strconv.Atoi(number)
	if err != nil || most < 0 {
		return nil, fmt.Errorf("%q is not a number of words", number)
	}
	return func(text string, _ eval.Item) (string, bool) {
		n := 0
		for range strings.FieldsSeq(text) {
			n++
		}
		if n <= most {
			return "", true
		}
		return fmt.Sprintf("it has %d words", n), false
	}, nil
}

func quoted(text string) string {
	if characters := []rune(text); len(characters) > mostShown {
		text = string(characters[:mostShown]) + "…"
	}
	return strconv.Quote(text)
}

// variable matches a variable of a check's text, such as {{reference}}.
var variable = regexp.MustCompile(`\{\{\s*([^{}\s](?:[^{}]*[^{}\s])?)\s*\}\}`)

// Variables returns the names of the variables in a check's value. The program of a command has none, only its arguments.
func Variables(c eval.Check) (names []string) {
	var texts []string
	switch c.Kind {
	case eval.CheckContains, eval.CheckNotContains, eval.CheckEquals:
		texts = []string{c.Value}
	case eval.CheckCommand:
		texts = Command(c, eval.Item{})[1:]
	}
	for _, text := range texts {
		for _, found := range variable.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// Command returns the program of a check by command, and its arguments for an item.
func Command(c eval.Check, item eval.Item) []string {
	var words []string
	if err := json.Unmarshal([]byte(c.Value), &words); err != nil || len(words) == 0 {
		return []string{""}
	}
	for i := range words[1:] {
		words[i+1] = Fill(words[i+1], item)
	}
	return words
}

// Fill returns a text with the values of an item in place of its variables: {{question}}, {{reference}}, and the names
// of further fields. A variable that the item does not have stays as it is.
func Fill(text string, item eval.Item) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if value, has := Value(item, variable.FindStringSubmatch(found)[1]); has {
			return value
		}
		return found
	})
}

// Value returns the value that a variable has for an item.
func Value(item eval.Item, name string) (value string, has bool) {
	switch name {
	case "question":
		return item.Question, item.Question != ""
	case "reference":
		return item.KnownReference(), item.KnownReference() != ""
	}
	if value, has = item.Fields[name]; has {
		return value, true
	}
	value, has = item.Facts[name]
	return value, has
}

// MostReason bounds a reason in bytes.
const MostReason = 200

// Reason returns the first line of what a check says about a text, as text of at most MostReason bytes.
func Reason(said string) string {
	said, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(said, "\uFFFD")), "\n")
	if len(said) <= MostReason {
		return said
	}
	end := MostReason - len("…")
	for !utf8.RuneStart(said[end]) {
		end--
	}
	return said[:end] + "…"
}
