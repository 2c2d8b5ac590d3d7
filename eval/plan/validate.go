package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// validate joins all problems that make the phase's runs meaningless.
func validate(e *eval.Evaluation, phase int, o Options) error {
	if e.PlanVersion != eval.PlanVersion {
		return fmt.Errorf("the evaluation has plan version %d, this program numbers runs by version %d: use the program that made it",
			e.PlanVersion, eval.PlanVersion)
	}
	if e.Given != nil {
		return errors.New("its verdicts were read from files, so there is nothing to ask")
	}
	phases := Phases(e)
	if phase < 0 || phase >= len(phases) {
		return fmt.Errorf("the evaluation has %d phases, numbered from 0", len(phases))
	}
	problems := []error{validateJudges(e.JudgesOf(phases[phase]), o)}
	if o.Limit < 0 {
		problems = append(problems, fmt.Errorf("limit is %d: want 0 (all runs) or more", o.Limit))
	}
	switch phases[phase] {
	case eval.KindRuns:
		return errors.Join(append(problems, validateRuns(e))...)
	case eval.KindPrompts:
		return errors.Join(append(problems, validatePrompts(e))...)
	}

	if err := validateDocuments(e); err != nil {
		return errors.Join(append(problems, err)...) // the code below needs sorted documents
	}

	switch phases[phase] {
	case eval.KindSingle:
		problems = append(problems, validateTrials(e.Single.Trials))
	case eval.KindPairwise:
		problems = append(problems, validatePairwise(e), validateChoice(e, BasisOf(e, phase), o.Choice))
	case eval.KindPanel:
		problems = append(problems, validatePanel(e.Panel))
	}

	return errors.Join(problems...)
}

func validateJudges(judges []eval.Judge, o Options) error {
	if len(judges) == 0 {
		return errors.New("no judges")
	}
	if len(o.JudgeQueues) != len(judges) {
		return fmt.Errorf("%d judges have %d queues: want one for each judge", len(judges), len(o.JudgeQueues))
	}
	if i := slices.Index(o.JudgeQueues, ""); i >= 0 {
		return fmt.Errorf("judge %q has no queue", judges[i].Name)
	}
	return nil
}

func validateDocuments(e *eval.Evaluation) error {
	if len(e.Documents) == 0 {
		return errors.New("no documents")
	}
	for i, d := range e.Documents {
		if d.Item < 0 || d.Item >= len(e.Items) {
			return fmt.Errorf("document %q belongs to item %d of %d", d.ID, d.Item, len(e.Items))
		}
		if i == 0 {
			continue
		}
		before := e.Documents[i-1]
		switch order := cmp.Or(cmp.Compare(before.Item, d.Item), cmp.Compare(before.ID, d.ID)); {
		case order == 0:
			return fmt.Errorf("two documents have the id %q", d.ID)
		case order > 0:
			return fmt.Errorf("document %q is before %q: documents are not sorted (Evaluation.Normalize)", before.ID, d.ID)
		}
	}
	return nil
}

// maxListed is the maximum number of listed runs: positions are stored in 32 bits.
const maxListed = math.MaxInt32

// validateRuns reports the first invalid listed run.
func validateRuns(e *eval.Evaluation) error {
	runs := e.Runs
	if err := validateList("runs", len(runs.List)); err != nil {
		return err
	}
	if err := validateItems("file", runs.Files, e.Items); err != nil {
		return err
	}
	seen := make(map[string]bool, len(runs.List))
	for _, run := range runs.List {
		switch {
		case seen[run.ID]:
			return fmt.Errorf("two runs have the id %q", run.ID)
		case run.Model < 0 || run.Model >= len(runs.Models):
			return fmt.Errorf("run %q asks model %d of %d", run.ID, run.Model, len(runs.Models))
		case min(run.FileA, run.FileB) < 0 || max(run.FileA, run.FileB) >= len(runs.Files):
			return fmt.Errorf("run %q shows files %d and %d of %d", run.ID, run.FileA, run.FileB, len(runs.Files))
		}
		seen[run.ID] = true
	}
	return nil
}

// validatePrompts reports the first invalid prompt.
func validatePrompts(e *eval.Evaluation) error {
	p := e.Prompts
	formats := []eval.PromptFormat{eval.PromptsExperiment, eval.PromptsBatch, eval.PromptsTemplates}
	if !slices.Contains(formats, p.Format) {
		return fmt.Errorf("the prompts' format is %q: want %s, %s or %s", p.Format, formats[0], formats[1], formats[2])
	}
	if err := validateList("prompts", len(p.List)); err != nil {
		return err
	}
	if err := validateItems("row", p.Rows, e.Items); err != nil {
		return err
	}
	seen := make(map[string]bool, len(p.List))
	for _, one := range p.List {
		switch {
		case seen[one.ID]:
			return fmt.Errorf("two prompts have the id %q", one.ID)
		case one.Model < 0 || one.Model >= len(p.Models):
			return fmt.Errorf("prompt %q asks model %d of %d", one.ID, one.Model, len(p.Models))
		case one.Row < 0 || one.Row >= len(p.Rows):
			return fmt.Errorf("prompt %q is in row %d of %d", one.ID, one.Row, len(p.Rows))
		}
		seen[one.ID] = true
	}

	return nil
}

func validateList(what string, length int) error {
	switch {
	case length == 0:
		return fmt.Errorf("no %s are listed", what)
	case length > maxListed:
		return fmt.Errorf("%d %s are listed: at most %d can be numbered", length, what, maxListed)
	}
	return nil
}

// validateItems reports the first document whose item does not exist.
func validateItems(what string, documents []eval.Document, items []eval.Item) error {
	for _, d := range documents {
		if d.Item < 0 || d.Item >= len(items) {
			return fmt.Errorf("%s %q belongs to item %d of %d", what, d.ID, d.Item, len(items))
		}
	}
	return nil
}

func validateTrials(trials int) error {
	if trials < 1 {
		return fmt.Errorf("trials is %d: want at least 1", trials)
	}
	return nil
}

// validatePanel reports missing dimensions, or the first dimension whose id is not unique.
func validatePanel(p *eval.Panel) error {
	if len(p.Dimensions) == 0 {
		return errors.New("no dimensions")
	}
	seen := make(map[string]bool, len(p.Dimensions))
	for _, d := range p.Dimensions {
		if seen[d.ID] {
			return fmt.Errorf("two dimensions have the id %q", d.ID)
		}
		seen[d.ID] = true
	}
	return nil
}

func validatePairwise(e *eval.Evaluation) error {
	problems := []error{validateTrials(e.Pairwise.Trials), validateTopN(e), validateEscalate(e)}
	switch e.Pairwise.Order {
	case eval.OrderBoth, eval.OrderRandom, eval.OrderAsListed:
	default:
		problems = append(problems, fmt.Errorf("order is %q: want %s, %s or %s",
			e.Pairwise.Order, eval.OrderBoth, eval.OrderRandom, eval.OrderAsListed))
	}

	if slices.ContainsFunc(e.Documents, func(d eval.Document) bool { return d.ID == eval.Tie }) {
		problems = append(problems, fmt.Errorf("a document has the id %q, which means a tie", eval.Tie))
	}
	p := e.Pairwise.Pairs
	switch p.Mode {
	case eval.PairsListed:
		problems = append(problems, validateListed(e))
	case eval.PairsBaseline:
		if opponents, err := newAgainst(e.Documents, p.Baseline); err == nil && opponents.count() == 0 {
			problems = append(problems, fmt.Errorf("no item has a document of candidate %q and one of another", p.Baseline))
		}
	case eval.PairsAll:
		problems = append(problems, validateSomePair(e))
	case eval.PairsSample:
		if !(p.Sample > 0 && p.Sample <= 1) { // also rejects NaN
			problems = append(problems, fmt.Errorf("sample is %v: want a share of the pairs, above 0 and at most 1", p.Sample))
		}
		problems = append(problems, validateSomePair(e))
	case eval.PairsSwiss:
		if !(p.Share > 0 && p.Share <= 1) {
			problems = append(problems, fmt.Errorf("swiss is %v: want a share of the pairs, above 0 and at most 1", p.Share))
		}
		if e.Pairwise.Apart {
			problems = append(problems, errors.New("swiss compares documents of one candidate, too, which are kept apart"))
		}
		problems = append(problems, validateSomePair(e))
	case eval.PairsGrown:
		problems = append(problems, validateGrown(e))
	default:
		problems = append(problems, fmt.Errorf("pairs mode is %q: want %s, %s, %s, %s, %s or %s",
			p.Mode, eval.PairsAll, eval.PairsSample, eval.PairsListed, eval.PairsBaseline, eval.PairsSwiss, eval.PairsGrown))
	}

	return errors.Join(problems...)
}

func validateSomePair(e *eval.Evaluation) error {
	docs := e.Documents
	if e.Pairwise.Apart {
		if p, err := newApart(docs); err != nil || p.count() > 0 {
			return err
		}
		return errors.New("no item has documents of two candidates, so there is nothing to compare")
	}
	for i := 1; i < len(docs); i++ {
		if docs[i].Item == docs[i-1].Item {
			return nil
		}
	}
	return errors.New("no item has two documents, so there is nothing to compare")
}

// validateListed reports the first listed pair that is invalid or repeated.
func validateListed(e *eval.Evaluation) error {
	pairs := e.Pairwise.Pairs.Listed
	if len(pairs) == 0 {
		return errors.New("no pairs are listed")
	}
	seen := make(map[[2]int]int, len(pairs))
	for i, pair := range pairs {
		a, b := pair[0], pair[1]
		if min(a, b) < 0 || max(a, b) >= len(e.Documents) {
			return fmt.Errorf("listed pair %d names documents %d and %d of %d", i+1, a, b, len(e.Documents))
		}
		first, second := e.Documents[a], e.Documents[b]
		if a == b {
			return fmt.Errorf("listed pair %d compares %q with itself", i+1, first.ID)
		}
		if first.Item != second.Item {
			return fmt.Errorf("listed pair %d compares %q of item %q with %q of item %q: both must answer one item",
				i+1, first.ID, e.Items[first.Item].ID, second.ID, e.Items[second.Item].ID)
		}
		if e.Pairwise.Order != eval.OrderAsListed { // otherwise the reverse is another question
			pair = [2]int{min(a, b), max(a, b)}
		}
		if before, ok := seen[pair]; ok {
			return fmt.Errorf("listed pair %d (%q, %q) was listed before as pair %d: ask again with trials", i+1, first.ID, second.ID, before+1)
		}
		seen[pair] = i
	}

	return nil
}
