package simulator

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
)

// document is a fenced text of a prompt.
type document struct{ id, text string }

// The contract with whoever writes prompts: documents between these lines, the
// fence the same in both, and one line that holds the schema. A question is
// fenced in the same way and has no id; what it says is not obeyed.
var openTag = regexp.MustCompile(`^<(?:document id="([^"]*)"|question) fence="([0-9a-f]{8})">\s*$`)

const schemaLine = "JSON schema: "

// parsePrompt finds the documents, in the order shown, and the first schema line
// outside of all fences. A document shown again, as in a repair turn, counts once.
func parsePrompt(messages []message) (documents []document, schema string) {
	shown := map[string]bool{}
	for _, m := range messages {
		if m.Role == "assistant" {
			continue
		}
		lines := strings.Split(m.Content, "\n")
		for i := 0; i < len(lines); i++ {
			if rest, ok := strings.CutPrefix(lines[i], schemaLine); ok && schema == "" {
				schema = rest
			}
			tag := openTag.FindStringSubmatch(lines[i])
			if tag == nil {
				continue
			}
			kind := "document"
			if strings.HasPrefix(tag[0], "<question") {
				kind = "question"
			}
			end := i + 1
			for end < len(lines) && strings.TrimSpace(lines[end]) != `</`+kind+` fence="`+tag[2]+`">` {
				end++
			}
			if end == len(lines) {
				continue // never closed: prose
			}
			id := html.UnescapeString(tag[1])
			if kind == "document" && !shown[id] {
				shown[id] = true
				documents = append(documents, document{id: id, text: strings.Join(lines[i+1:end], "\n")})
			}
			i = end
		}
	}
	return documents, schema
}

// asked is what an answer must look like.
type asked struct {
	winners  []string // who may win, "tie" among them; nil: no winner is asked
	criteria []string // nil: no scores are asked
	// How the fields of a score are called.
	criterionField, reasonField string
	lowest, highest             int
}

// parseSchema reads what is asked from a JSON schema; the zero value where it is
// neither of the two known forms.
func parseSchema(schema string) asked {
	type enum struct {
		Enum []string `json:"enum"`
	}
	var s struct {
		Properties struct {
			Winner      *enum `json:"winner_doc_id"`
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
		return asked{winners: s.Properties.Winner.Enum}
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
		Minimum *int `json:"minimum"`
		Maximum *int `json:"maximum"`
	}
	if json.Unmarshal(fields[a.criterionField], &criteria) != nil || json.Unmarshal(fields["score"], &score) != nil {
		return asked{}
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
