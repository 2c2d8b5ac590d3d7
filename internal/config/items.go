package config

import (
	"encoding/json"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// Bounds on facts about items.
const (
	maxCategories = 20 // of an item
	maxFields     = 50
)

// facts holds what is known about an item, apart from its name.
type facts struct {
	question, reference string
	categories          []string
	fields              map[string]string
	loose               bool // another wording of the question is no contradiction
}

// merge adds facts to an item. It reports facts that contradict those from another place.
func (set *documentSet) merge(item *eval.Item, f facts, at place) {
	s := set.draft
	same := func(what, had, has string) (text string) {
		key := [2]string{item.ID, what}
		switch {
		case has == "":
			return had
		case had == "":
			set.asked[key] = at
			return has
		case had != has && f.loose:
			set.reworded++
		case had != has:
			s.refuse(
				at, "put documents of different questions into different items", "item %q has another %s here than in %s", item.ID,
				what, set.asked[key],
			)
		}
		return had
	}
	item.Question = same("question", item.Question, f.question)
	item.Reference = same("reference", item.Reference, f.reference)
	if len(f.categories) > 0 {
		had, _ := json.Marshal(item.Categories) // strings
		has, _ := json.Marshal(f.categories)
		if len(item.Categories) == 0 {
			had = nil
		}
		same("category", string(had), string(has))
		item.Categories = f.categories
	}

	for name, text := range f.fields {
		if item.Facts == nil {
			item.Facts = map[string]string{}
		}
		item.Facts[name] = same("field "+name, item.Facts[name], text)
	}
}

// categories reads one category or a list of them.
func (s *draft) categories(at place, name string, given any) (categories []string, ok bool) {
	list, several := given.([]any)
	if !several {
		list = []any{given}
	}
	at.path = name
	for _, one := range list {
		text, isText := one.(string)
		if number, isNumber := one.(json.Number); isNumber {
			text, isText = number.String(), true
		}
		switch {
		case !isText:
			s.refuse(at, "want a text, or a list of texts", "the value is not a category")
			return nil, false
		case !nameable(text):
			s.unnameable(at, text, "cannot be a category")
			return nil, false
		case text != "":
			categories = append(categories, text)
		}
	}

	slices.Sort(categories)
	categories = slices.Compact(categories)
	if len(categories) > maxCategories {
		s.refuse(at, "", "an item has %d categories: at most %d are read", len(categories), maxCategories)
		return nil, false
	}
	return categories, true
}

// factText returns a field's value as text: a string unchanged, anything else as JSON.
func factText(given any) string {
	if text, ok := given.(string); ok {
		return text
	}
	raw, err := json.Marshal(given)
	if err != nil { // cannot happen: it was read from JSON
		return ""
	}
	return string(raw)
}

// itemsFile reads the file of items that v names: JSON objects with item, question,
// reference, category and any further fields.
func (s *draft) itemsFile(y *yamlFile, v value, set documentSet) {
	path, ok := s.pathOf(y, v)
	if !ok || len(s.asked.Documents) == 0 {
		return
	}
	shape := answersAt(path)
	if shape == nil || !shape.Questions {
		shape = answers.PlainItems
	}
	reader := answers.NewReader(shape, slashes(path), nameable)
	known, unknown := 0, 0
	seen := map[string]place{}
	take := func(at place, row answers.Row) {
		taken, _, faults := reader.Take(row)
		for _, fault := range faults {
			s.fault(at, fault, row, false)
		}
		a := answerFiles{set: &set}
		if shape == answers.PlainItems {
			for _, name := range row.Names() {
				if !slices.Contains([]string{"item", "question", "reference", "category"}, name) {
					path, _ := answers.ParsePath(name) // a name that is no path is a name
					a.further = append(a.further, &field{name: name, path: path})
				}
			}
		}
		switch {
		case len(a.further) > maxFields:
			s.refuse(at, "", "the item has %d further fields: at most %d are read", len(a.further), maxFields)
			return
		case len(faults) > 0:
			return
		}

		found := foundAnswer{Answer: taken[0], shape: shape, at: at}
		if before, twice := seen[found.Item]; twice {
			s.refuse(at, "", "a second line about the item %q, the first is %s", found.Item, before)
			return
		}
		seen[found.Item] = at
		i, has := set.items[found.Item]
		if !has {
			unknown++
			return
		}
		if a.takeFacts(&found, row) {
			known++
			set.merge(&s.asked.Items[i], found.facts, at)
		}
	}
	s.rows(path, shape, take)

	switch {
	case known == 0 && unknown > 0:
		s.refuse(v.place, `each line names an item in "item"`, "no document belongs to any item of %s", path)
	case unknown > 0:
		s.warn(v.place, "", "items without documents: %d", unknown)
	}
}

// showFacts decides which facts judges see: those that their templates show. A built-in template
// shows reference answers if there are any.
func (s *draft) showFacts() {
	has := slices.ContainsFunc(s.asked.Items, func(i eval.Item) bool { return i.Reference != "" })
	var texts []string
	for kind, text := range map[eval.Kind]*string{
		eval.KindSingle: templateOf(s.asked.Single), eval.KindPairwise: templateOf(s.asked.Pairwise), eval.KindPanel: templateOf(s.asked.Panel),
	} {
		if text == nil {
			continue
		}
		if has && *text == prompt.DefaultTemplate(kind) {
			*text = prompt.ReferenceTemplate(kind)
		}
		if kind == eval.KindPairwise && len(s.asked.Pairwise.Criteria) > 0 && prompt.BuiltIn(kind, *text) {
			*text = prompt.WithCriteria(*text)
		}
		texts = append(texts, *text)
	}

	shows := slices.ContainsFunc(texts, func(text string) bool { return prompt.Shows(text, "reference") })
	var fields []string
	for _, text := range texts {
		fields = append(fields, prompt.Fields(text)...)
	}
	met := map[string]bool{}
	for i := range s.asked.Items {
		item := &s.asked.Items[i]
		for _, name := range fields {
			text, has := item.Facts[name]
			if !has {
				continue
			}
			if item.Fields == nil {
				item.Fields = map[string]string{}
			}
			met[name] = true
			item.Fields[name] = text
		}
		for name := range item.Fields {
			delete(item.Facts, name)
		}
		if !shows && item.Reference != "" {
			if item.Facts == nil {
				item.Facts = map[string]string{}
			}
			item.Facts[eval.ReferenceFact], item.Reference = item.Reference, ""
		}
	}

	for _, name := range fields {
		if !met[name] {
			s.refuse(s.top, "list it in documents: {fields: [...]}, or set it in items", "a template shows [[item.%s]], which no item has", name)
		}
	}
}

// templateOf returns a pointer to the template of a kind's block; nil if the evaluation has no such
// block.
func templateOf(asked any) *string {
	switch kind := asked.(type) {
	case *eval.Single:
		if kind != nil {
			return &kind.Template
		}
	case *eval.Pairwise:
		if kind != nil {
			return &kind.Template
		}
	case *eval.Panel:
		if kind != nil {
			return &kind.Template
		}
	}
	return nil
}
