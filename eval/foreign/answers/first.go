package answers

import (
	"bytes"
	"encoding/json"
)

// maxNesting bounds how deep the beginning of a file is read.
const maxNesting = 64

// First returns the first object in the beginning of a JSON file: its first line, the first element of its list, or
// what it has of the file's only object. nil: it does not begin with an object.
func First(head []byte) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(head))
	decoder.UseNumber()
	begun, _ := prefix(decoder, 0)
	if list, ok := begun.([]any); ok && len(list) > 0 {
		begun = list[0]
	}
	first, _ := begun.(map[string]any)
	return first
}

// prefix reads a value as far as the text goes. whole means that the value has ended.
func prefix(decoder *json.Decoder, depth int) (value any, whole bool) {
	token, err := decoder.Token()
	if err != nil || depth > maxNesting {
		return nil, false
	}

	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for decoder.More() {
			key, err := decoder.Token()
			name, isName := key.(string)
			if err != nil || !isName {
				return object, false
			}
			member, whole := prefix(decoder, depth+1)
			object[name] = member
			if !whole {
				return object, false
			}
		}
		_, err := decoder.Token()
		return object, err == nil
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			element, whole := prefix(decoder, depth+1)
			if list = append(list, element); !whole || depth == 0 {
				return list, false // of the file's own list, the first is enough
			}
		}
		_, err := decoder.Token()
		return list, err == nil
	}

	return token, true
}
