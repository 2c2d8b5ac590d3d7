package simulator

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a judge says if neither of two texts is better.
const (
	tie   = "tie"
	equal = "equal"
)

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

	words, pictures := 0, ""
	for _, m := range messages {
		words += len(strings.Fields(pictureLine.ReplaceAllString(m.Content, "")))
		for _, shown := range pictureLine.FindAllStringSubmatch(m.Content, -1) {
			pictures += fmt.Sprintf(", a picture of %s×%s pixels (%s)", shown[2], shown[3], shown[1])
		}
	}
	prose := fmt.Sprintf(
		"This is a simulated answer. I was shown %d words%s and %d documents, and no verdict was asked that I know how to give.",
		words, pictures, len(s.documents),
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
	winner, degree, reason string
	by                     []preference
	scores                 []score
}

// preference is the winner of two documents by one criterion.
type preference struct{ criterion, winner, degree string }

type score struct {
	criterion string
	score     int
	reason    string
}

func (j judge) pairwise(model string, first, second document, a asked) (s said) {
	for i, d := range [2]document{first, second} {
		if strings.Contains(d.id, model) {
			j.first += [2]float64{j.own, -j.own}[i]
		}
	}
	say := func(criterion string) (winner, degree, reason string) {
		v := j.compare(model, criterion, first.text, second.text, slices.Contains(a.winners, tie))
		if v.winner < 0 {
			return tie, a.degreeOf(v), v.reason
		}
		return [2]document{first, second}[v.winner].id, a.degreeOf(v), v.reason
	}
	for _, criterion := range a.criteria {
		winner, degree, _ := say(criterion)
		s.by = append(s.by, preference{criterion, winner, degree})
	}
	s.winner, s.degree, s.reason = say("")
	return s
}

// clearly is the difference in quality that a judge calls much better, if there are two degrees.
const clearly = 15.0

// degreeOf returns the name of the degree of a verdict; empty if none is requested.
func (a asked) degreeOf(v verdict) string {
	switch {
	case a.degrees == nil:
		return ""
	case v.winner < 0:
		return equal
	}
	steps := float64(len(a.degrees)) / 2
	return a.degrees[min(int(v.by/clearly*steps), len(a.degrees)-1)]
}

func (j judge) single(model string, d document, a asked) (s said) {
	for _, criterion := range a.criteria {
		one := score{criterion: criterion}
		if a.met {
			one.score, one.reason = j.meets(model, criterion, d.text)
		} else {
			one.score, one.reason = j.score(model, criterion, d.text, a.lowest, a.highest)
		}
		s.scores = append(s.scores, one)
	}
	return s
}

func inJSON(a asked, s said) string {
	if a.winners != nil {
		var by []map[string]string
		for _, one := range s.by {
			entry := map[string]string{"criterion": one.criterion, "better": one.winner}
			if a.degrees != nil {
				entry["by_degree"] = one.degree
			}
			by = append(by, entry)
		}
		return encode(struct {
			Criteria []map[string]string `json:"criteria,omitempty"`
			Winner   string              `json:"winner_doc_id"`
			Degree   string              `json:"degree,omitempty"`
			Reason   string              `json:"reason"`
		}{by, s.winner, s.degree, s.reason})
	}

	evaluations := make([]map[string]any, len(s.scores))
	for i, one := range s.scores {
		evaluations[i] = map[string]any{a.criterionField: one.criterion, a.reasonField: one.reason}
		if a.met {
			evaluations[i]["met"] = one.score == 1
		} else {
			evaluations[i]["score"] = one.score
		}
	}
	return encode(map[string]any{"evaluations": evaluations})
}

// inProse returns an answer as lines that winnerSaid and scoresSaid can read.
func inProse(a asked, s said) string {
	if a.winners != nil {
		lines := []string{"I have read both documents to their end.", ""}
		for _, one := range s.by {
			lines = append(lines, fmt.Sprintf("%s: %s, by degree: %s", encode(one.criterion), encode(one.winner), one.degree))
		}
		lines = append(lines, "winner_doc_id: "+s.winner)
		if a.degrees != nil {
			lines = append(lines, "degree: "+s.degree)
		}
		return strings.Join(append(lines, "reason: "+s.reason), "\n")
	}
	lines := []string{"I have read the document to its end.", ""}
	for _, one := range s.scores {
		lines = append(lines, fmt.Sprintf("%s: %d, because: %s", encode(one.criterion), one.score, one.reason))
	}
	return strings.Join(lines, "\n")
}

var (
	winnerIs = regexp.MustCompile(`(?m)^winner_doc_id: (.*)\n(?:degree: (.*)\n)?reason: (.*)$`)
	betterIs = regexp.MustCompile(`(?m)^("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"), by degree: (.*)$`)
	scoreIs  = regexp.MustCompile(`(?m)^("(?:[^"\\]|\\.)*"): (-?[0-9]{1,9}), because: (.*)$`)
)

// winnerSaid extracts a verdict from prose. Missing fields stay empty, except a winner, which a
// schema may require.
func winnerSaid(prose string, a asked) said {
	found := winnerIs.FindStringSubmatch(prose)
	if found == nil || !slices.Contains(a.winners, found[1]) {
		return said{winner: a.winners[0]}
	}
	s := said{winner: found[1], degree: found[2], reason: found[3]}
	for _, one := range betterIs.FindAllStringSubmatch(prose, -1) {
		s.by = append(s.by, preference{decode(one[1]), decode(one[2]), one[3]})
	}
	return s
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

// decode returns the text of a JSON string that encode may have written; empty if it is none.
func decode(raw string) (text string) {
	if json.Unmarshal([]byte(raw), &text) != nil {
		return ""
	}
	return text
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
