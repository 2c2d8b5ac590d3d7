package verdict

import (
	"encoding/json"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Panel reads an agent's scores of one document, as Single does: every dimension exactly once, in the order of
// dimensions. The error is a *Problem.
func Panel(text string, dimensions []eval.Dimension, scale eval.Scale) ([]Score, error) {
	return panelSheet(dimensions, scale).read(text)
}

// Batch reads the usable parts of an answer about several dimensions. scores holds the valid scores of dimensions
// that occur exactly once, in the order of dimensions. corrupt holds the text of everything else: entries of unknown
// dimensions, and all entries of a repeated one. It also holds the end of a truncated list, and the whole of an
// answer without a list. A dimension that the answer does not mention is in neither.
func Batch(text string, dimensions []eval.Dimension, scale eval.Scale) (scores []Score, corrupt []string) {
	s := panelSheet(dimensions, scale)
	entries, rest := s.entriesIn(text)
	if rest != "" {
		corrupt = append(corrupt, rest)
	}
	given := make([][]string, len(s.names)) // raw entries by dimension
	right := make([]Score, len(s.names))
	for i, raw := range entries {
		fields, at, err := s.open(raw, i)
		if err != nil {
			corrupt = append(corrupt, string(raw))
			continue
		}
		given[at] = append(given[at], string(raw))
		if score, err := s.score(fields, s.names[at]); err == nil {
			right[at] = score
		}
	}

	for at, raw := range given {
		switch {
		case len(raw) == 1 && right[at].Reason != "":
			scores = append(scores, right[at])
		default:
			corrupt = append(corrupt, raw...)
		}
	}

	return scores, corrupt
}

func panelSheet(dimensions []eval.Dimension, scale eval.Scale) sheet {
	names := make([]string, len(dimensions))
	for i, d := range dimensions {
		names[i] = d.ID
	}
	return scoresOf("criterion_id", "argument", names, onScale(scale))
}

// entriesIn finds the list of scores in an answer. rest is text that should be an entry but is not. It is the broken
// end of a truncated list, or the whole of an answer without a list.
func (l list) entriesIn(text string) (entries []json.RawMessage, rest string) {
	fields, err := answer(text, listKey)
	if err == nil {
		if entries, err = l.entries(fields); err == nil {
			return entries, ""
		}
		return nil, text
	}
	visible, err := withoutReasoning(text, with(listKey, objectsIn(text, leniently)))
	if err != nil {
		return nil, text
	}
	return brokenList(visible)
}

// brokenList reads the complete entries of a truncated list, for example of an answer that reached its token limit.
func brokenList(text string) (entries []json.RawMessage, rest string) {
	_, list, found := strings.Cut(text, `"`+listKey+`"`)
	if !found || strings.Contains(list, `"`+listKey+`"`) { // a draft and another: nothing says which is meant
		return nil, text
	}
	list, found = strings.CutPrefix(strings.TrimLeft(list, " \t\r\n"), ":")
	if !found {
		return nil, text
	}
	s := scanner{text: list}
	if s.peek() != '[' {
		return nil, text
	}
	before := 0 // start of the entry that is being read
	err := s.list(']', func() error {
		before = s.at
		written := s.out.Len()
		if err := s.value(0); err != nil {
			return err
		}
		entries = append(entries, json.RawMessage(s.out.String()[written:]))
		before = s.end
		return nil
	})

	switch {
	case err != nil:
		return entries, strings.Trim(list[before:], ", \t\r\n")
	case strings.TrimSpace(list[s.end:]) != "":
		return nil, text // the list is complete, so something else is wrong
	}

	return entries, ""
}
