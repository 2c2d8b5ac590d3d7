package plain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/view"
)

// Status is a list as lines of at most Width columns.
func Status(list []view.Evaluation, now time.Time) string {
	if len(list) == 0 {
		return "no evaluation here; `evalfleet enqueue FILE` or `evalfleet run FILE` makes one\n"
	}
	var out strings.Builder
	for i, line := range list {
		if i > 0 {
			out.WriteByte('\n')
		}
		writeEvaluation(&out, line, now)
	}
	writeFleet(&out, list)
	return out.String()
}

func writeEvaluation(out *strings.Builder, s view.Evaluation, now time.Time) {
	behind := fmt.Sprintf("  %s  %s", s.ID, s.Status)
	if !s.Created.IsZero() {
		behind += fmt.Sprintf(", submitted %s ago", ago(now.Sub(s.Created)))
	}
	out.WriteString(harmless.Short(harmless.OneLine(s.Name), Width-len(behind)) + behind + "\n")
	if s.Unreadable != "" {
		out.WriteString(detail(harmless.OneLine(s.Unreadable)))
		out.WriteString(detail("workers and controllers of this version leave it alone; see that all are of the version that wrote it"))
	}
	for _, phase := range s.Phases {
		out.WriteString(phaseText(phase))
	}
	if r := s.Result; r != nil {
		for part := range strings.SplitAfterSeq(r.Headline, "; ") {
			out.WriteString(detail(harmless.OneLine(part)))
		}
		if r.Reliance != nil {
			for part := range strings.SplitAfterSeq(r.Reliance.Text, ". ") {
				out.WriteString(detail(harmless.OneLine(part)))
			}
		}
	}
	if u := s.Used; u != nil && u.Calls+u.FromCache > 0 {
		out.WriteString(detail(usedText(*u)))
		if len(u.Stages) > 1 {
			for _, stage := range u.Stages {
				out.WriteString(detail(fmt.Sprintf("  %s, %s: %s", harmless.Short(harmless.OneLine(stage.Model), 40), stage.Stage, usedText(stage.Used))))
			}
		}
	}
	if s.Budget != nil {
		out.WriteString(detail(s.Budget.String()))
	}
	if s.Stopped != nil {
		out.WriteString(detail(harmless.OneLine(s.Stopped.String())))
		if s.Stopped.Known == nil {
			out.WriteString(detail("resume with `evalfleet resume`"))
		}
	}
	for _, provider := range slices.Sorted(maps.Keys(s.Paused)) {
		p := s.Paused[provider]
		out.WriteString(detail(harmless.OneLine(fmt.Sprintf("provider %s is paused, %s", provider, p))))
		out.WriteString(detail(p.Remedy() + "; then run `evalfleet resume`"))
	}
	if s.Fallback != nil && s.Statistics != nil {
		out.WriteString(detail(s.Statistics.String()))
	}
	for _, advice := range s.Advice {
		why, change, _ := strings.Cut(advice, ": ")
		out.WriteString(detail(why+":") + detail("  "+change))
	}
	if len(s.Classes) > 0 {
		out.WriteString(detail("failed: " + view.ClassesText(s.Classes)))
	}
	switch {
	case len(s.BoundBy) > 0 && s.Active():
		out.WriteString(detail("bound by " + harmless.OneLine(strings.Join(s.BoundBy, "; "))))
	case len(s.BoundBy) > 0:
		out.WriteString(detail("was bound by " + harmless.OneLine(s.BoundBy[0])))
	}
	if s.Uncollected > 0 {
		out.WriteString(detail(wording.Counted(int(s.Uncollected), "result") + " in Redis to be collected"))
	}
}

// phaseText is a phase's line: "pairwise  412/1104  37 %  3 failed  56/s  0:12 left".
func phaseText(p view.Phase) string {
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
	text := row("", left(string(p.Kind), 9), right(fmt.Sprintf("%d/%d", p.Done(), p.Runs), 21), right(view.Percent(p.Done(), p.Runs), 5),
		right(failed, 15), right(rate, 9), rest)
	if p.Cancelled > 0 {
		text += detail(fmt.Sprintf("%s cancelled", wording.Counted(p.Cancelled, "run")))
	}
	return text
}

// leftText is a time to wait: "0:12 left"; waits beyond some months are unknown.
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
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out", formatCount(u.Input), formatCount(u.Output)))
	}
	if u.Unreported > 0 {
		parts = append(parts, fmt.Sprintf("tokens of %d unknown", u.Unreported))
	}
	return strings.Join(append(parts, u.Cost()), ", ")
}

// writeFleet lists what the evaluations share: workers and queues.
func writeFleet(out *strings.Builder, list []view.Evaluation) {
	var queues []view.Queue
	for _, line := range list {
		queues = append(queues, line.Queues...)
	}
	slices.SortFunc(queues, func(a, b view.Queue) int { return strings.Compare(a.Name, b.Name) })
	queues = slices.CompactFunc(queues, func(a, b view.Queue) bool { return a.Name == b.Name })
	if list[0].Workers == nil {
		return
	}
	fmt.Fprintf(out, "\nworkers alive: %d\n", *list[0].Workers)
	if len(queues) == 0 {
		return
	}
	out.WriteString(row(left("QUEUE", 56), right("PENDING", 8), right("ACTIVE", 8), right("RETRY", 8), ""))
	for _, q := range queues {
		state := ""
		if q.Paused {
			state = "paused"
		}
		out.WriteString(row(left(harmless.OneLine(q.Name), 56), right(fmt.Sprint(q.Pending), 8), right(fmt.Sprint(q.Active), 8),
			right(fmt.Sprint(q.Retry+q.Scheduled), 8), state))
	}
}

// ago is a past time to one digit or two: "12s", "3m", "5h", "9 days".
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
