package config

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// Judging is the second part of an evaluation file with the key prompts: judges compare the answers
// that the first part has made.
type Judging struct {
	// Planned is that evaluation before there are answers. Texts of the expected length stand for
	// them, so that its runs, calls and tokens can be predicted.
	Planned *Submission

	path    string
	options Options
}

// Of returns the evaluation that judges the answers that were recorded, by the name of their run
// (eval.Prompt.ID). Answers that are not among them are missing. It reads the file again, and
// returns an error if that asks for other answers by now. Its error is of type Problems.
func (j *Judging) Of(answers map[string]string) (*Submission, error) {
	now, err := loadPrompted(j.path, j.options)
	if err != nil {
		return nil, err
	}
	if now.Evaluation.ID() != j.Planned.Evaluation.Answered.Evaluation || now.Judging.Planned.Evaluation.ID() != j.Planned.Evaluation.ID() {
		return nil, Problems{{File: j.path, Message: "the evaluation was changed while its answers were made",
			Fix: "repeat the command to run it as it is now"}}
	}

	if answers == nil {
		answers = map[string]string{}
	}
	_, judged, err := readPrompted(j.path, j.options, answers)
	return judged, err
}

// loadPrompted makes the evaluation that asks the models of an evaluation file its prompts about
// its items. Its Judging is the evaluation of the answers.
func loadPrompted(path string, o Options) (*Submission, error) {
	made, planned, err := readPrompted(path, o, nil)
	if err != nil {
		return nil, err
	}
	for _, w := range planned.Warnings {
		if !slices.Contains(made.Warnings, w) {
			made.Warnings = append(made.Warnings, w)
		}
	}
	made.Judging = &Judging{Planned: planned, path: path, options: o}
	return made, nil
}

// readPrompted reads both parts of an evaluation file with prompts: the evaluation that makes
// answers, and the one that judges them. recorded are the answers by the name of their run; nil:
// placeholders stand for all of them. Its error is of type Problems, or that of the fleet's file.
func readPrompted(path string, o Options, recorded map[string]string) (made, judged *Submission, err error) {
	makes, err := newDraft(path, filepath.Dir(path), stem(path), o)
	if err != nil {
		return nil, nil, err
	}
	makes.options.JSON = "" // the flag is about verdicts
	y, root, ok := makes.parse(path)
	if !ok {
		return nil, nil, makes.problems
	}
	read := makes.promptedFile
	if o.judges != nil {
		read = makes.promptfooFile
	}
	p := read(y, root)
	makes.refuseTwoParts(p.at)
	if len(makes.problems) > 0 {
		return nil, nil, makes.err()
	}

	o.Opened = nil // each file is reported once
	judges, err := newDraft(path, filepath.Dir(path), stem(path), o)
	if err != nil {
		return nil, nil, err
	}
	if y, root, ok = judges.parse(path); !ok {
		return nil, nil, judges.problems
	}
	judges.answers, judges.others = &answersToPrompts{prompted: p, recorded: recorded}, makes.asked.Everyone()
	judges.settings.Cache = true // if failed answers are retried, pairs that are the same are not judged again
	if o.judges != nil {
		judges.judgesOf(o.judges)
		judges.asked.Pairwise = judges.compare(judges.answeredDocuments(), judges.top)
		judges.showFacts()
	} else {
		judges.read(y, root)
	}
	makes.others = judges.settings.Everyone(&judges.asked)

	made, err = makes.finish()
	if err == nil {
		judges.answers.describe(&judges.asked, made.Evaluation.ID())
	}
	judged, judgeErr := judges.finish()
	if err == nil && judgeErr == nil && judged.Anchors != nil { // they are asked before there are answers
		made.Anchors, judged.Anchors = judged.anchored(judges.anchors, made.Evaluation.ID()), nil
	}
	return made, judged, bothProblems(err, judgeErr)
}

// refuseTwoParts refuses options that have no meaning for a file with two parts.
func (s *draft) refuseTwoParts(at place) {
	if s.options.Limit > 0 {
		s.refuse(place{path: "--limit"}, "shorten items instead", "the flag does not apply to a file with prompts")
	}
	if s.options.ForFleet && !s.options.Waits {
		s.refuse(at, "wait for the answers: evalfleet enqueue FILE --wait",
			"a file with prompts cannot be enqueued alone, because its judges need answers that do not exist yet")
	}
}

// bothProblems joins the problems that the parts of a file have, each once.
func bothProblems(errs ...error) error {
	var all findings
	for _, err := range errs {
		var problems Problems
		if err != nil && !errors.As(err, &problems) {
			return err
		}
		for _, p := range problems {
			if !slices.Contains(all.problems, p) {
				all.problems = append(all.problems, p)
			}
		}
	}
	return all.err()
}

// prompted are the prompts, models and items of an evaluation file.
type prompted struct {
	at      place // of the key prompts
	prompts []writtenPrompt
	models  []eval.Judge
	items   []promptItem
}

// promptedFile reads the keys from which answers are made, and lists the prompts. All other keys
// are left to the part that judges.
func (s *draft) promptedFile(y *yamlFile, root value) *prompted {
	var how howKeys
	var prompts, models, items *value
	known := how.keys(y, s)
	known["prompts"] = func(v value) { prompts = &v }
	known["models"] = func(v value) { models = &v }
	known["items"] = func(v value) { items = &v }
	y.entries(root, func(key string, v value) {
		if read, ok := known[key]; ok {
			read(v)
		}
	})
	how.read(y, s)

	p := &prompted{at: prompts.key, prompts: s.writtenPrompts(y, *prompts)}
	if models == nil {
		s.refuse(p.at, "add models: [provider:model]", "models is missing: there are prompts, and no model to answer them")
	} else {
		p.models = s.answering(y, *models)
	}
	if items == nil {
		s.refuse(p.at, "add items: questions.jsonl, or a list of questions", "items is missing: there are prompts, and nothing to ask about")
	} else {
		p.items = s.promptItems(y, *items)
	}
	s.cross(p)
	return p
}

// onlyWithPrompts refuses the key models in a file without prompts.
func (s *draft) onlyWithPrompts(y *yamlFile, v value) {
	if s.answers != nil {
		return
	}
	y.judges(v, &draft{}) // for its problems
	s.refuse(v.key, "add prompts: {NAME: \"… {{question}} …\"} and items, or call them judges", "models answer prompts, and there are none")
}

// answering reads the models that answer prompts. They have the form of judges.
func (s *draft) answering(y *yamlFile, v value) []eval.Judge {
	y.judges(v, s)
	return s.takeModels()
}

// takeModels returns the models that were read as judges, and requires that they can be asked.
func (s *draft) takeModels() []eval.Judge {
	models, at := s.asked.Judges, s.judgesAt
	s.asked.Judges, s.judgesAt, s.modelsAt = nil, nil, at
	seen := map[string]place{}
	for i, m := range models {
		s.checkAsked(at[i], m, false, false)
		if before, ok := seen[m.Name]; ok {
			s.refuse(at[i], "give each model a unique name: {name: …, model: …}",
				"a second model called %s, the first is in %s", m.Name, before.origin())
		}
		seen[m.Name] = at[i]
	}
	return models
}

// cross lists each prompt about each item, for each model.
func (s *draft) cross(p *prompted) {
	asked := &eval.Prompts{Format: eval.PromptsTemplates, Models: p.models}
	rows := map[string]int{}
	item := s.emptyItem()

	for _, one := range p.items {
		for _, written := range p.prompts {
			text, ok := written.about(s, one)
			if !ok {
				return
			}
			hash := eval.TextHash(text)
			row, known := rows[hash]
			if !known {
				row = len(asked.Rows)
				rows[hash], s.texts[hash] = row, text
				id := answerID(one.id, written.name)
				asked.Rows = append(asked.Rows, eval.Document{ID: id, Item: item, Candidate: id, Hash: hash, Bytes: len(text)})
			}
			for k, model := range p.models {
				asked.List = append(asked.List, eval.Prompt{ID: answerID(one.id, p.candidate(written, model)), Model: k, Row: row})
			}
		}
	}

	s.asked.Prompts = asked
}

// candidate returns the name of a prompt together with a model: of several prompts or models, the
// one that tells candidates apart.
func (p *prompted) candidate(written writtenPrompt, model eval.Judge) string {
	switch {
	case len(p.prompts) == 1:
		return model.Name
	case len(p.models) == 1:
		return written.name
	}
	return written.name + " + " + model.Name
}
