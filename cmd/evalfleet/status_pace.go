package main

import (
	"context"
	"fmt"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

// sinkNumbers is what a sink says of an evaluation beside its counts.
type sinkNumbers struct {
	until    time.Time
	underWay bool // when they were read
	classes  map[string]int
	used     usedStanding
	paces    []results.Pace
	bound    string // the limit that most calls waited for

	statistics results.Statistics
}

// Where others look into a sink all the time, it is read again only after sinkRest
// times as long as it took, and what has ended not before endedRest.
const (
	sinkRest  = 20
	endedRest = 30 * time.Second
)

// sinkLooks are what sinks said last.
type sinkLooks map[eval.ID]*sinkNumbers

// numbers are those of a sink that read reads, now or lately; open may answer nil.
// nil: it cannot be read from here.
func (looks sinkLooks) numbers(
	ctx context.Context, line *standing, now time.Time, open func() results.Reader,
	read func(context.Context, results.Reader, *standing) (*sinkNumbers, error),
) (*sinkNumbers, error) {
	last := looks[line.Evaluation]
	if last != nil && now.Before(last.until) && last.underWay == line.underWay() {
		return last, nil
	}
	reader := open()
	if reader == nil {
		return nil, nil
	}
	defer reader.Close()
	begun := time.Now()
	numbers, err := read(ctx, reader, line)
	if err != nil {
		return nil, err
	}
	rest := sinkRest * time.Since(begun)
	if numbers.underWay = line.underWay(); !numbers.underWay {
		rest = max(rest, endedRest)
	}
	numbers.until = now.Add(rest)
	looks[line.Evaluation] = numbers
	return numbers, nil
}

// addSink adds to a standing what only the sink knows, if it can be read from
// here.
func (s *status) addSink(ctx context.Context, line *standing, r record.Evaluation, now time.Time) {
	open := func() results.Reader { return s.source.sink(ctx, r) }
	numbers, err := s.sinks.numbers(ctx, line, now, open, readNumbers)
	if err != nil {
		s.source.log.Debug().Err(err).Msg("results cannot be read from here")
	}
	if numbers == nil {
		return
	}
	line.Classes, line.Used, line.Statistics = numbers.classes, &numbers.used, &numbers.statistics
	line.Advice = numbers.statistics.Advice(line.fallback)
	if line.Budget != nil && line.Budget.SpentUSD == nil && numbers.used.Unpriced == 0 {
		line.Budget.SpentUSD = numbers.used.CostUSD
	}
	if !line.pacing() && numbers.bound != "" {
		line.BoundBy = []string{numbers.bound}
	}
	for _, pace := range numbers.paces {
		if pace.Phase < len(line.Phases) {
			phase := &line.Phases[pace.Phase]
			until := pace.Last
			if line.pacing() && phase.ended() < phase.Runs {
				until = now
			}
			phase.setRate(pace.Runs, until.Sub(pace.First), line.pacing())
		}
	}
}

// readUse reads what failed and what was used.
func readUse(ctx context.Context, reader results.Reader, line *standing) (*sinkNumbers, error) {
	numbers := &sinkNumbers{classes: map[string]int{}}
	counts, err := reader.Counts(ctx, line.Evaluation)
	if err != nil {
		return nil, err
	}
	for _, phase := range counts {
		for class, n := range phase.Classes {
			numbers.classes[class] += n
		}
	}
	totals, err := reader.CallTotals(ctx, line.Evaluation)
	if err != nil {
		return nil, err
	}
	numbers.used = usedBy(totals)
	return numbers, nil
}

// readNumbers reads all of a sink's numbers.
func readNumbers(ctx context.Context, reader results.Reader, line *standing) (*sinkNumbers, error) {
	numbers, err := readUse(ctx, reader, line)
	if err != nil {
		return nil, err
	}
	if numbers.statistics, err = reader.Statistics(ctx, line.Evaluation); err != nil {
		return nil, err
	}
	var since time.Time // after the end, and where nobody knows when it went on
	if line.pacing() {
		since = line.Created
	}
	if numbers.paces, err = reader.Pace(ctx, line.Evaluation, since); err != nil || line.pacing() {
		return numbers, err
	}
	numbers.bound, err = mostWaited(ctx, reader, line.Evaluation)
	return numbers, err
}

func usedBy(totals []results.CallTotal) usedStanding {
	var all results.Usage
	var stages []stageStanding
	for _, t := range totals {
		all = all.Plus(t.Usage)
		stages = append(stages, stageStanding{t.Model, t.Stage, used(t.Usage)})
	}
	sum := used(all)
	sum.Stages = stages
	return sum
}

func used(u results.Usage) usedStanding {
	s := usedStanding{Calls: u.Calls, FromCache: u.FromCache, Input: u.Input, Output: u.Output, Unreported: u.Unreported, Unpriced: u.Unpriced}
	if u.Calls+u.FromCache > 0 && (u.Unpriced == 0 || u.CostUSD > 0) {
		s.CostUSD = &u.CostUSD
	}
	return s
}

// mostWaited says which limit held most calls back, when most were.
func mostWaited(ctx context.Context, reader results.Reader, id eval.ID) (string, error) {
	e, err := reader.Evaluation(ctx, id)
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
	for _, limit := range e.Settings.Limits {
		if limit.ID() == waits[0].Limit {
			words = limit.String()
		}
	}
	return fmt.Sprintf("%s, %s of calls", words, percent(waits[0].Calls, calls)), nil
}

// setRate notes how fast runs ended, and from that what is left.
func (p *phaseStanding) setRate(runs int, over time.Duration, goesOn bool) {
	p.RatePerS, p.LeftS = nil, nil
	if runs <= 0 || over <= 0 {
		return
	}
	rate := float64(runs) / over.Seconds()
	p.RatePerS = &rate
	if left := p.Runs - p.ended(); goesOn && left > 0 {
		seconds := float64(left) / rate
		p.LeftS = &seconds
	}
}

// addWholeRate takes the pace from the whole time since the submission: all that
// is known where the sink cannot be read.
func (s *standing) addWholeRate(now time.Time) {
	if !s.pacing() {
		return
	}
	for i := range s.Phases {
		s.Phases[i].setRate(s.Phases[i].ended(), now.Sub(s.Created), true)
	}
}

// takeMark notes how far each phase is; from the second look on, the pace is that
// of the last rateOver.
func (s *status) takeMark(line *standing, now time.Time) {
	for i := range line.Phases {
		phase, key := &line.Phases[i], phaseKey{line.Evaluation, i}
		marks := append(s.marks[key], mark{now, phase.ended()})
		for len(marks) > 2 && now.Sub(marks[1].at) > rateOver {
			marks = marks[1:]
		}
		s.marks[key] = marks
		first, last := marks[0], marks[len(marks)-1]
		if line.pacing() && len(marks) > 1 && last.done < phase.Runs {
			phase.setRate(last.done-first.done, last.at.Sub(first.at), true)
		}
	}
}
