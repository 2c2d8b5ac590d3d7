// Package prompt turns one run of an evaluation into the messages that its judge is sent, and into the JSON schema of
// the expected answer.
//
// Documents are data. Each is shown unchanged between two tags that carry a number found in none of the shown texts.
// Nothing within a document is ever expanded. The package does not shorten texts to a model's context window. It
// knows nothing of providers, which decide how a message or a schema is sent.
package prompt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Prompt is the question of one run.
type Prompt struct {
	Messages []eval.Message // an optional system message, then a user message
	// Repeats are the ends of beginnings of Messages that other prompts of the evaluation may have, too, the shortest
	// first: what all have, what those about one item have, and what those with the same first document have. If the
	// template puts the answer format first, and it differs, these prompts have less in common.
	Repeats []Position
	// Schema is the JSON schema of the answer, in the strict form that structured output needs: every property is
	// required, and no others are allowed. The messages contain it too, on the line that begins with "JSON schema: ",
	// for models without structured output.
	Schema     json.RawMessage
	SchemaName string // letters and underscores
	// Open says that Schema allows any JSON object, and that the messages describe its form in words.
	Open bool
	// Written is the whole conversation of a prompt of eval.KindPrompts, whose first turn is Messages. It is nil for
	// other kinds.
	Written *eval.Conversation

	form form
}

// About says which documents of an evaluation, and which agent and dimensions, a prompt is about.
type About struct {
	First  int // position in e.Shown(kind) of the first or only document
	Second int // position of the second document; -1: none
	// For a panel: the agent's position in e.Panel.Agents, and the positions of one or more dimensions.
	Judge      int
	Dimensions []int
}

// Build returns the prompt of a run of the given kind. texts maps eval.Document.Hash to the text of a document.
// Listed runs (eval.KindRuns) and prompts of a list (eval.KindPrompts) have no built-in question: see [Listed] and
// [ReadRow].
//
// Build is deterministic. Runs that show the same first document (to the same agent) have the same beginning, so that
// providers can use their prompt caches. It ends before the second document, or before the dimensions of a panel.
func Build(e *eval.Evaluation, kind eval.Kind, about About, texts map[string]string) (Prompt, error) {
	if kind == eval.KindRuns {
		return Listed(e.Runs.Files[about.First], e.Runs.Files[about.Second], texts, e.JSONOf(kind) != eval.JSONFalse)
	}
	if kind == eval.KindPrompts {
		return written(e.Prompts, about.First, texts)
	}
	template, err := parsed(kind, cmp.Or(e.Template(kind), builtIn(e, kind)))
	if err != nil {
		return Prompt{}, err
	}
	shown := []eval.Document{e.Documents[about.First]}
	if kind == eval.KindPairwise {
		shown = append(shown, e.Documents[about.Second])
	}
	item := e.Items[shown[0].Item]
	question := item.Question
	names := e.ShownAs(shown)
	data := []string{question}
	figures := 0
	bodies := make([]body, len(shown))
	for i, d := range shown {
		if !printable(names[i]) {
			return Prompt{}, fmt.Errorf(
				"document id %q cannot be shown to a judge: it has a line break, a control character or bytes that are not UTF-8",
				d.ID,
			)
		}
		text, ok := texts[d.Hash]
		if !ok {
			return Prompt{}, fmt.Errorf("text of document %q (%s) is missing", d.ID, d.Hash)
		}
		var err error
		if bodies[i], err = bodyOf(d, text, figures); err != nil {
			return Prompt{}, err
		}
		figures += len(bodies[i].pieces)
		data = append(data, bodies[i].String())
	}

	var answer answerFormat
	data = append(data, item.Reference)
	for _, text := range item.Fields {
		data = append(data, text)
	}
	values := map[string]string{"question": questionBlock(question, data), "reference": referenceBlock(item.Reference, data)}
	for _, p := range slices.Concat(template.system, template.user) {
		if name := fieldOf(p.name); name != "" {
			values[p.name] = fieldBlock(name, item.Fields[name], data)
		}
	}
	switch kind {
	case eval.KindSingle:
		if e.Single.Rubric {
			answer = rubricAnswer(len(item.Rubric))
			values["rubric"] = rubricList(item.Rubric)
			break
		}
		answer = singleAnswer(e.Single)
		values["criteria"] = criteriaList(e.Single.Criteria)
		values["scale"] = scaleWords(e.Single.Scale)
	case eval.KindPairwise:
		answer = pairwiseAnswer(names[0], names[1], e.Pairwise)
		values["criteria"] = criteriaList(e.Pairwise.Criteria)
	case eval.KindPanel:
		dimensions := make([]eval.Dimension, len(about.Dimensions))
		for i, d := range about.Dimensions {
			dimensions[i] = e.Panel.Dimensions[d]
		}
		answer = panelAnswer(dimensions, e.Panel.Scale)
		values["agent"] = agentWords(e.Panel.Agents[about.Judge])
		values["dimensions"] = dimensionsList(dimensions)
		values["scale"] = scaleWords(e.Panel.Scale)
	}
	blocks := make([]string, len(shown))
	var images []eval.Shown
	at := 0
	for i, name := range names {
		block, within := bodies[i].block(name, data)
		for _, image := range within {
			image.Offset += at
			images = append(images, image)
		}
		blocks[i] = block
		at += len(block) + len(blockGap)
	}
	values["documents"] = strings.Join(blocks, blockGap)
	answer.search = e.Grounded(kind)
	values["answer_format"] = answer.text()

	r := template.render(values)
	if err := r.show(images, texts); err != nil {
		return Prompt{}, err
	}
	return Prompt{
		Messages: r.messages, Repeats: r.repeats(len(blocks[0])), Schema: answer.schema, SchemaName: answer.name,
		form: form{answer: answer, at: r.format},
	}, nil
}

// builtIn returns the built-in template for an evaluation.
func builtIn(e *eval.Evaluation, kind eval.Kind) string {
	switch {
	case kind == eval.KindPairwise && len(e.Pairwise.Criteria) > 0:
		return WithCriteria(DefaultTemplate(kind))
	case kind == eval.KindSingle && e.Single.Rubric:
		return RubricTemplate()
	}
	return DefaultTemplate(kind)
}

// Repair returns the messages that follow the prompt after an invalid answer: the answer itself, and a turn that says
// what was wrong with it. problem is the text of a verdict.Problem.
func Repair(previousAnswer, problem string) []eval.Message {
	if strings.TrimSpace(previousAnswer) == "" {
		previousAnswer = "(no text)" // providers reject an empty turn
	}
	return []eval.Message{
		{Role: "assistant", Content: previousAnswer},
		{Role: "user", Content: "That answer cannot be used: " + problem + "\n\n" +
			"Answer again and keep your judgement. Write one JSON object that fits the JSON schema above, with nothing before or after it."},
	}
}

func criteriaList(criteria []eval.Criterion) string {
	lines := make([]string, len(criteria))
	for i, c := range criteria {
		lines[i] = described(c.Name, c.Description)
	}
	return strings.Join(lines, "\n")
}

// rubricList returns criteria with their numbers. Judges do not see points, so that what a criterion is worth does not
// sway them.
func rubricList(rubric []eval.RubricCriterion) string {
	lines := make([]string, len(rubric))
	for i, criterion := range rubric {
		lines[i] = eval.RubricNumber(i) + ". " + strings.Join(strings.Fields(criterion.Text), " ")
	}
	return strings.Join(lines, "\n")
}

// described returns a list entry: a name, followed by its description if there is one.
func described(name, description string) string {
	if description == "" {
		return "- " + name
	}
	return "- " + name + ": " + strings.ReplaceAll(strings.TrimSpace(description), "\n", "\n  ")
}

func scaleWords(s eval.Scale) string { return fmt.Sprintf("%d (worst) to %d (best)", s.Min, s.Max) }
