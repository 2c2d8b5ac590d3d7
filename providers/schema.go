package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// SchemaToSend returns the JSON schema in the form that the model accepts. Unless minimum and maximum are known to be
// accepted, numbers have their bounds in the description instead, and the caller must check them in the answer.
// Properties keep their order, because models answer in it.
func (c Capabilities) SchemaToSend(s *Schema) json.RawMessage {
	if c.SchemaBounds || !bytes.Contains(s.Schema, []byte(`imum"`)) {
		return s.Schema
	}
	described, err := describeBounds(s.Schema)
	if err != nil {
		return s.Schema // not JSON: the endpoint reports the error
	}
	return described
}

// member is one key of a JSON object with its value.
type member struct {
	key   string
	value json.RawMessage
}

// describeBounds moves the bounds of numbers into their descriptions, at any depth.
func describeBounds(raw json.RawMessage) (json.RawMessage, error) {
	switch raw = bytes.TrimSpace(raw); {
	case bytes.HasPrefix(raw, []byte("{")):
		members, err := membersOf(raw)
		if err != nil {
			return nil, err
		}
		return objectOf(withoutBounds(members))
	case bytes.HasPrefix(raw, []byte("[")):
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, err
		}
		for i, item := range items {
			described, err := describeBounds(item)
			if err != nil {
				return nil, err
			}
			items[i] = described
		}
		return encode(items)
	}
	return raw, nil
}

// withoutBounds drops minimum and maximum if they are numbers, which tells them from properties with those names, and
// adds them to the description.
func withoutBounds(members []member) []member {
	var kept []member
	var bounds []string
	description := -1
	for _, m := range members {
		var n json.Number
		isNumber := json.Unmarshal(m.value, &n) == nil && !bytes.HasPrefix(m.value, []byte(`"`))
		switch {
		case m.key == "minimum" && isNumber:
			bounds = append(bounds, "at least "+n.String())
			continue
		case m.key == "maximum" && isNumber:
			bounds = append(bounds, "at most "+n.String())
			continue
		case m.key == "description":
			description = len(kept)
		}
		kept = append(kept, m)
	}

	if len(bounds) == 0 {
		return kept
	}
	words := strings.Join(bounds, ", ")
	if description < 0 {
		return append(kept, member{"description", mustEncode(words)})
	}
	var said string
	if json.Unmarshal(kept[description].value, &said) == nil {
		kept[description].value = mustEncode(said + " (" + words + ")")
	}
	return kept
}

// membersOf reads an object in the order in which it is written.
func membersOf(raw json.RawMessage) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil { // {
		return nil, err
	}
	var members []member
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // a key is nothing else
		m := member{key: key}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	_, err := decoder.Token() // }
	return members, err
}

// objectOf writes an object in the order of its members.
func objectOf(members []member) (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range members {
		value, err := describeBounds(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(mustEncode(m.key))
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encode encodes v as JSON without escaping <, > and &.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func mustEncode(text string) json.RawMessage {
	raw, err := encode(text)
	if err != nil {
		panic(fmt.Sprintf("encode a string: %v", err)) // every string can be encoded
	}
	return raw
}
