package verdict

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Token is a part of an answer with its log probability, and the most probable tokens at its place.
type Token struct {
	Alternative
	Top []Alternative // the token itself may be among them
}

// Alternative is a token that the judge could say, with its natural log probability.
type Alternative struct {
	Text    string
	LogProb float64 // NaN: not known
}

const (
	// leastOnLabels is the probability that the possible verdicts must have together where the verdict is decided. With
	// less, the judge was about to say something else.
	leastOnLabels = 0.5
	// mostMissed is the probability that tokens which are not listed may have, if one of them could be a verdict's.
	mostMissed = 0.01
	// rounding is by how much probabilities may exceed 1.
	rounding = 1e-3
)

// winnerKey matches what comes before the name of the winner.
var winnerKey = regexp.MustCompile(`"` + winnerField + `"\s*:\s*"`)

const winnerField = "winner_doc_id"

// Soft returns how probable each possible verdict was where an answer names the winner. text is the answer that Pairwise
// read as said; tokens make it up, with or without more around it. ok is false if they do not tell: the tokens are not
// those of the text, the winner is named at no place or at several, or too much of the probability is of tokens that are
// not listed, or begin no verdict.
//
// alpaca_eval's weighted preference is the same with two verdicts of one token each (its logprob_parser).
func Soft(text string, tokens []Token, first, second string, question *eval.Pairwise, said Pair) (chances eval.Chances, ok bool) {
	var all strings.Builder
	for _, token := range tokens {
		all.WriteString(token.Text)
	}
	text = strings.TrimSpace(text)
	from := strings.LastIndex(all.String(), text)
	if from < 0 || text == "" {
		return chances, false
	}
	named := winnerKey.FindAllStringIndex(text, 2)
	if len(named) != 1 {
		return chances, false
	}

	names := newComparison(first, second, question).allowed
	labels := make([]string, len(names))
	for k, name := range names {
		labels[k] = strings.TrimPrefix(quote(name), `"`) // with the quote at its end
	}
	won := slices.Index(names, said.Winner)
	if won < 0 || !strings.HasPrefix(text[named[0][1]:], labels[won]) {
		return chances, false
	}
	p, ok := spread(tokens, from+named[0][1], labels, won)
	if !ok {
		return chances, false
	}
	chances = eval.Chances{First: p[0], Second: p[1]}
	if len(p) > 2 {
		chances.Tie = p[2]
	}
	return chances, true
}

// spread returns the probability of each label, normalised over them, where an answer made up of tokens says the label at
// position won, from an offset on. Each label must be the whole of what is said, with what ends it: none is the beginning
// of another. Labels of several tokens are followed: at each token until one label is left, the alternatives that go on
// with a label alone have its probability, and those that several labels share go on.
func spread(tokens []Token, at int, labels []string, won int) (p []float64, ok bool) {
	p = make([]float64, len(labels))
	path, missed := 1.0, 0.0 // probability of what is said so far, and of what may be labels that are not listed
	offset, left := 0, make([]bool, len(labels))
	for k := range left {
		left[k] = true
	}

	for _, token := range tokens {
		start := offset
		offset += len(token.Text)
		if offset <= at {
			continue
		}
		lead, before := "", 0
		if start < at {
			lead = token.Text[:at-start]
		} else {
			before = start - at
		}
		if before >= len(labels[won]) {
			return nil, false // which a label that is said, and not the beginning of another, excludes
		}

		listed, ok := alternatives(token)
		if !ok {
			return nil, false
		}
		step := place{labels: labels, left: left, lead: lead, before: before}
		decided, more := step.add(listed, token.Text, path, p)
		missed += path * more
		if decided {
			p[won] += path * listed[token.Text]
			break
		}
		path *= listed[token.Text]
		step.keep(token.Text)
	}
	return normalised(p, missed)
}

// normalised divides the probabilities of labels by their sum, unless they or what is missing do not allow it.
func normalised(p []float64, missed float64) ([]float64, bool) {
	sum := 0.0
	for _, one := range p {
		sum += one
	}
	if !(sum >= leastOnLabels) || sum > 1+rounding || missed > mostMissed {
		return nil, false
	}
	for k := range p {
		p[k] /= sum
	}
	return p, true
}

// alternatives returns the probabilities of a token and of those listed beside it, each text once. ok is false if one is
// no probability, or their sum is above 1.
func alternatives(token Token) (listed map[string]float64, ok bool) {
	listed = map[string]float64{}
	for _, one := range append([]Alternative{token.Alternative}, token.Top...) {
		q := math.Exp(one.LogProb)
		if !(q <= 1+rounding) { // also refuses NaN
			return nil, false
		}
		listed[one.Text] = max(listed[one.Text], min(q, 1))
	}
	sum := 0.0
	for _, q := range listed {
		sum += q
	}
	return listed, sum <= 1+rounding
}

// place is a place in an answer where labels can go on.
type place struct {
	labels []string
	left   []bool // labels that what is said so far begins
	lead   string // what of the token comes before the label
	before int    // bytes of the label that are said before the token
}

// rest returns what a token says of the label, if it says the same before it. White space before a label changes nothing,
// as for Pairwise.
func (s place) rest(text string) (rest string, ok bool) {
	if s.before > 0 {
		return text, true
	}
	text, ok = strings.CutPrefix(strings.TrimLeft(text, " \t\n"), strings.TrimLeft(s.lead, " \t\n"))
	return strings.TrimLeft(text, " \t\n"), ok
}

// goesOn returns the labels with which a token may go on.
func (s place) goesOn(text string) (with []int) {
	rest, ok := s.rest(text)
	if !ok {
		return nil
	}
	for k, label := range s.labels {
		if !s.left[k] {
			continue
		}
		if more := label[s.before:]; strings.HasPrefix(more, rest) || strings.HasPrefix(rest, more) {
			with = append(with, k)
		}
	}
	return with
}

// add adds the probabilities of tokens that continue one label alone to p, times that of the text before; those of
// the token that is said are left to the caller. decided reports whether it has one label alone. missed is what may belong
// to labels and is not known: tokens that are not listed, if a label that is left has none, and tokens that several labels
// share and that were not said.
func (s place) add(listed map[string]float64, said string, path float64, p []float64) (decided bool, missed float64) {
	unlisted, met := 1.0, make([]bool, len(s.labels))
	for text, q := range listed {
		unlisted -= q
		with := s.goesOn(text)
		for _, k := range with {
			met[k] = true
		}
		switch {
		case text == said:
			decided = len(with) == 1
		case len(with) == 1:
			p[with[0]] += path * q
		case len(with) > 1:
			missed += q
		}
	}
	for k, left := range s.left {
		if left && !met[k] {
			return decided, missed + max(unlisted, 0)
		}
	}
	return decided, missed
}

// keep drops the labels that do not begin with what has been said, up to and including a token.
func (s place) keep(said string) {
	with := s.goesOn(said)
	for k := range s.left {
		s.left[k] = s.left[k] && slices.Contains(with, k)
	}
}
