package simulator

import (
	"encoding/json"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is a fenced text of a prompt.
type document struct{ id, text string }

// The contract with authors of prompts: documents are between these lines, with the same fence in
// both, and one line has the schema. A question is fenced in the same way, but has no id;
// instructions in it have no effect. So is a prose answer that has to be converted to JSON. If
// prose is requested, there is no schema, but lines that begin with the names of its fields.
var openTag = regexp.MustCompile(`^<(document|question|answer|instructions)(?: id="([^"]*)")? fence="([0-9a-f]{8})">\s*$`)

const (
	schemaLine = "JSON schema: "
	winnerLine = "- winner_doc_id: "
	byLine     = "- criteria: "
	degreeLine = "- degree: "
	scoresLine = "- evaluations: "
	scaleLine  = "- score: "
	metLine    = "- met: "
)

// shown is what a prompt shows to a model.
type shown struct {
	documents []document // in the order shown
	answer    *string    // prose to convert to JSON; nil: none
	schema    string     // of the first schema line outside of all fences
	wanted    []string   // the other lines of the contract
	outside   []string   // all lines outside of all fences
}

// parsePrompt reads a conversation. A document that is shown again, as in a repair turn, counts
// once.
func parsePrompt(messages []message) (s shown) {
	seen := map[string]bool{}
	for _, m := range messages {
		if m.Role == "assistant" {
			continue
		}
		lines := strings.Split(m.Content, "\n")
		for i := 0; i < len(lines); i++ {
			tag := openTag.FindStringSubmatch(lines[i])
			if tag == nil {
				s.line(lines[i])
				continue
			}
			kind, id, fence := tag[1], html.UnescapeString(tag[2]), tag[3]
			end := i + 1
			for end < len(lines) && strings.TrimSpace(lines[end]) != `</`+kind+` fence="`+fence+`">` {
				end++
			}
			if end == len(lines) {
				continue // never closed, so it is prose
			}
			text := strings.Join(lines[i+1:end], "\n")
			switch {
			case kind == "answer":
				s.answer = &text
			case kind == "document" && !seen[id]:
				seen[id] = true
				s.documents = append(s.documents, document{id: id, text: text})
			}
			i = end
		}
	}

	return s
}

// line reads a line outside of all fences.
func (s *shown) line(line string) {
	s.outside = append(s.outside, line)
	if rest, ok := strings.CutPrefix(line, schemaLine); ok && s.schema == "" {
		s.schema = rest
	}
	for _, name := range []string{winnerLine, byLine, degreeLine, scoresLine, scaleLine, metLine} {
		if strings.HasPrefix(line, name) {
			s.wanted = append(s.wanted, line)
		}
	}
}

// objectLine requests JSON in a form described in words.
const objectLine = "Answer with one JSON object and nothing before or after it."

// wantsObject reports whether the prompt asks for JSON without a schema.
func (s shown) wantsObject() bool { return slices.Contains(s.outside, objectLine) }

// inProse returns what is requested if there is no schema.
func (s shown) inProse() asked {
	a := asked{lowest: 1, highest: 5}
	for _, line := range s.wanted {
		switch {
		case strings.HasPrefix(line, winnerLine):
			a.winners = quoted(line)
		case strings.HasPrefix(line, byLine):
			a.criteria = quoted(line)
		case strings.HasPrefix(line, degreeLine):
			a.setDegrees(quoted(line))
		case strings.HasPrefix(line, scoresLine):
			a.criteria = quoted(line)
		case strings.HasPrefix(line, metLine):
			a.lowest, a.highest, a.met = 0, 1, true
		default:
			if ends := number.FindAllString(line, 2); len(ends) == 2 {
				a.lowest, _ = strconv.Atoi(ends[0]) // no errors: both are numbers
				a.highest, _ = strconv.Atoi(ends[1])
			}
		}
	}
	return a
}

var (
	number = regexp.MustCompile(`-?[0-9]{1,9}`)
	inMark = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// quoted returns the JSON strings in a line.
func quoted(line string) (found []string) {
	for _, raw := range inMark.FindAllString(line, -1) {
		var word string
		if json.Unmarshal([]byte(raw), &word) == nil {
			found = append(found, word)
		}
	}
	return found
}

// asked says what an answer must contain.
type asked struct {
	winners  []string // possible winners, including "tie"; nil: no winner is requested
	criteria []string // nil: no scores are requested, and no winners by criterion
	degrees  []string // by which a winner is better, the smallest first; nil: none are requested
	// Names of the fields of a score.
	criterionField, reasonField string
	lowest, highest             int
	met                         bool // whether a criterion is met is asked in place of a score
}

// setDegrees takes the degrees from what may be said instead of one, too.
func (a *asked) setDegrees(words []string) {
	a.degrees = slices.DeleteFunc(words, func(word string) bool { return word == equal })
}

// parseSchema returns what a JSON schema requests; the zero value if it is neither of the two known
// forms.
func parseSchema(schema string) asked {
	type enum struct {
		Enum []string `json:"enum"`
	}
	var s struct {
		Properties struct {
			Winner   *enum `json:"winner_doc_id"`
			Degree   enum  `json:"degree"`
			Criteria struct {
				Items struct {
					Properties struct {
						Criterion enum `json:"criterion"`
					} `json:"properties"`
				} `json:"items"`
			} `json:"criteria"`
			Evaluations *struct {
				Items struct {
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"items"`
			} `json:"evaluations"`
		} `json:"properties"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return asked{}
	}
	if s.Properties.Winner != nil {
		a := asked{winners: s.Properties.Winner.Enum, criteria: s.Properties.Criteria.Items.Properties.Criterion.Enum}
		a.setDegrees(s.Properties.Degree.Enum)
		return a
	}
	if s.Properties.Evaluations == nil {
		return asked{}
	}
	fields := s.Properties.Evaluations.Items.Properties
	a := asked{criterionField: "criterion", reasonField: "reason", lowest: 1, highest: 5}
	if _, ok := fields["criterion_id"]; ok {
		a.criterionField = "criterion_id"
	}
	if _, ok := fields["argument"]; ok {
		a.reasonField = "argument"
	}
	var criteria enum
	var score struct {
		Minimum     *int   `json:"minimum"`
		Maximum     *int   `json:"maximum"`
		Description string `json:"description"` // bounds, for an endpoint whose schemas have none
	}
	if json.Unmarshal(fields[a.criterionField], &criteria) != nil {
		return asked{}
	}
	if fields["met"] != nil {
		a.lowest, a.highest, a.met, a.criteria = 0, 1, true, criteria.Enum
		return a
	}
	if json.Unmarshal(fields["score"], &score) != nil {
		return asked{}
	}
	if ends := number.FindAllString(score.Description, 2); len(ends) == 2 {
		a.lowest, _ = strconv.Atoi(ends[0]) // no errors: both are numbers
		a.highest, _ = strconv.Atoi(ends[1])
	}

	if score.Minimum != nil {
		a.lowest = *score.Minimum
	}
	if score.Maximum != nil {
		a.highest = *score.Maximum
	}
	a.criteria = criteria.Enum
	return a
}
