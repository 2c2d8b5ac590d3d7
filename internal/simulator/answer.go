package simulator

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const tie = "tie"

// answer returns what a model says to a conversation. It is a verdict on two documents or scores
// for one, in JSON or in prose as requested, or such prose converted to JSON. For anything else, it
// is a sentence without meaning, in JSON if that is requested. Models that judge less reliably also write
// worse: they repeat themselves.
func answer(model string, messages []message, schema string) string {
	j, ok := judges[model]
	if !ok {
		j = judges[defaultJudge]
	}
	s := parsePrompt(messages)
	if schema == "" {
		schema = s.schema
	}
	a, say := parseSchema(schema), inJSON
	if schema == "" {
		a, say = s.inProse(), inProse
	}
	if j.obeys {
		if order, ok := s.ordered(a); ok {
			return say(a, order)
		}
	}

	switch {
	case a.winners != nil && s.answer != nil:
		return say(a, winnerSaid(*s.answer, a))
	case a.criteria != nil && s.answer != nil:
		return say(a, scoresSaid(*s.answer, a))
	case a.winners != nil && len(s.documents) == 2:
		return say(a, j.pairwise(model, s.documents[0], s.documents[1], a))
	case a.criteria != nil && len(s.documents) == 1:
		return say(a, j.single(model, s.documents[0], a))
	}

	words := 0
	for _, m := range messages {
		words += len(strings.Fields(m.Content))
	}
	prose := fmt.Sprintf(
		"This is a simulated answer. I was shown %d words and %d documents, and no verdict was asked that I know how to give.",
		words, len(s.documents),
	)
	if !s.wantsObject() {
		return prose + strings.Repeat(" This is a simulated answer.", judges[model].slips(model, messages))
	}
	if s.answer != nil {
		prose = *s.answer
	}
	return encode(map[string]string{"answer": prose})
}

// said is what a judge says: the winner of two documents, or the scores of one by criterion.
type said struct {
	winner, reason string
	scores         []score
}

type score struct {
	criterion string
	score     int
	reason    string
}

func (j judge) pairwise(model string, first, second document, a asked) said {
	for i, d := range [2]document{first, second} {
		if strings.Contains(d.id, model) {
			j.first += [2]float64{j.own, -j.own}[i]
		}
	}
	v := j.compare(model, first.text, second.text, slices.Contains(a.winners, tie))
	winner := tie
	if v.winner >= 0 {
		winner = [2]document{first, second}[v.winner].id
	}
	return said{winner: winner, reason: v.reason}
}

func (j judge) single(model string, d document, a asked) (s said) {
	for _, criterion := range a.criteria {
		points, reason := j.score(model, criterion, d.text, a.lowest, a.highest)
		s.scores = append(s.scores, score{criterion, points, reason})
	}
	return s
}

func inJSON(a asked, s said) string {
	if a.winners != nil {
		return encode(struct {
			Winner string `json:"winner_doc_id"`
			Reason string `json:"reason"`
		}{s.winner, s.reason})
	}
	evaluations := make([]map[string]any, len(s.scores))
	for i, one := range s.scores {
		evaluations[i] = map[string]any{a.criterionField: one.criterion, "score": one.score, a.reasonField: one.reason}
	}
	return encode(map[string]any{"evaluations": evaluations})
}

// inProse returns an answer as lines that winnerSaid and scoresSaid can read.
func inProse(a asked, s said) string {
	if a.winners != nil {
		return fmt.Sprintf("I have read both documents to their end.\n\nwinner_doc_id: %s\nreason: %s", s.winner, s.reason)
	}
	lines := []string{"I have read the document to its end.", ""}
	for _, one := range s.scores {
		lines = append(lines, fmt.Sprintf("%s: %d, because: %s", encode(one.criterion), one.score, one.reason))
	}
	return strings.Join(lines, "\n")
}

var (
	winnerIs = regexp.MustCompile(`(?m)^winner_doc_id: (.*)\nreason: (.*)$`)
	scoreIs  = regexp.MustCompile(`(?m)^("(?:[^"\\]|\\.)*"): (-?[0-9]{1,9}), because: (.*)$`)
)

// winnerSaid extracts a verdict from prose. Missing fields stay empty, except a winner, which a
// schema may require.
func winnerSaid(prose string, a asked) said {
	if found := winnerIs.FindStringSubmatch(prose); found != nil && slices.Contains(a.winners, found[1]) {
		return said{winner: found[1], reason: found[2]}
	}
	return said{winner: a.winners[0]}
}

func scoresSaid(prose string, a asked) (s said) {
	for _, criterion := range a.criteria {
		one := score{criterion: criterion, score: a.lowest}
		for _, found := range scoreIs.FindAllStringSubmatch(prose, -1) {
			if points, err := strconv.Atoi(found[2]); err == nil && found[1] == encode(criterion) {
				one.score, one.reason = points, found[3]
			}
		}
		s.scores = append(s.scores, one)
	}
	return s
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil { // cannot happen: none of our own values fails
		panic(fmt.Sprintf("simulator: encode answer: %v", err))
	}
	return string(raw)
}

var wrongID = strings.NewReplacer(
	`"winner_doc_id":"`, `"winner_doc_id":"document `,
	`"criterion":"`, `"criterion":"the `, `"criterion_id":"`, `"criterion_id":"the `)

// garble spoils an answer in one of the ways in which models do; chance selects it.
func garble(answer string, chance uint64) string {
	ways := []func(string) string{
		func(s string) string { return s[:len(s)/2] },
		func(s string) string {
			return "Here is my verdict:\n\n```json\n" + s + "\n```\n\nI hope that this helps."
		},
		wrongID.Replace,
		func(s string) string { return strings.ReplaceAll(s, `"reason":"`, `"because":"`) },
	}
	return ways[chance%uint64(len(ways))](answer)
}
