package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/answers"
)

// writtenPrompt is one entry of the key prompts.
type writtenPrompt struct {
	name, system, text string
	at                 place
}

// writtenPrompts reads the key prompts: a text, a list of texts, or texts by name. A text may also be a block with file,
// text and system.
func (s *draft) writtenPrompts(y *yamlFile, v value) []writtenPrompt {
	var all []writtenPrompt
	add := func(name string, v value) {
		p := writtenPrompt{name: name, at: v.place}
		s.writtenPrompt(y, v, &p)
		if strings.TrimSpace(p.text) == "" {
			s.refuse(v.place, "write a text such as \"Answer briefly: {{question}}\"", "the prompt is empty")
		}
		all = append(all, p)
	}

	switch {
	case isList(v.node):
		y.list(v, func(v value) { add(fmt.Sprintf("prompt %d", len(all)+1), v) })
	case isMapping(v.node):
		y.entries(v, func(name string, v value) {
			if !nameable(name) || name == "" {
				y.unnameable(v.key, name, "cannot be the name of a prompt")
			}
			add(name, v)
		})
	default:
		add("prompt", v)
	}
	if len(all) == 0 {
		s.refuse(v.place, "add a text such as \"Answer briefly: {{question}}\"", "there are no prompts")
	}
	return all
}

// writtenPrompt reads the texts of a prompt.
func (s *draft) writtenPrompt(y *yamlFile, v value, p *writtenPrompt) {
	if !isMapping(v.node) {
		p.text = y.text(v)
		return
	}
	written := ""
	once := func(v value) bool {
		if written != "" {
			y.refuse(v.key, "remove one of them", "the prompt has %s, too", written)
		}
		before := written
		written = v.key.path
		return before == ""
	}

	y.mapping(v, keys{
		"system": func(v value) { p.system = y.text(v) },
		"text": func(v value) {
			if once(v) {
				p.text = y.text(v)
			}
		},
		"file": func(v value) {
			path, ok := s.pathOf(y, v)
			if !once(v) || !ok {
				return
			}
			if text, ok := s.textAt(v.place, path, maxText); ok {
				p.text = strings.TrimRight(string(text), "\r\n")
			}
		},
	})
}

// variable matches a variable of a prompt, such as {{question}}.
var variable = regexp.MustCompile(`\{\{\s*([^{}\s](?:[^{}]*[^{}\s])?)\s*\}\}`)

// about returns the row of the prompt about an item. It reports a variable that the item does not have.
func (p writtenPrompt) about(s *draft, item promptItem) (row string, ok bool) {
	ok = true
	fill := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(found string) string {
			name := variable.FindStringSubmatch(found)[1]
			value, has := item.values[name]
			switch {
			case has:
			case name == referenceKey:
				s.refuse(p.at, "remove it from the prompt; judges see it", "{{%s}} would show the right answer to the model", name)
			default:
				s.refuse(p.at, didYouMean(name, slices.Collect(maps.Keys(item.values))), "{{%s}}: item %q (%s) has no such field",
					name, item.id, item.at)
			}
			ok = ok && has
			return value
		})
	}

	written := map[string]any{"prompt": fill(p.text)}
	if p.system != "" {
		written["prompt"] = []map[string]string{
			{"role": "system", "content": fill(p.system)}, {"role": "user", "content": fill(p.text)},
		}
	}
	raw, err := json.Marshal(written)
	return string(raw), ok && err == nil
}

// promptItem is a question, or a row of data, that prompts are filled in with.
type promptItem struct {
	id string
	facts
	values map[string]string // by the name of a variable
	at     place
}

// referenceKey is the field with an item's reference answer.
const referenceKey = "reference"

// promptItems reads the key items of a file with prompts: a file of rows, or a list of questions or rows.
func (s *draft) promptItems(y *yamlFile, v value) []promptItem {
	var all []promptItem
	seen := map[string]place{}
	take := func(shape *answers.Shape, reader *answers.Reader) func(place, answers.Row) {
		return func(at place, row answers.Row) {
			item, ok := s.promptItem(at, shape, reader, row)
			if !ok {
				return
			}
			if before, twice := seen[item.id]; twice {
				s.refuse(at, "give each item its own id: {\"item\": …}", "a second item %q, the first is %s", item.id, before)
				return
			}
			seen[item.id] = at
			all = append(all, item)
		}
	}

	before := len(s.problems)
	if isList(v.node) {
		add, budget := take(answers.PlainItems, answers.NewReader(answers.PlainItems, "", nameable)), maxOverrides*maxOverrides
		y.list(v, func(v value) {
			if isMapping(v.node) {
				values, _ := y.free(v, &budget).(map[string]any)
				add(v.place, answers.Row{Values: values})
				return
			}
			add(v.place, answers.Row{Values: map[string]any{"question": y.text(v)}})
		})
	} else if path, ok := s.pathOf(y, v); ok {
		shape := answersAt(path)
		if shape == nil || !shape.Questions {
			shape = answers.PlainItems
		}
		s.rows(path, shape, take(shape, answers.NewReader(shape, slashes(path), nameable)))
	}
	if len(all) == 0 && len(s.problems) == before {
		s.refuse(v.place, "add questions", "there are no items")
	}
	return all
}

// promptItem returns the item of a row. An item that has no id is known by its question, or by all of its fields.
func (s *draft) promptItem(at place, shape *answers.Shape, reader *answers.Reader, row answers.Row) (item promptItem, ok bool) {
	taken, _, faults := reader.Take(row)
	for _, fault := range faults {
		s.fault(at, fault, row, false)
	}
	if len(faults) > 0 || len(taken) == 0 {
		return item, false
	}
	set := s.newDocumentSet()
	a := answerFiles{set: &set}
	item = promptItem{at: at, values: map[string]string{}}
	for _, name := range row.Names() {
		if row.Values[name] == nil || name == referenceKey {
			continue
		}
		item.values[name] = factText(row.Values[name])
		if !slices.Contains([]string{"item", "id", "question", "category"}, name) {
			path, _ := answers.ParsePath(name) // a name that is no path is a name
			a.further = append(a.further, &field{name: name, path: path})
		}
	}
	if len(a.further) > maxFields {
		s.refuse(at, "", "the item has %d further fields: at most %d are read", len(a.further), maxFields)
		return item, false
	}

	found := foundAnswer{Answer: taken[0], shape: shape, at: at}
	if !a.takeFacts(&found, row) {
		return item, false
	}
	item.facts, item.id = found.facts, found.Item
	if item.question == "" {
		item.question = shownFields(a.further, found.fields)
	} else {
		item.values["question"] = item.question
	}
	if own := row.Values["id"]; item.id == "" && own != nil {
		item.id = factText(own)
	}
	if item.id == "" {
		item.id = eval.QuestionID(item.question)
	}
	if !nameable(item.id) {
		s.unnameable(at, item.id, "cannot be an id")
		return item, false
	}
	return item, true
}

// shownFields returns what judges see of an item without a question: its fields, one a line, without a rubric and its
// points.
func shownFields(of []*field, values map[string]string) string {
	var lines []string
	for _, f := range of {
		if slices.Contains(rubricFields, f.name) {
			continue
		}
		lines = append(lines, f.name+": "+values[f.name])
	}
	return strings.Join(lines, "\n")
}
