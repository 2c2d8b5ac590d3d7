package plain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	redrawEvery = 200 * time.Millisecond // on a terminal
	// ReportEvery is the time between lines that report progress elsewhere.
	ReportEvery = 10 * time.Second
	// boundOver is how many of the last calls determine which limit binds.
	boundOver = 200
	barCells  = 20
)

// Screen is the output for progress: lines, and on a terminal one line below them that is redrawn.
type Screen interface {
	io.Writer
	Report(line string, facts map[string]any) // a line, and what a program reads instead of it
	IsTerminal() bool
	SetFoot(line string)
	Width() int // in columns
}

// Progress shows the progress of an evaluation. It is a collect.Observer.
type Progress struct {
	id     eval.ID
	name   string
	bounds map[string]string // words for the ids of limits
	screen Screen

	mu     sync.Mutex // guards all below
	counts collect.Counts
	begun  bool // counts are known
	tokens int64
	pace   view.Pace
	bound  []string // the limit that each of the last calls waited for, "" for none
	waits  string   // why the pace is unknown; empty: it is known
	held   string   // what holds calls back, in words
	halted bool     // no call starts because of it
	money  spending
	ahead  standings
}

// NewProgress returns a Progress that shows an evaluation's progress on a screen while Show runs.
func NewProgress(to Screen, r record.Evaluation) *Progress {
	return &Progress{id: r.ID, name: r.Name, screen: to, bounds: r.Settings.BoundWords()}
}

// Recorded counts what the results store has already: the money spent, and the verdicts. Without it, Progress shows
// neither for an evaluation that resumes.
func (p *Progress) Recorded(ctx context.Context, from results.Reader, id eval.ID) error {
	money, err := recordedSpending(ctx, from, id)
	if err != nil {
		return err
	}
	ahead, err := recordedStandings(ctx, from, id)
	if err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.money, p.ahead = money, ahead
	return nil
}

// Counted implements collect.Observer. The pace restarts if fewer runs have ended than before.
func (p *Progress) Counted(now collect.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun || now.Ended < p.counts.Ended {
		p.pace.Restart(time.Now(), now.Ended)
	}
	if !p.begun && now.Ended > 0 { // by earlier commands: only Recorded knows what they spent and found
		p.money.partial = !p.money.whole
		p.ahead.partial = !p.ahead.whole
	}
	p.counts, p.begun = now, true
}

// Committed implements collect.Observer. It counts the tokens of new calls and the limits they waited for.
func (p *Progress) Committed(entries []record.Entry, counts collect.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		for _, call := range e.Calls {
			p.tokens += call.Usage.Input + call.Usage.Output
			p.bound = append(p.bound, call.BoundBy)
			p.money.add(call)
		}
		if e.Run != nil {
			p.ahead.add(*e.Run)
		}
	}
	if extra := len(p.bound) - boundOver; extra > 0 {
		p.bound = p.bound[extra:]
	}
	p.counts = counts
	p.pace.Note(time.Now(), counts.Ended)
}

// Waiting implements collect.Observer. It shows why results cannot be collected; nil: they can again, and the pace
// restarts.
func (p *Progress) Waiting(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case why == nil:
		p.waits = ""
		p.pace.Restart(time.Now(), p.counts.Ended)
	case errors.Is(why, results.ErrBusy):
		p.waits = "the results database is locked"
	default:
		p.waits = outage.Words(why)
	}
}

// Held implements collect.Observer. It shows what holds calls back. While none starts, it shows no
// pace and no time left, which would come from the past.
func (p *Progress) Held(hold collect.Hold) {
	var words []string
	for _, by := range hold.Others {
		words = append(words, "waiting for "+by)
	}
	for _, c := range view.Cooldowns(hold.Cooldowns, view.AllLimits) {
		text := c.Text(time.Now())
		if !c.Parked {
			text = "waiting for " + text
		}
		words = append(words, text)
	}

	p.mu.Lock()
	begins := p.held == "" && len(words) > 0
	p.held, p.halted = strings.Join(words, "; "), hold.All
	if p.halted {
		p.pace.Restart(time.Now(), p.counts.Ended)
	}
	p.mu.Unlock()

	if begins && !p.screen.IsTerminal() { // the hold may be over when the next line is due
		if line := p.line(); line != "" {
			p.screen.Report(line, p.facts())
		}
	}
}

// Show draws progress until ctx ends: over one line on a terminal, otherwise a line every ten seconds.
func (p *Progress) Show(ctx context.Context) {
	every := ReportEvery
	if p.screen.IsTerminal() {
		every = redrawEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	defer p.screen.SetFoot("")
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		switch line := p.line(); {
		case line == "":
		case p.screen.IsTerminal():
			p.screen.SetFoot(wording.Columns.Truncate(line, p.room(), "…"))
		default:
			p.screen.Report(line, p.facts())
		}
	}
}

// facts returns the progress for programs.
func (p *Progress) facts() map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Facts(p.id, p.counts)
}

// Facts returns counts as the fields of a line about the progress of an evaluation.
func Facts(id eval.ID, counts collect.Counts) map[string]any {
	return map[string]any{"evaluation": id, "runs": counts.Planned, "ended": counts.Ended, "failed": counts.Failed}
}

// line returns the progress on one line, "" before anything is known: "essays 412/1104 · 3 failed · 56/s · 0:12 left ·
// bound by max_concurrency 5 · 0.8M tokens · $0.31". On a terminal, a bar and the share of runs that have ended follow the
// name, and the money and the leader so far come before what explains the pace.
func (p *Progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		return ""
	}
	onTerminal := p.screen != nil && p.screen.IsTerminal()
	parts := []string{fmt.Sprintf("%s %d/%d", p.name, p.counts.Ended, p.counts.Planned)}
	if onTerminal {
		parts[0] = p.barred()
	}
	if p.counts.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", p.counts.Failed))
	}
	if p.waits != "" {
		return strings.Join(append(parts, p.waits), " · ")
	}
	if p.held != "" {
		parts = append(parts, p.held)
	}
	if p.halted {
		return strings.Join(parts, " · ")
	}
	p.pace.Note(time.Now(), p.counts.Ended)
	pace := ""
	if rate, known := p.pace.PerSecond(); known && rate > 0 {
		pace = formatRate(rate)
		parts = append(parts, pace)
		if left := p.counts.Planned - p.counts.Ended; left > 0 {
			parts = append(parts, formatLeft(time.Duration(float64(left)/rate*float64(time.Second)))+" left")
		}
	}

	var why []string
	if bound := p.binding(); bound != "" {
		why = append(why, "limited by "+bound)
	}
	if p.tokens > 0 {
		why = append(why, formatCount(p.tokens)+" tokens")
	}
	var found []string
	if money := p.money.String(); money != "" {
		found = append(found, money)
	}
	if !onTerminal {
		return strings.Join(slices.Concat(parts, why, found), " · ")
	}
	if leader := p.ahead.leader(); leader != "" {
		found = append(found, leader)
	}
	return fitted(slices.Concat(parts, found, why), p.room(), append(why, pace))
}

// room returns how many columns of the terminal a line may take.
func (p *Progress) room() int { return p.screen.Width() - len("^C") - 1 } // which the terminal may add

// fitted joins parts of a line. As long as it is too wide, it leaves out the last part of spare, so that what the width
// would cut is not who leads.
func fitted(parts []string, width int, spare []string) string {
	for _, next := range slices.Backward(spare) {
		if wording.Columns.StringWidth(strings.Join(parts, " · ")) <= width {
			break
		}
		if at := slices.Index(parts, next); at >= 0 {
			parts = slices.Delete(parts, at, at+1)
		}
	}
	return strings.Join(parts, " · ")
}

// barred returns the name, a bar, the share of runs that have ended, and their number.
func (p *Progress) barred() string {
	cells := barCells
	if p.screen.Width() < 80 {
		cells /= 2
	}
	done, planned := p.counts.Ended, max(1, p.counts.Planned)
	full := min(cells, cells*done/planned)
	return fmt.Sprintf("%s %s%s %s %d/%d", harmless.Short(p.name, p.screen.Width()/4), strings.Repeat("█", full),
		strings.Repeat("░", cells-full), view.Percent(done, planned), done, p.counts.Planned)
}

// binding returns the limit that most of the last calls waited for, in words; "" if most waited for none.
func (p *Progress) binding() string {
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
