package config

import (
	"cmp"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// anchor is a pair of texts that judges are asked at each evaluation.
type anchor struct {
	item   eval.Item // its id is the anchor's name
	texts  [2]string
	winner string // the id of one of the documents, or eval.Tie; empty: unknown
}

// anchorList reads files of anchors.
type anchorList struct {
	*draft
	shown  []string // further fields that the template shows
	names  map[string]place
	asked  map[[3]string]place // by question and texts, in the order of the texts
	many   bool
	listed []anchor
}

// readAnchors reads a file of anchors, or a list of files.
func (s *draft) readAnchors(y *yamlFile, v value) {
	s.anchorsAt = v.key
	if s.asked.Pairwise == nil {
		s.refuse(v.key, "add pairwise: {}, or remove anchors", "anchors are pairs, but no pairs are compared")
		return
	}
	if s.options.Limit > 0 {
		s.refuse(place{path: "--limit"}, "remove it, or remove anchors from the file", "the flag does not apply to a file with anchors")
	}
	if s.options.ForFleet && !s.options.Waits {
		s.refuse(v.key, "wait for them: evalfleet enqueue FILE --wait",
			"a file with anchors cannot be enqueued alone, because judges are asked about them first")
	}

	l := &anchorList{draft: s, names: map[string]place{}, asked: map[[3]string]place{}}
	l.shown = prompt.Fields(s.asked.Pairwise.Template)
	one := func(v value) {
		if path, ok := s.pathOf(y, v); ok {
			l.file(path)
		}
	}
	if _, isWord := scalar(v.node); isWord {
		one(v)
	} else {
		y.list(v, one)
	}
	if len(l.listed) == 0 && len(s.problems) == 0 {
		s.refuse(v.key, "list at least one pair, with question, text_a and text_b", "there are no anchors")
	}
	s.anchors = l.listed
}

// file reads the anchors of one file.
func (l *anchorList) file(path string) {
	s := l.draft
	if s.options.Opened != nil {
		s.options.Opened(path)
	}
	err := Rows(path, func(line int, row judgments.Row) error {
		read, err := judgments.ReadPair(row)
		if err != nil {
			return err
		}
		l.add(place{file: path, line: line}, row, read)
		return nil
	})
	if problems, ok := err.(Problems); ok { //nolint:errorlint // Rows returns nothing else
		s.problems = append(s.problems, problems...)
	}
}

// add adds the anchor of a row.
func (l *anchorList) add(at place, row judgments.Row, read judgments.Read) {
	s := l.draft
	first, second := *read.Texts[0], *read.Texts[1]
	name := cmp.Or(row.Name(), "anchor "+eval.TextHash(read.Question + "\x00" + first + "\x00" + second)[:8])
	same := [3]string{read.Question, min(first, second), max(first, second)}
	before, twice := l.asked[same]
	named, again := l.names[name]
	switch {
	case !nameable(name):
		s.unnameable(at, name, "cannot be the name of an anchor")
		return
	case first == second:
		s.refuse(at, "write two different texts", "both texts of the anchor are the same")
		return
	case twice:
		s.refuse(at, "list each pair once", "the anchor is already in %s", before)
		return
	case again:
		s.refuse(at, "give each anchor a unique name", "a second anchor %q, the first is in %s", printable(name), named)
		return
	case len(l.listed) == eval.MostAnchors:
		if !l.many {
			s.refuse(at, "keep those on which good judges agree", "more than %s anchors", wording.Count(eval.MostAnchors))
		}
		l.many = true
		return
	}

	l.asked[same], l.names[name] = at, at
	a := anchor{item: eval.Item{ID: name, Question: read.Question}, texts: [2]string{first, second}}
	if prompt.Shows(s.asked.Pairwise.Template, "reference") {
		a.item.Reference = row.Field("reference")
	}
	for _, field := range l.shown {
		text := row.Field(field)
		if text == "" {
			s.refuse(at, "add the field "+field, "the template shows [[item.%s]], which the anchor does not have", field)
			return
		}
		if a.item.Fields == nil {
			a.item.Fields = map[string]string{}
		}
		a.item.Fields[field] = text
	}

	if len(read.Verdicts) > 0 {
		switch read.Verdicts[0].Outcome {
		case judgments.First:
			a.winner = eval.AnchorDocument(name, 0)
		case judgments.Second:
			a.winner = eval.AnchorDocument(name, 1)
		case judgments.Tie:
			a.winner = eval.Tie
		}
		a.item.Facts = map[string]string{eval.WinnerFact: a.winner}
	}
	l.listed = append(l.listed, a)
}

// anchored returns the evaluation that asks the judges of another one about anchors, of is its id: in the same way, in both
// orders and once. Its settings are those of the other one where they say how a judge is called.
func (s *Submission) anchored(anchors []anchor, of eval.ID) *Submission {
	main := s.Evaluation
	pairwise := &eval.Pairwise{
		Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: main.Pairwise.Ties,
		Template: main.Pairwise.Template, Criteria: main.Pairwise.Criteria, Degrees: main.Pairwise.Degrees,
	}
	e := &eval.Evaluation{
		Name: main.Name + eval.AnchorsSuffix, Judges: main.Judges, Pairwise: pairwise, JSON: main.JSON, Jsonify: main.Jsonify,
		Grounding: main.Grounding, Reasoning: main.Reasoning, Blind: main.Blind, Anchors: &eval.Anchors{Of: of},
	}
	texts := map[string]string{}
	for i, a := range anchors {
		e.Items = append(e.Items, a.item)
		for k, text := range a.texts {
			hash := eval.TextHash(text)
			texts[hash] = text
			e.Documents = append(e.Documents, eval.Document{
				ID: eval.AnchorDocument(a.item.ID, k), Item: i, Candidate: "anchors", Hash: hash, Bytes: len(text),
			})
		}
	}
	e.Normalize()

	out := *s
	out.Evaluation, out.Texts, out.Warnings, out.Taken, out.NoReuse, out.Anchors = e, texts, nil, nil, true, nil
	settings := &out.Settings
	settings.Until, settings.Votes, settings.Batch, settings.Batching, settings.Groups = nil, "", nil, nil, nil
	settings.Cache = false
	settings.Limits = slices.Clone(s.Settings.Limits)
	for i := range settings.Limits {
		if settings.Limits[i].Evaluation != "" {
			settings.Limits[i].Evaluation = string(e.ID())
		}
	}
	return &out
}
