package view

import (
	"context"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// storedNumbers is what a results store knows of an evaluation in addition to its counts.
type storedNumbers struct {
	until    time.Time
	underWay bool // when they were read
	classes  map[string]int
	used     Used
	paces    []results.Pace
	bound    string // the limit that most calls waited for
	stopped  *results.Stop

	statistics *results.Statistics
	result     *record.Result // from Looks.Rank
}

// MostRanked is the maximum number of runs of an evaluation that is ranked to say who leads: many more take a minute.
const MostRanked = 50_000

// A results store that is displayed continuously is read again only after storedRest times as long as the last read took.
// For an evaluation that has ended, endedRest is the minimum.
const (
	storedRest = 20
	endedRest  = 30 * time.Second
)

// addStored adds to an evaluation the data that only its results store has, if it can be read.
func (l *Looks) addStored(ctx context.Context, e *Evaluation, r record.Evaluation, now time.Time) {
	numbers, err := l.numbers(ctx, e, r, now)
	if err != nil {
		l.log.Debug().Err(err).Str("evaluation", string(e.ID)).Msg("cannot read the results from here")
	}
	if numbers == nil {
		return
	}

	if e.Result == nil {
		e.Result = numbers.result
	}
	e.Classes, e.Used, e.Statistics = numbers.classes, &numbers.used, numbers.statistics
	if why := numbers.stopped; why != nil && stillHolds(*why, r, e.Paused) {
		e.Stopped = why
	}
	if e.Statistics != nil {
		e.Advice = e.Statistics.Advice(e.Fallback)
	}
	if e.Budget != nil && e.Budget.SpentUSD == nil && numbers.used.Unpriced == 0 {
		e.Budget.SpentUSD = numbers.used.CostUSD
	}
	if !e.Active() && numbers.bound != "" {
		e.BoundBy = []string{numbers.bound}
	}
	for _, pace := range numbers.paces {
		if pace.Phase < len(e.Phases) {
			phase := &e.Phases[pace.Phase]
			until := pace.Last
			if e.Active() && phase.Ended() < phase.Runs {
				until = now
			}
			phase.setRate(pace.Runs, until.Sub(pace.First), e.Active())
		}
	}
}

// stillHolds reports whether the evaluation of a record in Redis, with some providers paused, has not been resumed
// since its results store recorded why it stopped.
func stillHolds(why results.Stop, r record.Evaluation, paused map[string]record.Pause) bool {
	if why.Known != nil {
		return r.Stopped == record.StoppedByUntil
	}
	if why.Budget > 0 {
		return r.Stopped == record.StoppedByBudget && r.Settings.Budget() == why.Budget
	}
	return len(paused) > 0 && why.Same(results.Stop{Paused: paused})
}

// numbers reads the results store of an evaluation, unless it was read lately. It returns nil if the store cannot be
// read.
func (l *Looks) numbers(ctx context.Context, e *Evaluation, r record.Evaluation, now time.Time) (*storedNumbers, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	last := l.stored[e.ID]
	if last != nil && now.Before(last.until) && last.underWay == e.UnderWay() {
		return last, nil
	}
	if l.Open == nil {
		return nil, nil
	}
	reader := l.Open(ctx, r)
	if reader == nil {
		return nil, nil
	}
	defer reader.Close()
	read := readNumbers
	if l.Brief {
		read = readUse
	}
	begun := time.Now()
	numbers, err := read(ctx, reader, e)
	if err != nil {
		return nil, err
	}

	if done := e.done(); l.Rank != nil && e.Result == nil && done > 0 && done <= MostRanked {
		if result, err := l.Rank(ctx, reader, e.ID); err == nil {
			numbers.result = &result
		} else { // the numbers are right without a ranking
			l.log.Debug().Err(err).Str("evaluation", string(e.ID)).Msg("cannot rank what is recorded so far")
		}
	}

	rest := storedRest * time.Since(begun)
	if numbers.underWay = e.UnderWay(); !numbers.underWay {
		rest = max(rest, endedRest)
	}
	numbers.until = now.Add(rest)
	l.stored[e.ID] = numbers
	return numbers, nil
}

// readUse reads failures and usage.
func readUse(ctx context.Context, reader results.Reader, e *Evaluation) (*storedNumbers, error) {
	numbers := &storedNumbers{classes: map[string]int{}}
	counts, err := reader.Counts(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	for _, phase := range counts {
		for class, n := range phase.Classes {
			numbers.classes[class] += n
		}
	}
	stored, err := reader.Evaluation(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	numbers.stopped = stored.Stopped
	totals, err := reader.CallTotals(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	numbers.used = usedBy(totals)
	return numbers, nil
}

// readNumbers reads all of a results store's numbers.
func readNumbers(ctx context.Context, reader results.Reader, e *Evaluation) (*storedNumbers, error) {
	numbers, err := readUse(ctx, reader, e)
	if err != nil {
		return nil, err
	}
	statistics, err := reader.Statistics(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	numbers.statistics = &statistics
	var since time.Time // zero after the end: all runs count
	if e.Active() {
		since = e.Created
	}
	if numbers.paces, err = reader.Pace(ctx, e.ID, since); err != nil || e.Active() {
		return numbers, err
	}
	numbers.bound, err = mostWaited(ctx, reader, e.ID)
	return numbers, err
}

// usedBy sums the calls of all models and stages.
func usedBy(totals []results.CallTotal) Used {
	var all results.Usage
	var stages []Stage
	for _, t := range totals {
		all = all.Plus(t.Usage)
		stages = append(stages, Stage{t.Model, t.Stage, used(t.Usage)})
	}
	sum := used(all)
	sum.Stages = stages
	return sum
}

func used(u results.Usage) Used {
	s := Used{Calls: u.Calls, FromCache: u.FromCache, Input: u.Input, Output: u.Output, Unreported: u.Unreported, Unpriced: u.Unpriced}
	if u.Calls+u.FromCache > 0 && (u.Unpriced == 0 || u.CostUSD > 0) {
		s.CostUSD = &u.CostUSD
	}
	return s
}

// mostWaited returns the limit that held back most calls; "" if most waited for none.
func mostWaited(ctx context.Context, reader results.Reader, id eval.ID) (string, error) {
	stored, err := reader.Evaluation(ctx, id)
	if err != nil {
		return "", err
	}
	waits, err := reader.Waits(ctx, id)
	if err != nil {
		return "", err
	}
	calls := 0
	for _, w := range waits {
		calls += w.Calls
	}
	if len(waits) == 0 || waits[0].Limit == "" {
		return "", nil
	}
	words := ratelimit.WaitedFor(waits[0].Limit)
	for _, limit := range stored.Settings.Limits {
		if limit.ID() == waits[0].Limit {
			words = limit.String()
		}
	}
	return fmt.Sprintf("%s, %s of calls", words, Percent(waits[0].Calls, calls)), nil
}

// setRate sets the phase's rate from the number of runs that ended in a time, and the time left at that rate if goesOn.
func (p *Phase) setRate(runs int, over time.Duration, goesOn bool) {
	if over <= 0 {
		runs, over = 0, time.Second
	}
	p.setPerSecond(float64(runs)/over.Seconds(), goesOn)
}

// setPerSecond sets the phase's rate in runs per second, and the time left if goesOn. A rate of 0 or less is unknown.
func (p *Phase) setPerSecond(rate float64, goesOn bool) {
	p.RatePerS, p.LeftS = nil, nil
	if rate <= 0 {
		return
	}
	p.RatePerS = &rate
	if left := p.Runs - p.Ended(); goesOn && left > 0 {
		seconds := float64(left) / rate
		p.LeftS = &seconds
	}
}

// addWholeRate computes the rate over the whole time since the submission, which is all that is known if the results
// store cannot be read.
func (e *Evaluation) addWholeRate(now time.Time) {
	if !e.Active() {
		return
	}
	for i := range e.Phases {
		e.Phases[i].setRate(e.Phases[i].Ended(), now.Sub(e.Created), true)
	}
}
