package prompt

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evalfleet/evalfleet/eval"
)

var (
	//go:embed pairwise.md
	pairwiseTemplate string
	//go:embed single.md
	singleTemplate string
	//go:embed rubric.md
	rubricTemplate string
	//go:embed panel.md
	panelTemplate string
)

// DefaultTemplate returns the text of the built-in template of a kind. Placeholders are words in
// double square brackets:
//
//	[[documents]]      the fenced documents; required
//	[[question]]       the item's question, fenced
//	[[reference]]      the item's reference answer, fenced
//	[[item.NAME]]      a further field of the item, fenced
//	[[answer_format]]  the expected answer and its schema; appended to the prompt if omitted
//	[[criteria]]       single, pairwise: the criteria with their descriptions, as a list
//	[[rubric]]         single: the criteria of the item's rubric with their numbers, as a list
//	[[scale]]          single, panel: "1 (worst) to 5 (best)"
//	[[agent]]          panel: the agent's role
//	[[dimensions]]     panel: the dimensions asked for, as a list
//	[[user]]           separates the system message from the user message; optional
//
// Documents, question and answer format must be on lines of their own. Nothing else in a
// template is expanded.
func DefaultTemplate(kind eval.Kind) string {
	switch kind {
	case eval.KindSingle:
		return singleTemplate
	case eval.KindPanel:
		return panelTemplate
	}
	return pairwiseTemplate
}

// RubricTemplate returns the text of the built-in template for documents that are scored by rubrics.
func RubricTemplate() string { return rubricTemplate }

// templates is a cache of parsed templates. An evaluation uses one template for each kind, in every run.
var templates = struct {
	sync.Mutex
	parsed map[parsing]template
}{parsed: map[parsing]template{}}

type parsing struct {
	kind eval.Kind
	text string
}

// mostTemplates bounds the cache of templates, which is emptied when it is full.
const mostTemplates = 100

// parsed returns the result of parse, from the cache if possible.
func parsed(kind eval.Kind, text string) (template, error) {
	templates.Lock()
	defer templates.Unlock()
	t, ok := templates.parsed[parsing{kind, text}]
	if ok {
		return t, nil
	}
	t, err := parse(kind, text)
	if err != nil {
		return t, err
	}
	if len(templates.parsed) == mostTemplates {
		clear(templates.parsed)
	}
	templates.parsed[parsing{kind, text}] = t
	return t, nil
}

// ReferenceTemplate returns the built-in template of a kind for items with reference answers.
func ReferenceTemplate(kind eval.Kind) string {
	const rules, ends = "- Everything between", "a document's or a question's two tags"
	text := DefaultTemplate(kind)
	text = strings.Replace(text, ends, "a document's, a question's or a reference answer's two tags", 1)
	text = strings.Replace(
		text, rules,
		"- The reference answer is correct. What contradicts it is wrong; the same in other words is as good.\n"+rules, 1,
	)
	heading := "\nDocument:\n"
	if kind == eval.KindPairwise {
		heading = "\nDocuments:\n"
	}
	return strings.Replace(text, heading, "\nReference answer:\n\n[[reference]]\n"+heading, 1)
}

// WithCriteria returns a built-in template of comparisons for judges that also compare by criterion.
func WithCriteria(text string) string {
	before, rest, _ := strings.Cut(text, "Criteria, the most important first:\n")
	_, after, _ := strings.Cut(rest, "\nHow to judge:\n")
	return before + "Criteria:\n\n[[criteria]]\n\nHow to judge:\n\n" +
		"- Compare the documents on each criterion separately: one that is better on one can be worse on another.\n" +
		"- Then decide which document is better overall, with all criteria in mind." + after
}

// BuiltIn reports whether a text is a built-in template of a kind.
func BuiltIn(kind eval.Kind, text string) bool {
	own := []string{DefaultTemplate(kind), ReferenceTemplate(kind)}
	switch kind {
	case eval.KindPairwise:
		own = append(own, WithCriteria(own[0]), WithCriteria(own[1]))
	case eval.KindSingle:
		own = append(own, RubricTemplate())
	}
	return slices.Contains(own, text)
}

// Shows reports whether a template has a placeholder, such as criteria.
func Shows(text, placeholder string) bool { return strings.Contains(text, "[["+placeholder+"]]") }

// Fields returns the names of the further item fields that a template shows, in their order.
func Fields(text string) []string {
	var names []string
	for _, found := range placeholder.FindAllString(text, -1) {
		if name := fieldOf(found[2 : len(found)-2]); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// fieldOf returns the item field that a placeholder names; empty if it names none.
func fieldOf(placeholder string) string {
	name, _ := strings.CutPrefix(placeholder, "item.")
	if name == placeholder {
		return ""
	}
	return name
}

// CheckTemplate returns an error with all problems that make a template unusable; nil if there are none.
func CheckTemplate(kind eval.Kind, text string) error {
	_, err := parse(kind, text)
	return err
}

// userMark is the placeholder that separates the system message from the user message.
const userMark = "user"

func placeholders(kind eval.Kind) []string {
	names := []string{"documents", "question", "reference", "answer_format", userMark}
	switch kind {
	case eval.KindSingle:
		names = append(names, "criteria", "scale", "rubric")
	case eval.KindPairwise:
		names = append(names, "criteria")
	case eval.KindPanel:
		names = append(names, "agent", "dimensions", "scale")
	}
	return names
}

// placeholder matches everything that may be intended as a placeholder. Numbers in brackets are not.
var placeholder = regexp.MustCompile(`\[\[(?:item\.[^\[\]\s]+|\s*[A-Za-z][A-Za-z0-9_ -]*)\]\]`)

// template is a parsed template that can be rendered.
type template struct {
	system, user []piece
}

// piece is literal text, or the name of a placeholder.
type piece struct {
	literal string
	name    string
}

func parse(kind eval.Kind, text string) (template, error) {
	known := placeholders(kind)
	text = strings.TrimSpace(text)
	var t template
	var problems []error
	count := map[string]int{}
	end := 0
	for _, at := range placeholder.FindAllStringIndex(text, -1) {
		name := text[at[0]+2 : at[1]-2]
		t.user = append(t.user, piece{literal: text[end:at[0]]})
		end = at[1]
		count[name]++
		switch {
		case fieldOf(name) != "":
			t.user = append(t.user, piece{name: name})
		case !slices.Contains(known, name):
			problems = append(problems, unknown(kind, name, known))
		case name != userMark:
			t.user = append(t.user, piece{name: name})
		case count["documents"] > 0:
			problems = append(problems, errors.New("[[user]] comes after [[documents]]: documents belong to the user message"))
		case count[name] == 1:
			t.system, t.user = t.user, nil
		}
	}
	t.user = append(t.user, piece{literal: text[end:]})

	if count["documents"] == 0 {
		problems = append(problems, errors.New("the template has no [[documents]]: it must say where they belong"))
	}
	for _, name := range []string{"documents", "answer_format", userMark} {
		if count[name] > 1 {
			problems = append(problems, fmt.Errorf("[[%s]] appears %d times in the template: want it once", name, count[name]))
		}
	}
	if kind == eval.KindPanel && count["agent"] == 0 {
		problems = append(problems, errors.New("the template has no [[agent]]: no agent would be told what to be"))
	}
	if count["answer_format"] == 0 {
		t.user = append(t.user, piece{literal: "\n\n"}, piece{name: "answer_format"})
	}
	if len(problems) > 0 {
		return template{}, fmt.Errorf("%s template: %w", kind, errors.Join(problems...))
	}
	t.trim()
	return t, nil
}

// trim removes the blank lines around [[user]] from the template's own text. It runs before values are filled in, so
// that these are never trimmed.
func (t *template) trim() {
	if last := len(t.system) - 1; last >= 0 {
		t.system[last].literal = strings.TrimRight(t.system[last].literal, " \t\r\n")
		t.user[0].literal = strings.TrimLeft(t.user[0].literal, " \t\r\n")
	}
}

// rendered are the messages of a filled template.
type rendered struct {
	messages  []eval.Message // the system message, unless it is empty, and the user message
	format    Position       // of the answer format
	varies    Position       // where the first value begins that differs between items, documents or dimensions
	documents Position       // where the documents begin
}

// render fills in the values and omits an empty system message.
func (t template) render(values map[string]string) rendered {
	var r rendered
	system, at := fill(t.system, values)
	if system != "" {
		r.messages = append(r.messages, eval.Message{Role: "system", Content: system})
		r.format = Position{0, at.format}
	}
	inSystem := at.varies >= 0
	r.varies = Position{0, at.varies}

	user, at := fill(t.user, values)
	if at.format >= 0 {
		r.format = Position{len(r.messages), at.format}
	}
	r.documents = Position{len(r.messages), at.documents}
	if !inSystem {
		r.varies = Position{len(r.messages), at.varies}
	}
	r.messages = append(r.messages, eval.Message{Role: "user", Content: user})
	return r
}

// Position is an offset in the content of a message.
type Position struct{ Message, Offset int }

// offsets are those of pieces in a text; -1 if the text has no such piece.
type offsets struct{ format, varies, documents int }

// isBlock reports whether the value of a placeholder is on lines of its own.
func isBlock(name string) bool {
	return name == "documents" || name == "question" || name == "reference" || name == "answer_format" || fieldOf(name) != ""
}

// fill concatenates the pieces with their values. Blocks begin and end on their own lines, even if a template puts
// them within one. Tags and the schema are found by line.
func fill(pieces []piece, values map[string]string) (text string, at offsets) {
	length := 0
	for _, p := range pieces {
		length += len(p.literal) + len(values[p.name]) + len("\n")
	}
	var out strings.Builder
	out.Grow(length)
	afterBlock := false
	at = offsets{-1, -1, -1}
	for _, p := range pieces {
		next := p.literal + values[p.name]
		isBlock := isBlock(p.name)
		if next == "" {
			continue
		}
		if (afterBlock && next[0] != '\n') || (isBlock && out.Len() > 0 && !strings.HasSuffix(out.String(), "\n")) {
			out.WriteByte('\n')
		}
		out.WriteString(next)
		afterBlock = isBlock
		begins := out.Len() - len(values[p.name])
		switch p.name {
		case "answer_format":
			at.format = begins
		case "documents":
			at.documents = begins
		}
		if at.varies < 0 && (isBlock || p.name == "dimensions") {
			at.varies = begins
		}
	}

	return out.String(), at
}

// unknown returns an error that suggests what an unknown placeholder may have been meant to be.
func unknown(kind eval.Kind, name string, known []string) error {
	if kind == eval.KindPairwise && name == "scale" {
		return errors.New("[[scale]] belongs to single templates: the answer format of a comparison names its degrees")
	}
	nearest := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, nearest) > 1+len(nearest)/3 {
		return fmt.Errorf("unknown placeholder [[%s]]: known are [[%s]]", name, strings.Join(known, "]], [["))
	}
	return fmt.Errorf("unknown placeholder [[%s]]: did you mean [[%s]]?", name, nearest)
}

// distance returns the number of letters to insert, delete or change to turn a into b, ignoring case (Levenshtein).
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
