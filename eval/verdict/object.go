package verdict

import (
	"encoding/json"
	"errors"
	"strings"
)

// Object finds the only JSON object in an answer: the whole text or, in a code fence or in prose, the only object in
// it. It is an error if there are several, because nothing tells which one is meant. A text that is not JSON is read
// with repairs, as a verdict is.
func Object(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if json.Valid([]byte(text)) {
		return wholeObject(text)
	}

	found, err := agreed(func(read reader) (object, error) {
		all := objectsIn(text, read)
		text, err := withoutReasoning(text, readable(all))
		if err != nil {
			return object{}, err
		}
		if text = strings.TrimSpace(text); json.Valid([]byte(text)) {
			whole, err := wholeObject(text)
			return object{json: text, said: compact(whole)}, err
		}
		return onlyObject(text, read)
	})
	if errors.Is(err, errSeveral) {
		err = problem("the answer has several JSON objects; write one, and no other")
	}
	if err != nil {
		return nil, err
	}
	return json.RawMessage(found.json), nil
}

func wholeObject(text string) (json.RawMessage, error) {
	if text[0] != '{' {
		return nil, problem("the answer is %s; it must be one JSON object", shorten(text))
	}
	return json.RawMessage(text), nil
}

func onlyObject(text string, read reader) (object, error) {
	var found []object
	for _, o := range readable(objectsIn(text, read)) {
		if o.json[0] == '{' {
			o.said = compact(json.RawMessage(o.json))
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return object{}, problem("the answer has no JSON object; it must be one JSON object")
	case 1:
		return found[0], nil
	}
	return object{}, errSeveral
}
