package verdict

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Score is a judge's score of a document on one criterion, or an agent's on one dimension.
type Score struct {
	Criterion string  // or the id of the dimension
	Score     float64 // a whole number on the scale
	Reason    string  // or the agent's argument; never empty
}

// Single reads the scores of one document: every criterion exactly once, in the order of criteria. Each score must be
// a whole number on the scale. A number written as a string of its digits ("4") counts as the number, because it can
// mean nothing else; "4/5" and 4.5 do not. The error is a *Problem that lists everything wrong.
func Single(text string, criteria []eval.Criterion, scale eval.Scale) ([]Score, error) {
	names := make([]string, len(criteria))
	for i, c := range criteria {
		names[i] = c.Name
	}
	return sheet{criterion: "criterion", reason: "reason", names: names, scale: scale}.read(text)
}

// sheet says which scores are expected, and what the fields of a score are called.
type sheet struct {
	criterion, reason string
	names             []string // of the criteria
	scale             eval.Scale
}

// listKey is the field of the answer that contains the scores.
const listKey = "evaluations"

// read reads a score for every criterion, in the order of the sheet.
func (s sheet) read(text string) ([]Score, error) {
	fields, err := answer(text, listKey)
	if err != nil {
		return nil, err
	}
	entries, err := entriesOf(fields)
	if err != nil {
		return nil, err
	}

	scores := make([]Score, len(s.names))
	given := make([]int, len(s.names))
	var wrong []string
	for i, raw := range entries {
		score, err := s.score(raw, i)
		if at := slices.Index(s.names, score.Criterion); at >= 0 {
			scores[at] = score
			given[at]++
		}
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}

	for i, n := range given {
		switch {
		case n == 0:
			wrong = append(wrong, s.criterion+" "+quote(s.names[i])+" is missing")
		case n > 1:
			wrong = append(wrong, s.criterion+" "+quote(s.names[i])+" appears "+strconv.Itoa(n)+" times; want it once")
		}
	}

	if len(wrong) > 0 {
		return nil, problem("%s", strings.Join(atMost(wrong, 10), "; "))
	}
	return scores, nil
}

func entriesOf(fields map[string]json.RawMessage) ([]json.RawMessage, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(fields[listKey], &entries); err != nil || entries == nil { // null leaves it nil
		return nil, problem("%s is %s; it must be an array with one object for each criterion", listKey, shorten(string(fields[listKey])))
	}
	return entries, nil
}

// score reads the i-th entry. If its criterion is known, it is set even with an error.
func (s sheet) score(raw json.RawMessage, i int) (Score, error) {
	fields, err := fieldsOf(raw)
	if err != nil {
		return Score{}, problem("entry %d of evaluations is %s: %v", i+1, shorten(string(raw)), err)
	}
	said, _ := stringOf(fields[s.criterion])
	name := strings.TrimSpace(said)
	if slices.Contains(s.names, said) {
		name = said
	}
	if !slices.Contains(s.names, name) {
		return Score{}, problem("entry %d of evaluations has the %s %s; it must be exactly one of %s",
			i+1, s.criterion, shorten(orNothing(fields[s.criterion])), quoteAll(s.names))
	}
	score := Score{Criterion: name}
	value, ok := wholeNumber(fields["score"])
	if !ok || value < float64(s.scale.Min) || value > float64(s.scale.Max) {
		return score, problem("score of %s is %s; it must be a whole number from %d to %d",
			quote(name), shorten(orNothing(fields["score"])), s.scale.Min, s.scale.Max)
	}
	score.Score = value
	score.Reason, err = reasonOf(fields, s.reason, " of "+quote(name))
	return score, err
}

// wholeNumber reads a JSON number without a fraction, or a whole number in quotes.
func wholeNumber(raw json.RawMessage) (value float64, ok bool) {
	if s, isString := stringOf(raw); isString {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		return float64(n), err == nil
	}
	if json.Unmarshal(raw, &value) != nil || string(raw) == "null" {
		return 0, false
	}
	return value + 0, value == math.Trunc(value) // + 0 turns -0 into 0
}

func orNothing(raw json.RawMessage) string {
	if raw == nil {
		return "missing"
	}
	return string(raw)
}

func atMost(all []string, n int) []string {
	if len(all) <= n {
		return all
	}
	return append(all[:n:n], "and "+strconv.Itoa(len(all)-n)+" more")
}
