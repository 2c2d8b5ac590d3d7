package verdict

import (
	"encoding/json"
	"strings"
)

// Object finds the one JSON object in an answer: the whole text, or else the only
// object in it, in a code fence or in prose. Two objects are none, because nothing
// tells which of them holds.
func Object(text string) (json.RawMessage, error) {
	text, err := afterThinking(strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")))
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if json.Valid([]byte(text)) {
		if text[0] != '{' {
			return nil, problem("the answer is %s; it must be one JSON object", shorten(text))
		}
		return json.RawMessage(text), nil
	}
	found := ""
	for at := 0; ; {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			break
		}
		at += next
		length, ok := jsonAt(text[at:])
		if object := text[at : at+length]; ok && text[at] == '{' && json.Valid([]byte(object)) {
			if found != "" {
				return nil, problem("the answer has several JSON objects; write one, and no other")
			}
			found = object
		}
		at += length
	}
	if found == "" {
		return nil, problem("the answer has no JSON object; it must be one JSON object")
	}
	return json.RawMessage(found), nil
}
