package verdict

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Pair is the verdict on two documents.
type Pair struct {
	Preference
	Reason   string       // never empty
	Criteria []Preference // in the order of the question; those that PairwisePart could not read are omitted
}

// Preference says which of two documents is better.
type Preference struct {
	Criterion string // empty: overall
	Winner    string // a document's name, or eval.Tie
	Degree    int    // by how much it is better, from 1; 0 of a tie, and of a question without degrees
}

// keys are the fields with the better document and with the degree.
type keys struct{ winner, degree string }

// The keys of an answer about a pair. An entry of a criterion has other keys than the answer, so that nothing within it
// can be taken for the overall verdict.
var (
	overall = keys{winnerField, "degree"}
	within  = keys{"better", "by_degree"}
)

// Pairwise reads the verdict on two documents, which the judge saw by the names first and second. A winner is one of
// these names, or eval.Tie if the question allows ties. A name with HTML escapes is accepted, because the tags of
// documents show it so, and a name with Markdown's \_ for an underscore too. Each criterion of the question must have a
// verdict exactly once. Other keys are ignored. The error is a *Problem.
func Pairwise(text, first, second string, question *eval.Pairwise) (Pair, error) {
	p, wrong, err := newComparison(first, second, question).read(text)
	if err == nil && len(wrong) > 0 {
		err = problem("%s", strings.Join(atMost(wrong, 10), "; "))
	}
	if err != nil {
		return Pair{}, err
	}
	return p, nil
}

// PairwisePart reads an answer as Pairwise does, but omits the criteria whose verdict cannot be read. The overall verdict
// must be valid.
func PairwisePart(text, first, second string, question *eval.Pairwise) (Pair, error) {
	p, _, err := newComparison(first, second, question).read(text)
	return p, err
}

// comparison says what an answer about a pair may contain.
type comparison struct {
	allowed  []string // winners
	degrees  int
	criteria []string
}

func newComparison(first, second string, question *eval.Pairwise) comparison {
	c := comparison{allowed: []string{first, second}, degrees: question.Degrees}
	if question.Ties {
		c.allowed = append(c.allowed, eval.Tie)
	}
	for _, criterion := range question.Criteria {
		c.criteria = append(c.criteria, criterion.Name)
	}
	return c
}

// read returns the verdict, and what is wrong with those on criteria.
func (c comparison) read(text string) (p Pair, wrong []string, err error) {
	fields, err := answer(text, overall.winner)
	if err == nil && c.degrees > 0 {
		_, err = answer(text, overall.degree) // it has one value, too
	}
	if err != nil {
		return Pair{}, nil, err
	}
	if p.Preference, err = c.preference(fields, overall, ""); err != nil {
		return Pair{}, nil, err
	}
	if p.Reason, err = reasonOf(fields, "reason", ""); err != nil {
		return Pair{}, nil, err
	}
	if len(c.criteria) == 0 {
		return p, nil, nil
	}
	p.Criteria, wrong = c.byCriterion(text, fields)
	return p, wrong, nil
}

// byCriterion reads the verdicts on criteria, in the order of the question. Criteria without exactly one valid verdict
// are omitted, and wrong says why.
func (c comparison) byCriterion(text string, fields map[string]json.RawMessage) (read []Preference, wrong []string) {
	l := list{key: "criteria", field: "criterion", names: c.criteria}
	_, err := answer(text, l.key) // it has one value, too
	var entries []json.RawMessage
	if err == nil {
		entries, err = l.entries(fields)
	}
	if err != nil {
		return nil, []string{err.Error()}
	}

	found, valid, wrong := eachOnce(l, entries, func(fields map[string]json.RawMessage, name string) (Preference, error) {
		p, err := c.preference(fields, within, " of "+quote(name))
		p.Criterion = name
		return p, err
	})
	for at, ok := range valid {
		if ok {
			read = append(read, found[at])
		}
	}
	return read, wrong
}

// preference reads which document an object names as the better one, and by how much. where names the object in error
// messages.
func (c comparison) preference(fields map[string]json.RawMessage, key keys, where string) (p Preference, err error) {
	want := "it must be exactly one of " + quoteAll(c.allowed)
	said, ok := stringOf(fields[key.winner])
	if !ok {
		return p, problem("%s%s is %s, not a string; %s", key.winner, where, shorten(orNothing(fields[key.winner])), want)
	}
	if p.Winner, ok = match(said, c.allowed); !ok {
		return p, problem("%s%s is %s; %s", key.winner, where, shorten(quote(said)), want)
	}
	if c.degrees == 0 {
		return p, nil
	}

	words := eval.DegreeWords(c.degrees)
	if p.Winner == eval.Tie {
		words = []string{eval.Equal}
	}
	said, _ = stringOf(fields[key.degree])
	word := strings.TrimSpace(said)
	if !slices.Contains(words, word) {
		return p, problem("%s%s is %s; if %s is %s, it must be exactly one of %s", key.degree, where,
			shorten(orNothing(fields[key.degree])), key.winner, quote(p.Winner), quoteAll(words))
	}
	p.Degree = eval.DegreeOf(word, c.degrees)
	return p, nil
}
