package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Vote is a person's verdict on two documents of one item. Votes are not part of an evaluation's identity, because
// they cause no calls.
type Vote struct {
	Annotator string `json:"annotator"`
	First     string `json:"doc_id_1"`      // a document's id; the smaller one in EncodeVotes
	Second    string `json:"doc_id_2"`      // id of another document of the same item
	Winner    string `json:"winner_doc_id"` // one of the two, or Tie
}

// EncodeVotes returns a canonical text for a set of votes, independent of their order. It has one JSON object on each
// line, sorted by pair and then by annotator.
func EncodeVotes(votes []Vote) string {
	sorted := slices.Clone(votes)
	for i, v := range sorted {
		if v.First > v.Second {
			sorted[i].First, sorted[i].Second = v.Second, v.First
		}
	}
	slices.SortFunc(sorted, func(a, b Vote) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second), cmp.Compare(a.Annotator, b.Annotator))
	})
	var text strings.Builder
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for _, vote := range sorted {
		if err := lines.Encode(vote); err != nil {
			panic(fmt.Sprintf("eval: encode vote: %v", err)) // cannot happen with four strings
		}
	}
	return text.String()
}

// DecodeVotes reads what EncodeVotes returns.
func DecodeVotes(text string) ([]Vote, error) {
	var votes []Vote
	for lines := json.NewDecoder(strings.NewReader(text)); ; {
		var vote Vote
		err := lines.Decode(&vote)
		if errors.Is(err, io.EOF) {
			return votes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("vote %d: %w", len(votes)+1, err)
		}
		votes = append(votes, vote)
	}
}
