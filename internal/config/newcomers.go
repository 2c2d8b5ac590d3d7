package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/check"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Board is an evaluation whose ranking gets more candidates.
type Board struct {
	Submission *Submission
	Pairs      [][2]int        // of its documents, that have verdicts
	History    []eval.Standing // its ranking, and those that it has grown from
	Opponents  int             // that each document of a newcomer meets at most
}

// Grown is what files of newcomers make of a board.
type Grown struct {
	Submission *Submission // of the board with the newcomers; nil: all of them are on it already
	Resumed    *Submission // of the board itself with the budget of Options, if all of them are on it already
	Newcomers  []string    // sorted
	Known      []string    // candidates of the files that are on the board already, with the same answers; sorted
}

// Grow reads the answers of newcomers and adds them to a board. Judges, questions and settings stay as they are. Its error
// is of type Problems.
func (b Board) Grow(in Input, o Options) (Grown, error) {
	paths := in.paths()
	if problem := b.refused(); problem != nil {
		return Grown{}, Problems{*problem}
	}
	s, _, err := readAnswers(paths, o)
	if err != nil {
		return Grown{}, err
	}
	s.flagBudget()
	if len(s.asked.Documents) == 0 {
		s.refuse(place{file: paths[0]}, strings.Join(s.taken, "; "), "no answers found")
	}
	if err := s.err(); err != nil {
		return Grown{}, err
	}

	j := joining{Board: b, draft: s, at: place{file: paths[0]}}
	j.match()
	grown := Grown{Known: j.known()}
	j.price()
	if err := s.err(); err != nil {
		return Grown{}, err
	}
	if len(j.found) == 0 {
		resumed := *j.Submission
		resumed.Settings, resumed.Warnings = j.settings(resumed.Evaluation.ID()), s.warnings
		grown.Resumed = &resumed
		return grown, nil
	}
	grown.Submission, grown.Newcomers = j.submission()
	return grown, nil
}

// refused returns why no candidate can be added to the evaluation; nil: candidates can.
func (b Board) refused() *Problem {
	e := b.Submission.Evaluation
	again := "add the candidate to its file and run it again; recorded answers are not asked for again"
	refuse := func(message string) *Problem { return &Problem{Path: e.Name, Message: message, Fix: again} }
	switch {
	case e.Given != nil:
		return &Problem{Path: e.Name, Message: "its verdicts were read from files", Fix: "rank those files together with the new ones"}
	case e.Answered != nil || e.Prompts != nil:
		return refuse("its candidates answer prompts of its file")
	case e.Pairwise == nil:
		return refuse("it compares no pairs, by which a newcomer could be placed")
	case e.Pairwise.TopN > 0:
		return refuse("it compares only the best by score (top_n)")
	case e.Escalate != nil:
		return refuse("its ranking is that of a judge that sees only some of the pairs (escalate)")
	case e.Panel != nil || e.Runs != nil:
		return refuse("it also has a panel or listed runs")
	case slices.ContainsFunc(e.Checks, func(c eval.Check) bool { return c.Kind == eval.CheckCommand }):
		return refuse("its checks run commands")
	case len(b.Pairs) == 0:
		return &Problem{Path: e.Name, Message: "it has no verdict yet that a newcomer could be compared by"}
	}
	return nil
}

// joining matches the answers of files with the questions of a board.
type joining struct {
	Board
	draft *draft
	at    place
	found []eval.Document // with the board's items
}

// match finds the board's items of the answers, by their ids or else by their questions.
func (j *joining) match() {
	board, s := j.Submission.Evaluation, j.draft
	byID, byQuestion := map[string]int{}, map[string]int{}
	for i, item := range board.Items {
		byID[item.ID] = i
		if item.Question != "" {
			byQuestion[item.Question] = i
		}
	}

	others, reworded := 0, 0
	for _, d := range s.asked.Documents {
		own := s.asked.Items[d.Item]
		item, known := byID[own.ID]
		if !known {
			if item, known = byQuestion[own.Question]; known && own.Question != "" {
				d.ID = answerID(board.Items[item].ID, d.Candidate)
			} else {
				others++
				continue
			}
		}
		if own.Question != "" && own.Question != board.Items[item].Question {
			reworded++
		}
		d.Item = item
		j.found = append(j.found, d)
	}

	switch example := wording.Clip(board.Items[0].ID, 60); {
	case len(j.found) == 0 && example != "":
		s.refuse(j.at, "name the questions as the ranking does, in a field such as question_id or item",
			"none of the answers is to a question of the ranking, such as %q", example)
	case len(j.found) == 0:
		s.refuse(j.at, "", "none of the answers is to a question of the ranking")
	case others > 0:
		s.warn(j.at, "", "answers to questions that the ranking does not have, which are left out: %d", others)
	}
	if reworded > 0 {
		s.warn(j.at, "", "answers whose question has another wording than in the ranking, which judges see: %d", reworded)
	}
}

// known takes out the candidates that are on the board with the same answers, and returns them. It refuses those with other
// answers.
func (j *joining) known() (names []string) {
	type answer struct {
		item      int
		candidate string
		hash      string
	}
	has, size := map[answer]bool{}, map[string]int{}
	for _, d := range j.Submission.Evaluation.Documents {
		has[answer{d.Item, d.Candidate, d.Hash}] = true
		size[d.Candidate]++
	}
	own, changed := map[string]int{}, map[string]int{}
	for _, d := range j.found {
		own[d.Candidate]++
		if size[d.Candidate] > 0 && !has[answer{d.Item, d.Candidate, d.Hash}] {
			changed[d.Candidate]++
		}
	}

	for _, name := range slices.Sorted(maps.Keys(own)) {
		switch {
		case size[name] == 0:
			continue
		case changed[name] > 0 || own[name] != size[name]:
			j.draft.refuse(j.at, "give the new answers another name, in a field such as model, or in the file's name",
				"candidate %q is in the ranking already, with other answers: %d of %d differ, and the ranking has %d", name, changed[name],
				own[name], size[name])
		default:
			names = append(names, name)
		}
	}
	j.found = slices.DeleteFunc(j.found, func(d eval.Document) bool { return size[d.Candidate] > 0 })
	return names
}

// submission returns the board with the newcomers, and their names.
func (j *joining) submission() (*Submission, []string) {
	board, s := j.Submission, j.draft
	e := *board.Evaluation
	taken := map[string]bool{}
	for _, d := range e.Documents {
		taken[d.ID] = true
	}
	e.Items, e.Documents = slices.Clone(e.Items), slices.Clone(e.Documents)
	texts, newcomers := maps.Clone(board.Texts), map[string]bool{}
	for _, d := range j.found {
		for n, base := 1, answerID(e.Items[d.Item].ID, d.Candidate); taken[d.ID]; n++ {
			if d.ID = base; n > 1 {
				d.ID += "#" + wording.Count(n)
			}
		}
		taken[d.ID], newcomers[d.Candidate] = true, true
		for _, hash := range d.Hashes() {
			texts[hash] = s.texts[hash]
		}
		for k, c := range e.Checks {
			test, err := check.New(c)
			if err != nil {
				continue // the board's own file was refused then
			}
			if why, passed := test(d.Readable(texts[d.Hash]), e.Items[d.Item]); !passed {
				d.Failed = append(d.Failed, eval.FailedCheck{Check: k, Why: check.Reason(why)})
			}
		}
		e.Documents = append(e.Documents, d)
	}

	names := slices.Sorted(maps.Keys(newcomers))
	pairwise := *e.Pairwise
	pairwise.Pairs = eval.Pairs{Mode: eval.PairsGrown, Listed: j.Pairs, Newcomers: names, Opponents: j.Opponents}
	e.Pairwise, e.Board = &pairwise, &eval.Board{Evaluation: board.Evaluation.ID(), History: j.History}
	e.Normalize()

	grown := *board
	grown.Evaluation, grown.Texts, grown.Warnings = &e, texts, s.warnings
	grown.Taken = append(s.taken, j.unanswered(names)...)
	grown.Settings = j.settings(e.ID())
	grown.Settings.Until, grown.Settings.Limit = nil, 0
	return &grown, names
}

// price finds the prices of the board's models if a budget is given, which needs all of them. Those that the board has
// stay.
func (j *joining) price() {
	if j.draft.budget.nano == 0 {
		return
	}
	s := *j.draft
	board := j.Submission
	s.asked, s.settings, s.prices, s.known = *board.Evaluation, board.Settings, board.Settings.Prices, board.Providers
	s.priceEveryone()
	j.draft.findings, j.draft.settings.Prices, j.draft.settings.PricesAsOf = s.findings, s.settings.Prices, s.settings.PricesAsOf
}

// settings returns the settings of the board for an evaluation that is or repeats it, with the budget that is given.
func (j *joining) settings(of eval.ID) record.Settings {
	board, s := j.Submission, j.draft
	settings := board.Settings
	settings.Limits = nil
	for _, limit := range board.Settings.Limits {
		if limit.Evaluation == string(board.Evaluation.ID()) {
			limit.Evaluation = string(of)
			if limit.Kind == ratelimit.Cost && s.budget.nano > 0 {
				continue
			}
		}
		settings.Limits = append(settings.Limits, limit)
	}
	if s.budget.nano > 0 {
		settings.Limits = append(settings.Limits, ratelimit.Budget(string(of), s.budget.nano))
		settings.Prices, settings.PricesAsOf = s.settings.Prices, s.settings.PricesAsOf
	}
	return settings
}

// unanswered says which questions of the board newcomers have not answered, one line for each of these.
func (j *joining) unanswered(names []string) (lines []string) {
	items := j.Submission.Evaluation.Items
	for _, name := range names {
		answered := map[int]bool{}
		for _, d := range j.found {
			if d.Candidate == name {
				answered[d.Item] = true
			}
		}

		const most = 3 // that are named
		var missing []string
		for i, item := range items {
			if !answered[i] {
				missing = append(missing, item.ID)
			}
		}
		if n := len(missing); n > 0 {
			if n > most {
				missing = append(missing[:most], fmt.Sprintf("%d more", n-most))
			}
			lines = append(lines, fmt.Sprintf("%s has no answer to %d of %s: %s", name, n, wording.Counted(len(items), "question"),
				strings.Join(missing, ", ")))
		}
	}
	return lines
}
