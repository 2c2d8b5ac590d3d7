package plain

import (
	"cmp"
	"context"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// spending sums the money that calls have cost so far.
type spending struct {
	usd      float64
	calls    int
	unpriced int
	whole    bool // it has the calls of earlier commands
	partial  bool // it lacks them
}

// recordedSpending sums the calls in a results store.
func recordedSpending(ctx context.Context, from results.Reader, id eval.ID) (spending, error) {
	s := spending{whole: true}
	totals, err := from.CallTotals(ctx, id)
	for _, t := range totals {
		s.usd += t.CostUSD
		s.calls += t.Calls
		s.unpriced += t.Unpriced
	}
	return s, err
}

// add adds a call. As in a results store, a call counts as possibly charged if it was answered or says so.
func (s *spending) add(c record.Call) {
	if c.Cached {
		return
	}
	s.calls++
	switch {
	case c.Usage.CostUSD != nil:
		s.usd += *c.Usage.CostUSD
	case c.Class == "" || c.MaybeBill:
		s.unpriced++
	}
}

// String returns the money spent so far; "" if it is unknown.
func (s *spending) String() string {
	if s.calls == 0 || s.partial || s.unpriced == s.calls {
		return ""
	}
	if s.unpriced > 0 {
		return "over " + ratelimit.USD(s.usd)
	}
	return ratelimit.USD(s.usd)
}

// mostRecounted is how many recorded verdicts or scores are read again to know the leader. Reading them takes well under a
// second.
const mostRecounted = 100_000

// standings finds the candidate that leads so far: the one that won most of its comparisons, or has the highest mean score
// if nothing is compared. It is only a preview: it corrects for no opponent and no judge, as the ranking does.
type standings struct {
	won     map[string]share
	scored  map[string]share
	whole   bool // it has the verdicts of earlier commands
	partial bool // it lacks them
}

// share is a sum over a number of verdicts or scores.
type share struct {
	sum float64
	of  int
}

// recordedStandings reads the verdicts and scores in a results store. If they are too many, no leader is known.
func recordedStandings(ctx context.Context, from results.Reader, id eval.ID) (standings, error) {
	var s standings
	counts, err := from.Counts(ctx, id)
	ended := 0
	for _, phase := range counts {
		ended += phase.Succeeded
	}
	if err != nil || ended > mostRecounted {
		return s, err
	}

	s.whole = true
	for row, err := range from.PairwiseRows(ctx, id) {
		if err != nil {
			return s, err
		}
		s.compare(row.Document1, row.Candidate1, row.Candidate2, row.Winner)
	}
	for row, err := range from.SingleRows(ctx, id) {
		if err != nil {
			return s, err
		}
		s.score(row.Candidate, row.Criterion, row.Score)
	}
	return s, nil
}

// add adds the outcome of a run.
func (s *standings) add(r record.Run) {
	if r.State != eval.StateSucceeded.String() {
		return
	}
	switch {
	case r.Kind == eval.KindPairwise && len(r.Candidates) == 2 && len(r.Documents) == 2:
		s.compare(r.Documents[0], r.Candidates[0], r.Candidates[1], r.Winner)
	case r.Kind == eval.KindSingle && len(r.Candidates) == 1:
		for _, score := range r.Scores {
			s.score(r.Candidates[0], score.Criterion, score.Score)
		}
	}
}

// compare adds a verdict on two candidates, of which the first has a document. A tie is half a win for each.
func (s *standings) compare(document, first, second, winner string) {
	if first == second {
		return
	}
	points := 0.0
	switch winner {
	case eval.Tie:
		points = 0.5
	case document:
		points = 1
	}

	if s.won == nil {
		s.won = map[string]share{}
	}
	one, other := s.won[first], s.won[second]
	s.won[first] = share{one.sum + points, one.of + 1}
	s.won[second] = share{other.sum + 1 - points, other.of + 1}
}

// score adds a score of a candidate. Which criteria of a rubric are met is no score without their points.
func (s *standings) score(candidate, criterion string, score float64) {
	if eval.IsRubricID(criterion) {
		return
	}
	if s.scored == nil {
		s.scored = map[string]share{}
	}
	before := s.scored[candidate]
	s.scored[candidate] = share{before.sum + score, before.of + 1}
}

// leader says who leads so far; "" if that is unknown.
func (s *standings) leader() string {
	if s.partial {
		return ""
	}
	if name, of := best(s.won, 1); name != "" {
		return fmt.Sprintf("%s leads (%s of %d)", quoted(name), view.Percent(int(2*of.sum), 2*of.of), of.of)
	}
	if name, of := best(s.scored, 0); name != "" {
		return fmt.Sprintf("%s leads (mean %.2f)", quoted(name), of.sum/float64(of.of))
	}
	return ""
}

// best returns who has the highest mean. Two values of prior/2 count with each, so that one win does not beat many.
func best(all map[string]share, prior float64) (name string, of share) {
	mean := func(s share) float64 { return (s.sum + prior) / (float64(s.of) + 2*prior) }
	for candidate, s := range all {
		if d := cmp.Compare(mean(s), mean(of)); name == "" || d > 0 || d == 0 && candidate < name {
			name, of = candidate, s
		}
	}
	return name, of
}

func quoted(name string) string { return "“" + harmless.Short(harmless.OneLine(name), 24) + "”" }
