package reuse

import (
	"context"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/results"
)

// verdict identifies a run about a pair, by positions in the earlier evaluation.
type verdict struct{ judge, first, second, trial int }

// repeat answers the runs of a phase of recorded pairs from the evaluation that the new one has grown from, run by run:
// two documents with the same text have verdicts of their own. A fallback's verdict is taken, too. Runs that failed
// are not answered, nor are those that were decided without a call.
func (k *Known) repeat(ctx context.Context, phase int, own results.Reader) error {
	e, p := k.of.Evaluation, k.of.Plans[phase]
	stored, err := own.Evaluation(ctx, e.Board.Evaluation)
	if err != nil {
		return err
	}
	from := &earlier{id: stored.ID, kind: eval.KindPairwise, plan: stored.Plan, reader: own, answers: map[run]run{}}
	has := map[verdict]run{}
	decided := map[verdict]bool{} // without a call
	for answer, err := range from.outcomes(ctx) {
		if err != nil {
			return err
		}
		at := verdict{answer.judge, answer.first, answer.second, answer.trial}
		if has[at] = answer.run; answer.by == "" {
			decided[at] = true
		}
	}

	ended, err := EndedIn(ctx, own, k.of.Record.ID, phase)
	if err != nil {
		return err
	}
	judges, documents := from.placesOf(e)
	ofPair, recorded := plan.RunsOfPair(e, phase), map[int]bool{} // by pair
	for index := range p.Runs() {
		asks := p.Run(index)
		at := verdict{judges[asks.Judge], documents[asks.First], documents[asks.Second], asks.Trial}
		before, ok := has[at]
		delete(has, at)
		if !ok && !ended[index] {
			continue
		}

		recorded[index/ofPair] = true
		if !ended[index] && !decided[at] {
			from.answers[before] = runAt(phase, index)
			k.runs++
		}
	}
	k.from = append(k.from, from)
	k.lost = len(has) + (p.Runs()/ofPair - len(recorded))
	return nil
}

// placesOf returns the positions in the earlier evaluation of the judges and documents of another one; -1: it has none
// of that name.
func (f *earlier) placesOf(e *eval.Evaluation) (judges, documents []int) {
	byJudge, byDocument := f.places()
	at := func(places map[string]int, name string) int {
		if i, ok := places[name]; ok {
			return i
		}
		return -1
	}
	for _, judge := range e.JudgesOf(f.kind) {
		judges = append(judges, at(byJudge, judge.Name))
	}
	for _, document := range e.Documents {
		documents = append(documents, at(byDocument, document.ID))
	}
	return judges, documents
}
