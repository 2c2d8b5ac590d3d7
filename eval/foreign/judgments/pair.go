package judgments

import (
	"encoding/json"
	"maps"
)

// ReadPair reads a row about two texts, whose candidates need not be named: the question, the texts, and a verdict if the
// row names a winner. The error is written for the owner of the file.
func ReadPair(row Row) (Read, error) {
	if _, _, named := pairOf(row); !named {
		row = maps.Clone(row)
		row["candidate_a"], row["candidate_b"] = json.RawMessage(`"a"`), json.RawMessage(`"b"`)
	}
	r, err := pairRow(row)
	if err != nil {
		return r, err
	}
	for k, name := range []string{"text_a", "text_b"} {
		if r.Texts[k] == nil {
			return r, wrong(name, "want the columns question, text_a and text_b, and winner if it is known", "there is no text")
		}
		if *r.Texts[k] == "" {
			return r, wrong(name, "write the text, or remove the row", "the text is empty")
		}
	}

	if field := winnerOf(row); field != "" {
		var v Verdict
		if err := v.named(row, field, r.Candidates); err != nil {
			return r, err
		}
		if v.ByName != None {
			v.Outcome = v.ByName
		}
		if v.Outcome != None {
			r.Verdicts = []Verdict{v}
		}
	}
	return r, nil
}

// Name returns what the row calls itself; empty: it has no name.
func (row Row) Name() string { return row.first([]string{"name", "anchor", "id"}) }

// Field returns a field that is a text or a number; empty if it is absent or something else.
func (row Row) Field(name string) string { return row.text(name) }
