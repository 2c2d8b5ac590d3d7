package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/results"
)

const (
	redrawEvery = 200 * time.Millisecond // on a terminal
	reportEvery = 10 * time.Second       // elsewhere
	// rateOver is how far back the pace is taken from.
	rateOver = 15 * time.Second
	// boundOver is how many of the last calls say what limit binds.
	boundOver = 200
)

// progress counts an evaluation's runs as they are committed to the sink and
// shows how far it is.
type progress struct {
	name    string
	bounds  map[string]string // words for the ids of limits
	console *console
	count   func(context.Context) ([]results.PhaseCounts, error) // of the sink

	mu     sync.Mutex // guards all below
	total  int        // planned
	done   int        // ended, in whatever way
	failed int
	tokens int64
	marks  []mark   // of the last rateOver
	bound  []string // limit that each of the last calls waited for, "" for none
	waits  string   // why nothing can be known of the pace; empty: it is known
	parked string   // providers that wait for the next day, in words
}

// mark is how many runs had ended at a time.
type mark struct {
	at   time.Time
	done int
}

// watchProgress starts with what the sink has already.
func watchProgress(ctx context.Context, c *console, sink results.Reader, r record.Evaluation, total int) (*progress, error) {
	p := &progress{
		name: r.Name, total: total, console: c, bounds: r.Settings.BoundWords(),
		count: func(ctx context.Context) ([]results.PhaseCounts, error) { return sink.Counts(ctx, r.ID) },
	}
	if err := p.recount(ctx); err != nil {
		return nil, err
	}
	p.marks = []mark{{time.Now(), p.done}}
	return p, nil
}

// recount takes the numbers from the sink: an entry may be committed twice, and
// success may replace failure.
func (p *progress) recount(ctx context.Context) error {
	counts, err := p.count(ctx)
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.failed = 0, 0
	for _, phase := range counts {
		p.done += phase.Succeeded + phase.Failed + phase.Cancelled
		p.failed += phase.Failed
	}
	return nil
}

// again takes back the runs that failed before and are made again.
func (p *progress) again(ctx context.Context, sink results.Reader, id eval.ID, retry func(enqueue.Recorded) bool) error {
	again := 0
	for run, err := range sink.Runs(ctx, id, eval.StateFailed) {
		if err != nil {
			return sinkError(err)
		}
		if retry(enqueue.Recorded{Phase: run.Phase, Index: run.Index, State: eval.StateFailed, Generation: run.Generation}) {
			again++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done -= again
	p.failed -= again
	p.marks = []mark{{time.Now(), p.done}}
	return nil
}

// committed counts the entries of a commit.
func (p *progress) committed(entries []record.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		for _, call := range e.Calls {
			p.tokens += call.Usage.Input + call.Usage.Output
			p.bound = append(p.bound, call.BoundBy)
		}
		if e.Run == nil {
			continue
		}
		p.done++
		if e.Run.State == eval.StateFailed.String() {
			p.failed++
		}
	}
	if extra := len(p.bound) - boundOver; extra > 0 {
		p.bound = p.bound[extra:]
	}
	now := time.Now()
	p.marks = append(p.marks, mark{now, p.done})
	for len(p.marks) > 2 && now.Sub(p.marks[1].at) > rateOver {
		p.marks = p.marks[1:]
	}
}

// waiting notes why nothing comes, and nil when it comes again. What was seen of
// the pace before says nothing then.
func (p *progress) waiting(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case why == nil:
		p.waits = ""
		p.marks = []mark{{time.Now(), p.done}}
	case errors.Is(why, results.ErrBusy):
		p.waits = "the results database is locked"
	default:
		p.waits = "Redis does not answer"
	}
}

// parkedBy notes which providers wait for the next day, in words; empty: none.
func (p *progress) parkedBy(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = words
}

// complete reports whether so many runs are in the sink.
func (p *progress) complete(ctx context.Context, runs int) (bool, error) {
	if p.ended() < runs {
		return false, nil
	}
	err := p.recount(ctx)
	return p.ended() >= runs, err
}

// planned is how many runs there are, at most.
func (p *progress) planned() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// replan notes how many runs there are, which is fewer than planned where a phase that
// follows from results compares less than it might have.
func (p *progress) replan(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}

// show draws progress until ctx ends: over one line on a terminal, a line every
// ten seconds elsewhere.
func (p *progress) show(ctx context.Context) {
	every := reportEvery
	if p.console.terminal {
		every = redrawEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	defer p.console.setFoot("")
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if p.console.terminal {
			p.console.setFoot(clip(p.line(), p.console.width()-len("^C")-1)) // which the terminal may add
		} else {
			fmt.Fprintln(p.console, p.line())
		}
	}
}

// line says how far it is: "essays 412/1104 · 3 failed · 56/s · 0:12 left ·
// bound by max_concurrency 5 · 0.8M tokens".
func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := []string{fmt.Sprintf("%s %d/%d", p.name, p.done, p.total)}
	if p.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", p.failed))
	}
	if p.waits != "" {
		return strings.Join(append(parts, p.waits), " · ")
	}
	if p.parked != "" {
		parts = append(parts, p.parked)
	}
	first, last := p.marks[0], p.marks[len(p.marks)-1]
	if elapsed := time.Since(first.at).Seconds(); last.done > first.done && elapsed > 0 {
		rate := float64(last.done-first.done) / elapsed
		parts = append(parts, formatRate(rate))
		if left := p.total - p.done; left > 0 {
			parts = append(parts, formatLeft(time.Duration(float64(left)/rate*float64(time.Second)))+" left")
		}
	}
	if bound := p.binding(); bound != "" {
		parts = append(parts, "bound by "+bound)
	}
	if p.tokens > 0 {
		parts = append(parts, formatCount(p.tokens)+" tokens")
	}
	return strings.Join(parts, " · ")
}

// binding is the limit that most of the last calls waited for, in words; ""
// when most waited for none.
func (p *progress) binding() string {
	counts := map[string]int{}
	for _, id := range p.bound {
		counts[id]++
	}
	most := ""
	for id, n := range counts {
		if n > counts[most] {
			most = id
		}
	}
	if words, ok := p.bounds[most]; ok {
		return words
	}
	return ratelimit.WaitedFor(most)
}

func formatRate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return fmt.Sprintf("%.0f/s", perSecond)
	case perSecond >= 0.5:
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.1f/min", 60*perSecond)
}

func formatLeft(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func formatCount(n int64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// clip shortens a line to a number of columns.
func clip(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns || columns < 2 {
		return line
	}
	return string([]rune(line)[:columns-1]) + "…"
}

// ended is how many runs have been committed.
func (p *progress) ended() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}
