package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// answer finds the object with which a judge answered. It is the whole text or, in a code fence or in prose, the last
// JSON object that has key. An object within another one does not count. Different values of key in one answer are an
// error: one may be a draft or a quotation from a document, and nothing tells which.
//
// A text is read as JSON, and as JSON with repairs. If both find an answer, they must agree.
func answer(text, key string) (map[string]json.RawMessage, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if text == "" {
		return nil, problem("the answer is empty; it must be one JSON object with %s", quote(key))
	}
	if json.Valid([]byte(text)) {
		return wholeAnswer(text, key)
	}
	found, err := agreed(func(read reader) (object, error) { return objectWith(text, key, read) })
	if errors.Is(err, errSeveral) {
		err = problem("the answer has several JSON objects, with different values of %s; write the one that holds, and no other", quote(key))
	}
	if err != nil {
		return nil, err
	}
	return fieldsProblem([]byte(found.json))
}

// agreed calls find twice, with a reader of JSON and with one that repairs faults. If both find an object, they must
// have the same value.
func agreed(find func(reader) (object, error)) (object, error) {
	strict, err := find(strictly)
	if errors.Is(err, errSeveral) {
		return object{}, err
	}
	lenient, lenientErr := find(leniently)
	switch {
	case errors.Is(lenientErr, errSeveral):
		return object{}, errSeveral
	case err == nil && lenientErr == nil && strict.said != lenient.said:
		return object{}, errSeveral
	case err == nil:
		return strict, nil
	}
	return lenient, lenientErr
}

func wholeAnswer(text, key string) (map[string]json.RawMessage, error) {
	if text[0] != '{' {
		return nil, problem("the answer is %s; it must be one JSON object with %s", shorten(text), quote(key))
	}
	fields, err := fieldsProblem([]byte(text))
	if err != nil {
		return nil, err
	}
	if _, ok := fields[key]; !ok {
		return nil, problem("the answer's JSON object has no %s; it must fit the schema", quote(key))
	}
	return fields, nil
}

// errSeveral is returned for an answer that gives a key different values.
var errSeveral = errors.New("several values")

// objectWith finds the last object that has key, ignoring reasoning and objects within other JSON.
func objectWith(text, key string, read reader) (object, error) {
	text, err := withoutReasoning(text, with(key, objectsIn(text, read)))
	if err != nil {
		return object{}, err
	}
	all := objectsIn(text, read)
	found := with(key, all)
	if len(found) == 0 {
		return object{}, noObject(text, key, all)
	}
	last := found[len(found)-1]
	for _, o := range found {
		if o.said != last.said {
			return object{}, errSeveral
		}
	}
	if lastMention(text, key) >= last.end { // the object found may be a draft
		return object{}, noObject(text, key, all)
	}
	if last.contradicted(text, key, found) {
		return object{}, errSeveral
	}
	return last, nil
}

// object is an object or an array in a text, or the beginning of an invalid one.
type object struct {
	start, end int
	json       string
	said       string // value of the key, without insignificant blanks
	err        error  // why it is invalid
}

// objectsIn finds the objects, and arrays of objects, that are not within others. It reads the text only once: after
// a failed attempt, it continues behind the last token that was read.
func objectsIn(text string, read reader) []object {
	var all []object
	for at := 0; ; {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			return all
		}

		at += next
		inside := byte('"')
		if text[at] == '[' {
			inside = '{'
		}
		o := object{start: at, end: at + 1}
		switch rest := strings.TrimLeftFunc(text[at+1:], unicode.IsSpace); {
		case rest != "" && rest[0] == inside:
			var length int
			o.json, length, o.err = read(text[at:])
			o.end = at + length
			all = append(all, o)
		case text[at] == '{' && (strings.HasPrefix(rest, "'") || strings.HasPrefix(rest, "“")):
			o.err = errors.New("keys and strings must be in double quotes")
			all = append(all, o)
		}
		at = o.end
	}
}

// with returns the objects that have key, with its value in said.
func with(key string, all []object) []object {
	var having []object
	for _, o := range readable(all) {
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(o.json), &fields) != nil {
			continue
		}
		if value, has := fields[key]; has {
			o.said = compact(value)
			having = append(having, o)
		}
	}
	return having
}

// readable returns the objects that are valid.
func readable(all []object) []object {
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.err != nil })
}

// compact returns JSON without insignificant blanks.
func compact(value json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, value) != nil {
		return string(value)
	}
	return out.String()
}

// contradicted reports whether the text gives key another value outside of the objects found. That may be in an
// invalid object, in other JSON, or in prose.
func (o object) contradicted(text, key string, found []object) bool {
	said, _ := stringOf(json.RawMessage(o.said))
	for _, mention := range assignment(key).FindAllStringIndex(text, -1) {
		for len(found) > 0 && found[0].end <= mention[0] {
			found = found[1:]
		}
		nested := text[mention[0]] == '"' && said != "" // a key of the object found, or of one within it
		if len(found) > 0 && found[0].start <= mention[0] && !nested {
			continue
		}
		value := text[mention[1]:]
		if said == "" {
			if !strings.HasPrefix(value, o.said) {
				return true
			}
			continue
		}
		value, same := strings.CutPrefix(strings.TrimLeft(value, "\"'“"), said)
		next, _ := utf8.DecodeRuneInString(value)
		if !same || unicode.IsLetter(next) || unicode.IsDigit(next) || strings.ContainsRune("-_./", next) {
			return true
		}
	}

	return false
}

// assignment returns an expression that matches where a text gives key a value.
func assignment(key string) *regexp.Regexp {
	name := strings.ReplaceAll(regexp.QuoteMeta(key), "_", `\\?_`)
	return regexp.MustCompile(`["'“]` + name + `["'”][\s\p{Z}\x{FEFF}]*:[\s\p{Z}\x{FEFF}]*`)
}

// lastMention returns where the text last contains key in quotation marks; −1 if nowhere.
func lastMention(text, key string) int {
	last := -1
	for _, name := range []string{key, strings.ReplaceAll(key, "_", `\_`)} {
		for _, quoted := range []string{`"` + name + `"`, `'` + name + `'`, `“` + name + `”`} {
			last = max(last, strings.LastIndex(text, quoted))
		}
	}
	return last
}

// noObject says why the text contains no valid object with key. all are the objects in the text.
func noObject(text, key string, all []object) error {
	at := lastMention(text, key)
	if at < 0 {
		return problem("the answer has no JSON object with %s; it must be one JSON object that fits the schema", quote(key))
	}

	var about *object // the first invalid object after the last valid one
	for i, o := range all {
		switch {
		case o.start > at:
		case o.err == nil && o.end > at:
			return problem("the JSON object with %s is inside something else; write it by itself", quote(key))
		case o.err == nil:
			about = nil
		case about == nil:
			about = &all[i]
		}
	}

	switch {
	case about == nil && len(with(key, all)) > 0:
		return problem("the answer names %s again after its JSON object; write the object, and nothing after it", quote(key))
	case about == nil:
		return problem("the answer has no JSON object with %s; it must be one JSON object that fits the schema", quote(key))
	case errors.Is(about.err, io.ErrUnexpectedEOF):
		return problem("the JSON object with %s ends before it is complete; write it whole", quote(key))
	}

	return problem("the JSON object with %s is not valid JSON (%v); it must be one JSON object that fits the schema", quote(key), about.err)
}

func fieldsProblem(raw json.RawMessage) (map[string]json.RawMessage, error) {
	fields, err := fieldsOf(raw)
	if err != nil {
		return nil, problem("the answer's JSON object cannot be read: %v", err)
	}
	return fields, nil
}

// fieldsOf splits an object into its values. Unlike json.Unmarshal, it rejects a repeated key, because nothing says
// which of the values is meant.
func fieldsOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("it must be a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, errors.New("it must be a JSON object")
		}
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("it has the key %s twice", shorten(quote(key)))
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		fields[key] = value
	}

	return fields, nil
}
