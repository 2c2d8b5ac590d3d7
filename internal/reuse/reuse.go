// Package reuse finds what earlier evaluations have recorded about exactly the same questions as a new one asks, so
// that an evaluation that has grown pays only for what is new.
//
// Two questions are the same if the model, its settings, the template, the texts, their order and the trial are. The
// names of evaluations, judges and candidates do not matter; ids of documents do if judges see them. Only answers of
// the model that was asked are used, and each of them once. The recorded pairs of a ranking that grows are matched by
// their documents and judges instead, and all their verdicts are used. A run that is answered this way has one call that is marked
// as cached, so it counts as answered before and costs nothing.
package reuse

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const (
	batch = 1000 // runs that are stored in one transaction
	// mostFound bounds the answers that are held in memory, about 60 bytes each. The rest is asked.
	mostFound = 2_000_000
)

// Asking is an evaluation that is about to begin.
type Asking struct {
	Evaluation *eval.Evaluation
	Record     record.Evaluation // as enqueue.Plan returns it with Plans
	Plans      []*plan.Plan
	Fresh      bool // no answer is used again except to recorded pairs of a ranking that grows
}

// Known contains the runs of an evaluation that earlier evaluations have answered.
type Known struct {
	of   Asking
	from []*earlier
	runs int
	lost int
}

// answered is the part of a results store from which answers are read.
type answered interface {
	PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[results.PairwiseRow, error]
	SingleRows(ctx context.Context, id eval.ID) iter.Seq2[results.SingleRow, error]
	Responses(ctx context.Context, id eval.ID) iter.Seq2[results.RunRow, error]
}

// earlier is a recorded evaluation, and which of its runs of a kind answer those of the new one.
type earlier struct {
	id      eval.ID
	kind    eval.Kind
	plan    *eval.Evaluation
	reader  answered
	whole   bool            // every run that it planned has ended
	models  map[digest]bool // shared with the new one: judges with all that is the same in their runs
	texts   map[string]bool // likewise: hashes of documents
	answers map[run]run     // by the earlier run
}

// run is a run by its phase and index.
type run struct{ phase, index int32 }

// recorded is where an answer is.
type recorded struct {
	in  *earlier
	run run
}

// Find looks for answers to an evaluation's questions in the results store that has or will have the evaluation (nil:
// it does not exist yet), and in others. Runs that are recorded already are left as they are, and so are runs of phases
// that depend on earlier phases. Stores must stay open while the result is used.
func Find(ctx context.Context, of Asking, own results.Reader, others ...results.Reader) (*Known, error) {
	in := others
	if own != nil {
		in = append([]results.Reader{own}, others...)
	}

	k := &Known{of: of}
	if of.Record.Settings.Until != nil || of.Evaluation.Anchors != nil {
		return k, nil // it relies on the order in which pairs are compared, or asks to see whether answers change
	}
	grown := slices.IndexFunc(of.Plans, func(p *plan.Plan) bool { return plan.Recorded(of.Evaluation, slices.Index(of.Plans, p)) })
	if grown >= 0 && own != nil {
		if err := k.repeat(ctx, grown, own); err != nil {
			return nil, err
		}
	}
	if of.Fresh {
		return k, nil
	}
	before, err := storedBefore(ctx, of.Record.ID, in)
	if err != nil || len(before) == 0 {
		return k, err
	}

	for _, kind := range []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPrompts} {
		if !reusable(of.Evaluation, kind) || kind == eval.KindPairwise && grown >= 0 {
			continue
		}
		asks, found := newQuestions(of.Evaluation, kind), map[digest]recorded{}
		for _, one := range before {
			if err := k.search(ctx, one, asks, found); err != nil {
				return nil, err
			}
		}
		if err := k.match(ctx, asks, found, own); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Open opens the results stores that can be read, and logs the others. Call closeAll once nothing reads them any more.
func Open(ctx context.Context, urls []string, log zerolog.Logger) (readers []results.Reader, closeAll func()) {
	for _, url := range urls {
		reader, err := results.OpenReadOnly(ctx, url)
		if err != nil {
			log.Warn().Err(err).Str("store", url).Msg("cannot look for answers in an earlier results store")
			continue
		}
		readers = append(readers, reader)
	}
	return readers, func() {
		for _, reader := range readers {
			_ = reader.Close()
		}
	}
}

// storedIn is an evaluation in a results store.
type storedIn struct {
	results.Evaluation
	reader results.Reader
}

// storedBefore returns the evaluations other than one that results stores have, those of the first store first and of
// each store the newest first.
func storedBefore(ctx context.Context, than eval.ID, in []results.Reader) (all []storedIn, err error) {
	for _, reader := range in {
		listed, err := reader.Evaluations(ctx)
		if err != nil {
			return nil, err
		}
		for _, one := range slices.Backward(listed) {
			if one.ID == than {
				continue
			}
			stored, err := reader.Evaluation(ctx, one.ID)
			if err != nil {
				return nil, err
			}
			all = append(all, storedIn{stored, reader})
		}
	}
	return all, nil
}

// search adds the answers to an evaluation's questions that another one has.
func (k *Known) search(ctx context.Context, in storedIn, asks *questions, found map[digest]recorded) error {
	if !reusable(in.Plan, asks.kind) || in.Plan.Given != nil || in.Plan.Anchors != nil {
		return nil
	}

	from := &earlier{
		id: in.ID, kind: asks.kind, plan: in.Plan, reader: in.reader, answers: map[run]run{},
		whole: !in.Finished.IsZero() && in.Settings.Limit == 0,
	}
	had := newQuestions(in.Plan, asks.kind)
	from.share(asks, had)
	if len(from.models) == 0 || len(from.texts) == 0 || slices.ContainsFunc(k.from, from.isPartOf) {
		return nil
	}
	k.from = append(k.from, from)
	return from.add(ctx, had, found)
}

// share notes which judges and texts of an evaluation are also those of the new one.
func (f *earlier) share(asks, had *questions) {
	f.models, f.texts = map[digest]bool{}, map[string]bool{}
	for _, asked := range had.asked {
		if slices.Contains(asks.asked, asked) {
			f.models[asked] = true
		}
	}

	wanted := map[string]bool{}
	for _, document := range asks.shown {
		wanted[document.Hash] = document.Hash != ""
	}
	for _, document := range had.shown {
		if wanted[document.Hash] {
			f.texts[document.Hash] = true
		}
	}
}

// isPartOf reports whether another evaluation of the same design has asked all that this one has, of what the new one
// asks. An evaluation that grows by and by has many such parts, and they need not be read.
func (f *earlier) isPartOf(other *earlier) bool {
	if f.kind != other.kind || !other.whole || !within(f.models, other.models) || !within(f.texts, other.texts) {
		return false
	}
	if other.plan.Grew(f.id) {
		return true
	}
	switch f.kind {
	case eval.KindSingle:
		return f.plan.Single.Trials <= other.plan.Single.Trials
	case eval.KindPairwise:
		mine, its := f.plan.Pairwise, other.plan.Pairwise
		return its.Pairs.Mode == eval.PairsAll && its.TopN == 0 && its.Apart == mine.Apart && its.Order == eval.OrderBoth &&
			mine.Trials <= its.Trials
	}
	return true
}

func within[K comparable](some, all map[K]bool) bool {
	for key := range some {
		if !all[key] {
			return false
		}
	}
	return true
}

// add adds the answers of an evaluation that the new one may need to those found, up to a bound.
func (f *earlier) add(ctx context.Context, had *questions, found map[digest]recorded) error {
	for answer, err := range f.outcomes(ctx) {
		if err != nil {
			return err
		}
		if answer.other || !f.models[had.asked[answer.judge]] || !f.texts[had.shown[answer.first].Hash] ||
			answer.second >= 0 && !f.texts[had.shown[answer.second].Hash] {
			continue
		}

		question, ok := had.of(answer.judge, answer.first, answer.second, answer.trial)
		if _, before := found[question]; !ok || before {
			continue
		}
		if len(found) == mostFound {
			return nil
		}
		found[question] = recorded{f, answer.run}
	}
	return nil
}

// match assigns the answers that were found to runs of the new evaluation which own has not recorded.
func (k *Known) match(ctx context.Context, asks *questions, found map[digest]recorded, own results.Reader) error {
	if len(found) == 0 {
		return nil
	}
	nth := occurrences(k.of.Evaluation, asks.kind)
	for phase, p := range k.of.Plans {
		if p.Kind() != asks.kind || plan.BasisOf(k.of.Evaluation, phase) != plan.Fixed {
			continue
		}
		ended, err := EndedIn(ctx, own, k.of.Record.ID, phase)
		if err != nil {
			return err
		}
		for index := range p.Runs() {
			if ended[index] {
				continue
			}

			run := p.Run(index)
			trial := run.Trial
			if nth != nil {
				trial = nth[index]
			}
			question, ok := asks.of(run.Judge, run.First, run.Second, trial)
			if !ok {
				continue
			}
			if at, ok := found[question]; ok {
				at.in.answers[at.run] = runAt(phase, index)
				delete(found, question) // another run with the same question asks for an opinion of its own
				k.runs++
			}
		}
	}
	return nil
}

// EndedIn returns the runs of a phase that a results store has; nil: there is no store.
func EndedIn(ctx context.Context, own results.Reader, id eval.ID, phase int) (map[int]bool, error) {
	ended := map[int]bool{}
	if own == nil {
		return ended, nil
	}
	for state, err := range own.States(ctx, id, phase) {
		if err != nil {
			return nil, err
		}
		ended[state.Index] = true
	}
	return ended, nil
}

func runAt(phase, index int) run { return run{int32(phase), int32(index)} }

// occurrences returns, for prompts, how often the same prompt has been listed for the same model up to each, from 1;
// nil for other kinds.
func occurrences(e *eval.Evaluation, kind eval.Kind) []int {
	if kind != eval.KindPrompts {
		return nil
	}
	type same struct {
		model int
		text  string
	}
	seen := map[same]int{}
	nth := make([]int, len(e.Prompts.List))
	for i, prompt := range e.Prompts.List {
		of := same{prompt.Model, e.Prompts.Rows[prompt.Row].Hash}
		seen[of]++
		nth[i] = seen[of]
	}
	return nth
}

// Lost returns how many verdicts on recorded pairs cannot be used because the results store no longer has them, or has
// them for other runs. If it is not 0, the evaluation would ask about recorded pairs again.
func (k *Known) Lost() int { return k.lost }

// Runs returns how many runs are answered already.
func (k *Known) Runs() int { return k.runs }

// ByPhase returns the runs of each phase that are answered already, by index.
func (k *Known) ByPhase() []map[int]bool {
	all := make([]map[int]bool, len(k.of.Plans))
	for phase := range all {
		all[phase] = map[int]bool{}
	}
	for _, from := range k.from {
		for _, to := range from.answers {
			all[to.phase][int(to.index)] = true
		}
	}
	return all
}

// String says how many runs are known, and from which evaluations. At least one must be.
func (k *Known) String() string {
	planned := 0
	for _, p := range k.of.Plans {
		planned += p.Runs()
	}

	const most = 2 // evaluations that are named
	var from []string
	for _, earlier := range k.from {
		if len(earlier.answers) > 0 && !slices.Contains(from, string(earlier.id)) {
			from = append(from, string(earlier.id))
		}
	}
	if more := len(from) - most; more > 0 {
		from = append(from[:most], fmt.Sprintf("%d more", more))
	}
	named := from[len(from)-1]
	if len(from) > 1 {
		named = strings.Join(from[:len(from)-1], ", ") + " and " + named
	}
	return fmt.Sprintf("%s of %s are known from %s", wording.Count(k.runs), wording.Counted(planned, "run"), named)
}

// Store records the runs in a results store that has the evaluation. It may be repeated after a failure: Find then
// leaves out what was stored.
func (k *Known) Store(ctx context.Context, db results.Store) error {
	var entries []record.Entry
	flush := func() error {
		err := db.Append(ctx, k.of.Record.ID, entries)
		entries = entries[:0]
		return err
	}

	for _, from := range k.from {
		if len(from.answers) == 0 {
			continue
		}
		for answer, err := range from.outcomes(ctx) {
			if err != nil {
				return err
			}
			to, ok := from.answers[answer.run]
			if !ok {
				continue
			}
			if entries = append(entries, k.entry(to, answer)); len(entries) == batch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// entry returns what is recorded of a run that an earlier answer answers.
func (k *Known) entry(at run, answer outcome) record.Entry {
	p := k.of.Plans[at.phase]
	of, e := p.Run(int(at.index)), k.of.Evaluation
	judge, shown := e.JudgesOf(p.Kind())[of.Judge], e.Shown(p.Kind())
	now := time.Now().UTC()
	ended := record.Run{
		Phase: int(at.phase), Index: int(at.index), Kind: p.Kind(), State: eval.StateSucceeded.String(),
		Queue: k.of.Record.Phases[at.phase].JudgeQueues[of.Judge], Judge: judge.Name, Model: judge.Target(),
		AnsweredBy: cmp.Or(answer.by, judge.Target()),
		Item:       e.Items[shown[of.First].Item].ID, Trial: of.Trial,
		Reason: answer.reason, Scores: answer.scores, Answer: answer.text, Answers: answer.texts, Finish: answer.finish,
		Started: now, Ended: now, Worker: worker,
	}
	documents := [2]int{of.First, of.Second}
	for _, i := range documents[:count(of.Second)] {
		ended.Documents = append(ended.Documents, shown[i].ID)
		ended.Candidates = append(ended.Candidates, shown[i].Candidate)
	}

	stage := "verdict"
	switch {
	case p.Kind() == eval.KindPrompts:
		stage, ended.Name = "answer", e.Prompts.List[at.index].ID
	case p.Kind() == eval.KindPairwise:
		answer.preferences(&ended)
	}

	free := 0.0
	call := record.Call{
		ID: fmt.Sprintf("%d.%d.0-%s-1", at.phase, at.index, worker), Phase: ended.Phase, Index: ended.Index, Stage: stage,
		Model: ended.AnsweredBy, Attempt: 1, Asked: now, Ended: now, Worker: worker, Cached: true, Finish: answer.finish,
	}
	call.Usage.Reported, call.Usage.CostUSD = true, &free
	return record.Entry{Run: &ended, Calls: []record.Call{call}}
}

// preferences sets the verdict on a pair by the documents of the new run.
func (o outcome) preferences(ended *record.Run) {
	winners := []string{eval.Tie, ended.Documents[0], ended.Documents[1]}
	ended.Winner, ended.Degree, ended.Chances = winners[o.winner], o.degree, o.chances
	for _, p := range o.criteria {
		ended.Criteria = append(ended.Criteria, record.Preference{Criterion: p.criterion, Winner: winners[p.winner], Degree: p.degree})
	}
}

// worker is recorded as the worker of runs that no worker processed.
const worker = "reused"
