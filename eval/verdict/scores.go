package verdict

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Score is a judge's score of a document on one criterion, or an agent's on one dimension.
type Score struct {
	Criterion string  // or the id of the dimension
	Score     float64 // a whole number on the scale; by a rubric 1 if the document meets the criterion, otherwise 0
	Reason    string  // or the agent's argument; never empty
}

// Scores reads what a judge says of one document of an evaluation, by its criteria (see Single) or by the rubric of the
// document's item (see Rubric).
func Scores(text string, e *eval.Evaluation, d eval.Document) ([]Score, error) {
	if e.Single.Rubric {
		return Rubric(text, len(e.Items[d.Item].Rubric))
	}
	return Single(text, e.Single.Criteria, e.Single.Scale)
}

// Single reads the scores of one document: every criterion exactly once, in the order of criteria. Each score must be
// a whole number on the scale. A number written as a string of its digits ("4") counts as the number, because it can
// mean nothing else; "4/5" and 4.5 do not. The error is a *Problem that lists everything wrong.
func Single(text string, criteria []eval.Criterion, scale eval.Scale) ([]Score, error) {
	names := make([]string, len(criteria))
	for i, c := range criteria {
		names[i] = c.Name
	}
	return scoresOf("criterion", "reason", names, onScale(scale)).read(text)
}

// Rubric reads which criteria of a rubric one document meets: every criterion exactly once, in their order, named by
// eval.RubricNumber in the answer and by eval.RubricID in the scores. Each must be met or not; "true" in quotes is true,
// and "yes" is neither. The error is a *Problem that lists everything wrong.
func Rubric(text string, criteria int) ([]Score, error) {
	names := make([]string, criteria)
	for i := range names {
		names[i] = eval.RubricNumber(i)
	}
	sheet := scoresOf("criterion", "reason", names, met)
	sheet.numbered = true
	scores, err := sheet.read(text)
	for i := range scores {
		scores[i].Criterion = eval.RubricID(i)
	}
	return scores, err
}

// sheet says which scores are expected, and what the fields of a score are called.
type sheet struct {
	list
	reason string
	value  reading
}

// scoresOf returns a sheet of scores on criteria with some names.
func scoresOf(criterion, reason string, names []string, value reading) sheet {
	return sheet{list{key: listKey, field: criterion, names: names}, reason, value}
}

// reading reads the value of an entry from its fields. name is the criterion, for the error.
type reading func(fields map[string]json.RawMessage, name string) (float64, error)

// onScale returns a function that reads a score on a scale.
func onScale(scale eval.Scale) reading {
	return func(fields map[string]json.RawMessage, name string) (float64, error) {
		value, ok := wholeNumber(fields["score"])
		if !ok || value < float64(scale.Min) || value > float64(scale.Max) {
			return 0, problem("score of %s is %s; it must be a whole number from %d to %d",
				quote(name), shorten(orNothing(fields["score"])), scale.Min, scale.Max)
		}
		return value, nil
	}
}

// met reads whether a criterion is met.
func met(fields map[string]json.RawMessage, name string) (float64, error) {
	raw := fields["met"]
	said, quoted := stringOf(raw)
	if !quoted {
		said = string(raw)
	}
	switch strings.ToLower(strings.TrimSpace(said)) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	return 0, problem("met of %s is %s; it must be true or false", quote(name), shorten(orNothing(raw)))
}

// listKey is the field of the answer that contains the scores.
const listKey = "evaluations"

// read reads a score for every criterion, in the order of the sheet.
func (s sheet) read(text string) ([]Score, error) {
	fields, err := answer(text, listKey)
	if err != nil {
		return nil, err
	}
	entries, err := s.entries(fields)
	if err != nil {
		return nil, err
	}
	scores, _, wrong := eachOnce(s.list, entries, s.score)
	if len(wrong) > 0 {
		return nil, problem("%s", strings.Join(atMost(wrong, 10), "; "))
	}
	return scores, nil
}

// score reads the entry of a criterion.
func (s sheet) score(fields map[string]json.RawMessage, name string) (score Score, err error) {
	score.Criterion = name
	if score.Score, err = s.value(fields, name); err != nil {
		return score, err
	}
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
