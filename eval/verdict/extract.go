package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// answer finds the object that a judge answered with: the whole text, or else
// the last JSON object in it that has key, in a code fence or in prose. An object
// within another one is no answer. Several objects that give key different values
// are none either: one may be a draft, or what a document was found to say, and
// nothing tells which.
func answer(text, key string) (map[string]json.RawMessage, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if text == "" {
		return nil, problem("the answer is empty; it must be one JSON object with %s", quote(key))
	}
	if json.Valid([]byte(text)) {
		return wholeAnswer(text, key)
	}
	text, err := afterThinking(text)
	if err != nil {
		return nil, err
	}
	start, end, differ := lastObject(text, key)
	if differ {
		return nil, problem("the answer has several JSON objects, with different values of %s; write the one that holds, and no other", quote(key))
	}
	if start < 0 || lastMention(text, key) >= end { // a later mention: the text found is a draft
		return nil, noObject(text, key)
	}
	return fieldsProblem([]byte(text[start:end]))
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

// afterThinking drops the reasoning that some models write into their answer between <think>
// tags, because it is a draft. An answer that ends within it contains nothing else.
func afterThinking(text string) (string, error) {
	const begin, end = "<think>", "</think>"
	if i := strings.LastIndex(text, end); i >= 0 {
		text = text[i+len(end):]
	}
	if strings.Contains(text, begin) {
		return "", problem("the answer ends within its reasoning; write the JSON object after it")
	}
	return text, nil
}

// lastObject finds the last JSON object in text that has key and is in no
// other JSON, start −1 if there is none, and whether others before it have another
// value of key. It reads text once: where an attempt fails, the next begins behind
// the last token that was read.
func lastObject(text, key string) (start, end int, differ bool) {
	start, end = -1, -1
	said := ""
	for at := 0; ; {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			return start, end, differ
		}
		at += next
		length, ok := jsonAt(text[at:])
		if ok && text[at] == '{' {
			if value, has := valueOf(text[at:at+length], key); has {
				differ = differ || start >= 0 && value != said
				start, end, said = at, at+length, value
			}
		}
		at += length
	}
}

// jsonAt reads the object, or the array of objects, that text begins with.
// length is that of the value, or of the tokens before an error, at least 1.
func jsonAt(text string) (length int, ok bool) {
	inside := byte('"')
	if text[0] == '[' {
		inside = '{'
	}
	if rest := strings.TrimLeft(text[1:], " \t\r\n"); rest == "" || rest[0] != inside {
		return 1, false // brackets of prose, or nothing that can hold an answer
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return max(1, int(decoder.InputOffset())), false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return int(decoder.InputOffset()), true
		}
	}
}

// valueOf is what an object has for key, without insignificant blanks.
func valueOf(object, key string) (value string, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &fields) != nil {
		return "", false
	}
	raw, ok := fields[key]
	var compact bytes.Buffer
	if !ok || json.Compact(&compact, raw) != nil {
		return "", false
	}
	return compact.String(), true
}

// lastMention finds where text last names key as a key, −1 if nowhere.
func lastMention(text, key string) int {
	last := -1
	for _, quoted := range []string{`"` + key + `"`, `'` + key + `'`, `“` + key + `”`} {
		last = max(last, strings.LastIndex(text, quoted))
	}
	return last
}

// noObject says why text holds no object with key that can be read.
func noObject(text, key string) error {
	at := lastMention(text, key)
	start := strings.LastIndexByte(text[:max(at, 0)], '{')
	if start < 0 {
		return problem("the answer has no JSON object with %s; it must be one JSON object that fits the schema", quote(key))
	}
	var object json.RawMessage
	err := json.NewDecoder(strings.NewReader(text[start:])).Decode(&object)
	if err == nil {
		return problem("the JSON object with %s is inside something else; write it by itself", quote(key))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return problem("the JSON object with %s ends before it is complete; write it whole", quote(key))
	}
	return problem("the JSON object with %s is not valid JSON (%v); it must be one JSON object that fits the schema", quote(key), err)
}

func fieldsProblem(raw json.RawMessage) (map[string]json.RawMessage, error) {
	fields, err := fieldsOf(raw)
	if err != nil {
		return nil, problem("the answer's JSON object cannot be read: %v", err)
	}
	return fields, nil
}

// fieldsOf splits an object into its values. Unlike json.Unmarshal it refuses a
// key that is there twice, because nothing says which of the values is meant.
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
