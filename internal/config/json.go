package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// jsonText is JSON text whose values have positions.
type jsonText struct {
	*findings
	file string
	text []byte
	// first is the line of the file where the text begins, from 1; 0 means 1.
	first int
}

// member is a key of an object and its value, as written.
type member struct {
	key   string
	at    int // offset of the key
	value json.RawMessage
	from  int // offset of the value
}

func (j jsonText) place(offset int, path string) place {
	start := place{file: j.file, line: max(j.first, 1), column: 1, path: path}
	return start.after(j.text[:min(offset, len(j.text))])
}

// after returns the place directly after text, which begins at p.
func (p place) after(text []byte) place {
	if last := bytes.LastIndexByte(text, '\n'); last >= 0 {
		p.line += bytes.Count(text, []byte("\n"))
		p.column, text = 1, text[last+1:]
	}
	p.column += len(text)
	return p
}

// object returns the members of the text, which must be an object, in the order of the file. It
// reports errors, including keys that are repeated anywhere in it; fix says how to correct them.
func (j jsonText) object(fix string) (members []member, ok bool) {
	if offset := invalidUTF8(j.text); offset >= 0 {
		j.refuse(j.place(offset, ""), "save the file as UTF-8", "not UTF-8: a byte is not part of a character")
		return nil, false
	}
	var all map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(j.text))
	err := decoder.Decode(&all)
	after := int(decoder.InputOffset())
	var syntax *json.SyntaxError
	switch rest := bytes.TrimLeft(j.text[after:], " \t\r\n"); {
	case errors.As(err, &syntax):
		j.refuse(j.place(int(syntax.Offset)-1, ""), fix, "not JSON: %v", err)
		return nil, false
	case errors.Is(err, io.EOF):
		j.refuse(j.place(0, ""), fix, "got nothing")
		return nil, false
	case err != nil || all == nil:
		j.refuse(j.place(len(j.text)-len(bytes.TrimLeft(j.text, " \t\r\n")), ""), fix, "not a JSON object: %s", reason(err))
		return nil, false
	case len(rest) > 0:
		j.refuse(j.place(len(j.text)-len(rest), ""), fix, "there is text after the object")
		return nil, false
	}

	if j.repeated() {
		return nil, false
	}
	return membersOf(j.text, 0), true
}

// repeated reports keys that occur twice in one object.
func (j jsonText) repeated() (found bool) {
	type level struct {
		seen map[string]bool // nil: in a list
		key  bool            // the next token is a key
	}

	levels := []level{{}}
	decoder := json.NewDecoder(bytes.NewReader(j.text))
	for {
		before := int(decoder.InputOffset())
		token, err := decoder.Token()
		if err != nil {
			return found
		}
		top := &levels[len(levels)-1]
		if key, ok := token.(string); ok && top.key {
			if top.key = false; top.seen[key] {
				at := before + bytes.IndexByte(j.text[before:], '"')
				j.refuse(j.place(at, key), "remove one of them", "key given twice")
				found = true
			}
			top.seen[key] = true
			continue
		}
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		top.key = top.seen != nil
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{seen: map[string]bool{}, key: true})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

// membersOf returns the members of a valid object. offset is that of the object in its text.
func membersOf(object []byte, offset int) []member {
	var all []member
	decoder := json.NewDecoder(bytes.NewReader(object))
	_, _ = decoder.Token()
	for decoder.More() {
		before := int(decoder.InputOffset())
		key, _ := decoder.Token()
		m := member{at: offset + before + bytes.IndexByte(object[before:], '"')}
		m.key, _ = key.(string)
		if decoder.Decode(&m.value) != nil {
			return all // valid input causes no error
		}
		m.from = offset + int(decoder.InputOffset()) - len(m.value)
		all = append(all, m)
	}
	return all
}

// writtenLines passes the lines of a file that are not empty to take, unchanged. take may keep
// them.
func (s *draft) writtenLines(path string, take func(at place, line []byte)) {
	file, err := s.open(path)
	if err != nil {
		s.refuse(place{file: path}, "", "%v", err)
		return
	}
	defer file.Close()
	s.textLines(path, file, "null", func(at place, line []byte) { take(at, bytes.Clone(line)) })
}

func (f *findings) writtenLine(at place, line []byte) (j jsonText, members []member, ok bool) {
	j = jsonText{findings: f, file: at.file, text: line, first: at.line}
	members, ok = j.object("write one JSON object per line")
	return j, members, ok
}

// placedValue is a value as written, with its place.
type placedValue struct {
	raw json.RawMessage
	at  place
}

// values returns the members by key, in the order of the text. The paths of their places begin with
// prefix.
func (j jsonText) values(members []member, prefix string) map[string]placedValue {
	values := make(map[string]placedValue, len(members))
	at, from := j.place(0, ""), 0
	for _, m := range members {
		at, from = at.after(j.text[from:m.from]), m.from
		at.path = prefix + m.key
		values[m.key] = placedValue{m.value, at}
	}
	return values
}

// textOf returns the text of a value that is a JSON string; else ok is false.
func textOf(raw json.RawMessage) (text string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return text, json.Unmarshal(raw, &text) == nil
}

// isNull reports whether a value is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
