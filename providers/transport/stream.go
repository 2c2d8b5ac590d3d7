package transport

import (
	"bytes"
	"encoding/json"
)

// Parts splits an answer that is a stream although none was asked for: server-sent events, or lines of JSON. nil: it is
// not a stream. ended reports whether the stream says that it is complete.
func (a *Answer) Parts() (parts []json.RawMessage, ended bool) {
	body := bytes.TrimLeft(a.Body, " \t\r\n\ufeff")
	if !isEvents(body) {
		return linesOf(body), false
	}
	var data []byte // of one event, whose lines are joined
	flush := func() {
		switch {
		case string(data) == "[DONE]":
			ended = true
		case len(data) > 0:
			parts = append(parts, data)
		}
		data = nil
	}

	for line := range bytes.Lines(body) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			flush()
			continue
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
	}

	flush()
	return parts, ended
}

// isEvents reports whether body begins with a field, or a comment, of server-sent events.
func isEvents(body []byte) bool {
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(body, []byte(field)) {
			return true
		}
	}
	return false
}

// linesOf returns the lines of a body that has a JSON object on each line; nil if it has fewer than two lines.
func linesOf(body []byte) (lines []json.RawMessage) {
	if len(body) == 0 || body[0] != '{' || json.Valid(body) {
		return nil
	}
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case line[0] != '{' || !json.Valid(line):
			return nil
		default:
			lines = append(lines, line)
		}
	}
	return lines
}
