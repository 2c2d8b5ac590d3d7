package plain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
)

// Status returns the list of evaluations as text in lines of at most columns.
func Status(list []view.Evaluation, now time.Time, columns int) string {
	return written(columns, func(out *lines.Writer) {
		if len(list) == 0 {
			out.Line("no evaluations; `evalfleet enqueue FILE` or `evalfleet run FILE` creates one")
			return
		}
		for i, line := range list {
			if i > 0 {
				out.Blank()
			}
			writeEvaluation(out, line, now)
		}
		writeFleet(out, list)
	})
}

func writeEvaluation(out *lines.Writer, s view.Evaluation, now time.Time) {
	behind := fmt.Sprintf("%s  %s", s.ID, s.Status)
	if !s.Created.IsZero() {
		behind += fmt.Sprintf(", submitted %s ago", ago(now.Sub(s.Created)))
	}
	title(out, s.Name, behind)
	if s.Unreadable != "" {
		detail(out, s.Unreadable)
		detail(out, "workers and controllers of this version skip it; make sure that all have the version that wrote it")
	}

	for _, phase := range s.Phases {
		writePhase(out, phase)
	}
	if r := s.Result; r != nil {
		for part := range strings.SplitAfterSeq(r.Headline, "; ") {
			detail(out, part)
		}
		if r.Reliance != nil {
			for part := range strings.SplitAfterSeq(r.Reliance.Line(), ". ") {
				detail(out, part)
			}
		}
	}

	if u := s.Used; u != nil && u.Calls+u.FromCache > 0 {
		detail(out, usedText(*u))
		if len(u.Stages) > 1 {
			for _, stage := range u.Stages {
				out.Wrap("    ", fmt.Sprintf("%s, %s: %s", harmless.Short(harmless.OneLine(stage.Model), 40), stage.Stage, usedText(stage.Used)))
			}
		}
	}

	switch {
	case s.Stopped != nil:
		detail(out, s.Stopped.String())
		if remedy := s.Stopped.Remedy(); remedy != "" {
			detail(out, remedy)
		}
	case s.Budget != nil:
		detail(out, s.Budget.String())
	}

	for _, provider := range slices.Sorted(maps.Keys(s.Paused)) {
		p := s.Paused[provider]
		detail(out, fmt.Sprintf("provider %s is paused, %s", provider, p))
		detail(out, p.Remedy()+"; then run `evalfleet resume`")
	}

	if s.Fallback != nil && s.Statistics != nil {
		detail(out, s.Statistics.String())
	}
	for _, advice := range s.Advice {
		why, change, _ := strings.Cut(advice, ": ")
		detail(out, why+":")
		out.Wrap("    ", harmless.OneLine(change))
	}

	if len(s.Classes) > 0 {
		detail(out, "failed: "+view.ClassesText(s.Classes))
	}
	if s.Batches != nil {
		detail(out, s.Batches.String())
	}
	switch {
	case len(s.BoundBy) > 0 && s.Active():
		detail(out, "limited by "+strings.Join(s.BoundBy, "; "))
	case len(s.BoundBy) > 0:
		detail(out, "was limited by "+s.BoundBy[0])
	}

	if s.Uncollected > 0 {
		detail(out, wording.Counted(int(s.Uncollected), "result")+" in Redis to be collected")
		if s.Unattended && s.Status != view.StatusRunning { // a run collects its own
			detail(out, fmt.Sprintf("no controller collects them: start one, or run `evalfleet collect %s`", s.ID))
		}
	}
}

// writePhase writes a phase's line: "pairwise 412/1104 37 % 3 failed 56/s 0:12 left", in columns if they fit.
func writePhase(out *lines.Writer, p view.Phase) {
	failed, rate, rest := "", "", ""
	if p.Failed > 0 {
		failed = fmt.Sprintf("%d failed", p.Failed)
	}
	if p.RatePerS != nil {
		rate = formatRate(*p.RatePerS)
	}
	if p.LeftS != nil {
		rest = leftText(*p.LeftS)
	}
	if p.Runs > 0 && p.Ended() == p.Runs && p.Cancelled == 0 {
		rest = "complete"
	}
	runs := fmt.Sprintf("%d/%d", p.Done(), p.Runs)
	if p.Open {
		runs, rest = fmt.Sprintf("at most %d", p.Runs), "begins after the phase before"
	}
	cells := []string{string(p.Kind), runs, view.Percent(p.Done(), p.Runs), failed, rate, rest}
	row := strings.TrimRight(strings.Join([]string{
		"", left(cells[0], 9), right(cells[1], 21), right(cells[2], 5), right(cells[3], 15), right(cells[4], 9), cells[5],
	}, lines.Separator), " ")
	if wording.Columns.StringWidth(row) <= out.Width {
		out.Print(lines.Plain, row)
	} else {
		out.Cells("  ", cells...)
	}

	if p.Strong != "" {
		detail(out, "contested pairs and a sample of the others, for "+p.Strong)
	}
	if p.Cancelled > 0 {
		detail(out, wording.Counted(p.Cancelled, "run")+" cancelled")
	}
}

// leftText returns the time left as text: "0:12 left". Times beyond 100 days are not given exactly.
func leftText(seconds float64) string {
	const longest = 100 * 24 * 3600
	if seconds > longest {
		return "over 100 days left"
	}
	return formatLeft(time.Duration(seconds*float64(time.Second))) + " left"
}

func usedText(u view.Used) string {
	parts := []string{wording.Counted(u.Calls, "call")}
	if u.FromCache > 0 {
		parts = append(parts, fmt.Sprintf("%d answered before", u.FromCache))
	}
	if u.Unreported < u.Calls {
		noun := "tokens"
		if u.Input == 1 {
			noun = "token"
		}
		parts = append(parts, fmt.Sprintf("%s %s in, %s out", formatCount(u.Input), noun, formatCount(u.Output)))
	}
	if u.Unreported > 0 {
		parts = append(parts, fmt.Sprintf("tokens of %s unknown", wording.Counted(u.Unreported, "call")))
	}
	return strings.Join(append(parts, u.Cost()), ", ")
}

// writeFleet lists what the evaluations share: workers and queues.
func writeFleet(out *lines.Writer, list []view.Evaluation) {
	var queues []view.Queue
	for _, line := range list {
		queues = append(queues, line.Queues...)
	}
	slices.SortFunc(queues, func(a, b view.Queue) int { return strings.Compare(a.Name, b.Name) })
	queues = slices.CompactFunc(queues, func(a, b view.Queue) bool { return a.Name == b.Name })
	if list[0].Workers == nil {
		return
	}

	out.Blank()
	out.Line(fmt.Sprintf("workers alive: %d", *list[0].Workers))
	if len(queues) == 0 {
		return
	}
	t := lines.Table{
		{Head: "QUEUE", Flexible: true}, {Head: "PENDING", Right: true}, {Head: "ACTIVE", Right: true},
		{Head: "RETRY", Right: true}, {},
	}
	for _, q := range queues {
		state := ""
		if q.Paused {
			state = "paused"
		}
		t.Add(harmless.OneLine(q.Name), wording.Count(q.Pending), wording.Count(q.Active), wording.Count(q.Retry+q.Scheduled), state)
	}
	t.WriteStacked(out, func(int) {})
}

// ago returns how long ago something was, in one or two digits: "12s", "3m", "5h", "9 days".
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(0, d).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
