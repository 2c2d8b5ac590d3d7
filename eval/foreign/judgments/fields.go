package judgments

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// The names that fields have in different tools, the most specific first.
var (
	pairNames = [][2]string{
		{"model_a", "model_b"}, {"candidate_a", "candidate_b"}, {"model_1", "model_2"}, {"candidate_1", "candidate_2"},
		{"generator_1", "generator_2"}, {"model1", "model2"}, {"system_a", "system_b"}, {"player_a", "player_b"},
	}
	winnerNames   = []string{"winner", "winner_doc_id", "preference", "preferred", "verdict", "vote", "choice"}
	itemNames     = []string{"item", "question_id", "prompt_id", "item_id", "instruction_id", "uid"}
	questionNames = []string{"question", "prompt", "instruction"}
	judgeNames    = []string{"judge", "annotator", "judge_name", "judge_id", "rater", "evaluator"}
	reasonNames   = []string{"reason", "explanation", "rationale", "judgment", "comment"}
	timeNames     = []string{"timestamp", "tstamp", "created_at"}
	categoryNames = []string{"category", "categories"}
	textNames     = [][2]string{
		{"response_a", "response_b"}, {"output_1", "output_2"}, {"output_a", "output_b"}, {"answer_a", "answer_b"},
		{"text_a", "text_b"}, {"conversation_a", "conversation_b"},
	}
)

// Bare reports whether a row says nothing but who won and who judged, in which category: many different verdicts are then
// the same row. Otherwise a field such as a reason, a time or a session tells rows apart.
func (row Row) Bare() bool {
	first, second, _ := pairOf(row)
	says := slices.Concat(winnerNames, judgeNames, categoryNames, []string{first, second, "language", "turn"})
	for name, value := range row {
		if value != nil && !slices.Contains(says, name) && !strings.HasPrefix(name, "winner_") {
			return false
		}
	}
	return true
}

// pairOf returns the names of the fields with the two candidates.
func pairOf(row Row) (first, second string, ok bool) {
	for _, names := range pairNames {
		if row[names[0]] != nil && row[names[1]] != nil {
			return names[0], names[1], true
		}
	}
	return "", "", false
}

// winnerOf returns the name of the field with the winner; empty if there is none.
func winnerOf(row Row) string {
	for _, name := range winnerNames {
		if row[name] != nil {
			return name
		}
	}
	if row["winner_model_a"] != nil && row["winner_model_b"] != nil {
		return "winner_model_a"
	}
	return ""
}

// text returns a field that is a text or a number; empty if it is absent, null or something else.
func (row Row) text(name string) string {
	text, _ := plain(row[name])
	return text
}

// first returns the first of several fields that has a text.
func (row Row) first(names []string) string {
	for _, name := range names {
		if text := row.text(name); text != "" {
			return text
		}
	}
	return ""
}

// plain returns a text, a number or a truth value as text; ok is false for other values and for none.
func plain(raw json.RawMessage) (text string, ok bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		return text, json.Unmarshal(raw, &text) == nil
	case 'n', '[', '{':
		return "", false
	}
	return string(raw), true
}

// judge returns the name of the judge. MT-bench writes a list of a model and a prompt's name.
func (row Row) judge() string {
	for _, name := range judgeNames {
		raw := bytes.TrimSpace(row[name])
		if len(raw) > 0 && raw[0] == '[' {
			var parts []json.RawMessage
			if json.Unmarshal(raw, &parts) != nil {
				continue
			}
			var words []string
			for _, part := range parts {
				if word, ok := plain(part); ok && word != "" {
					words = append(words, word)
				}
			}
			if len(words) > 0 {
				return strings.Join(words, " ")
			}
			continue
		}

		if text, ok := plain(raw); ok && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// reason returns why the judge decided so.
func (row Row) reason() string { return row.first(reasonNames) }

// at returns when the verdict was given; the zero time if the row does not tell.
func (row Row) at() time.Time {
	for _, name := range timeNames {
		if at := timeOf(row.text(name)); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// timeOf reads seconds since 1970, or a date with a time.
func timeOf(text string) time.Time {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		const latest = 4102444800 // the year 2100
		if seconds > latest {     // milliseconds
			seconds /= 1000
		}
		if !(seconds > 0 && seconds <= latest) {
			return time.Time{}
		}
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(part*1e3)*1e6).UTC()
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// categories returns the categories of the question.
func (row Row) categories() (all []string) {
	for _, name := range categoryNames {
		var list []string
		if raw := row[name]; len(raw) > 0 && raw[0] == '[' {
			_ = json.Unmarshal(raw, &list)
		} else if text := row.text(name); text != "" {
			list = strings.Split(text, ";")
		}
		for _, one := range list {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ask fills in the question of a row: its id, its text and its categories. Without an id, equal texts are one item.
func (r *Read) ask(row Row) {
	r.Item, r.Question, r.Categories = row.first(itemNames), row.first(questionNames), row.categories()
	if r.Question == "" {
		r.Question = asked(row["conversation_a"])
	}
	if r.Item == "" && r.Question != "" {
		r.Item = eval.QuestionID(r.Question)
	}
}

// answer fills in the texts that were compared.
func (r *Read) answer(row Row) {
	for _, names := range textNames {
		if row[names[0]] == nil || row[names[1]] == nil {
			continue
		}
		for k, name := range names {
			if text, ok := answered(row[name]); ok {
				r.Texts[k] = &text
			}
		}
		return
	}
}

// message is one message of a conversation.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (m message) text() string {
	text, _ := plain(m.Content)
	return text
}

func conversation(raw json.RawMessage) (messages []message) {
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &messages) != nil {
		return nil
	}
	return messages
}

// asked returns the first message of a conversation; empty if the value is none.
func asked(raw json.RawMessage) string {
	if messages := conversation(raw); len(messages) > 0 && messages[0].Role == "user" {
		return messages[0].text()
	}
	return ""
}

// answered returns the text of an answer, which may be a conversation: the only answer in it, or all messages after
// the first.
func answered(raw json.RawMessage) (string, bool) {
	messages := conversation(raw)
	if len(messages) == 0 {
		return plain(raw)
	}
	if len(messages) == 2 {
		return messages[1].text(), true
	}
	var all []string
	for _, m := range messages[1:] {
		all = append(all, m.Role+": "+m.text())
	}
	return strings.Join(all, "\n\n"), true
}
