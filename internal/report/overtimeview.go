package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// mostTimes bounds the times of each judge in tables, the last ones.
const mostTimes = 20

// aboutOverTime explains the table of judges over time.
var aboutOverTime = fmt.Sprintf("Each judge is asked about the same pairs at each evaluation. “as before” is the share of verdicts that "+
	"are those of the time before, with a 95 %% interval. “changed”: its verdicts differ more from earlier ones than these from each "+
	"other, by an exact permutation test over anchors, at %g %% for all judges together. “as before”, as a result: fewer than %g %% of "+
	"its verdicts are others, at 95 %%. “unknown”: fewer than two earlier times, or too few anchors to tell.",
	100*rank.DriftAlarm, 100*rank.DriftSize)

// section returns the table of judges over time.
func (o *OverTime) section() section {
	t := lines.Table{{Head: "judge", Flexible: true}, {Head: "asked"}, {Head: "model named", Flexible: true}}
	t = append(t, lines.Table{{Head: "result"}}...)
	t = append(t, lines.Heads("as before", "95 % interval", "known winners", "shown first", "no verdict")...)
	for _, j := range o.Judges {
		for _, at := range j.Times[max(0, len(j.Times)-mostTimes):] {
			same, interval := shareWords(at.Same)
			right, _ := shareWords(at.Right)
			first, _ := shareWords(at.First)
			t.Add(harmless.Line(j.Name), dateTime(at.At), harmless.Line(strings.Join(at.Named, ", ")), at.stateWords(),
				same, interval, right, first, wording.Count(at.Missing))
		}
	}
	return section{title: "Judges over time", table: t, lines: []string{aboutOverTime}}
}

// stateWords says whether the judge has changed.
func (a JudgeAt) stateWords() string {
	words := map[rank.DriftState]string{rank.DriftChanged: "changed", rank.DriftSteady: "as before", rank.DriftUnknown: "unknown"}[a.State]
	if len(a.Before) > 0 {
		words += ", another model named"
	}
	return words
}

// shareWords returns a share and its interval in words.
func shareWords(s Share) (share, interval string) {
	if s.Of == 0 {
		return "–", "–"
	}
	if interval = "–"; s.Low < s.High {
		interval = outOfHundred(s.Low) + " – " + outOfHundred(s.High) + " %"
	}
	return percent(s.Share), interval
}

// pictures draws how far each judge agrees with what it said at first, by time.
func (o *OverTime) pictures() []*scatter {
	var all []*scatter
	for _, j := range o.Judges {
		var spots []spot
		times := j.Times[max(0, len(j.Times)-mostTimes):]
		for k, at := range times {
			one := spot{name: dateTime(at.At), quality: bounded{100, 100, 100, "100 %"}}
			if k > 0 || len(times) < len(j.Times) {
				share, interval := shareWords(at.SameFirst)
				one.quality.low, one.quality.value, one.quality.high = around(100*at.SameFirst.Share, 100*at.SameFirst.Low, 100*at.SameFirst.High)
				one.quality.words = share + " (" + interval + ")"
			}
			days := at.At.Sub(times[0].At).Hours() / 24
			one.cost = bounded{days, days, days, spanOf(days * 86400)}
			spots = append(spots, one)
		}

		axes := scatterAxes{
			up: "Agreement of " + harmless.Line(j.Name) + " with itself at first", across: "time", from: 50, to: 100, even: 100, unit: " %",
			write: func(days float64) string { return span(time.Duration(days * 24 * float64(time.Hour))) },
		}
		if picture := axes.draw(spots, func(s spot) bounded { return s.cost }); picture != nil {
			all = append(all, picture)
		}
	}
	return all
}

// overTimeView is a table of judges over time, with pictures.
type overTimeView struct {
	Pictures []*scatter
	Table    sectionView
}

func (o *OverTime) view() *overTimeView {
	return &overTimeView{o.pictures(), *o.section().titled("What judges said about anchors at each evaluation")}
}

// overTimeJSON is the JSON form of OverTime; docs/formats.md describes its fields.
type overTimeJSON struct {
	Evaluation eval.ID             `json:"evaluation"`
	Anchors    int                 `json:"anchors"`
	Warnings   []string            `json:"warnings"`
	Judges     []judgeOverTimeJSON `json:"judges"`
}

type judgeOverTimeJSON struct {
	Judge string        `json:"judge"`
	Model string        `json:"model"`
	Times []judgeAtJSON `json:"times"`
}

type judgeAtJSON struct {
	Evaluation  eval.ID         `json:"evaluation"`
	At          time.Time       `json:"at"`
	Named       []string        `json:"named"`
	NamedBefore []string        `json:"named_before,omitempty"`
	Same        *shareLimits    `json:"as_before"`
	SameFirst   *shareLimits    `json:"as_at_first"`
	Right       *shareLimits    `json:"known_winners"`
	First       *shareLimits    `json:"shown_first"`
	Missing     int             `json:"no_verdict"`
	State       rank.DriftState `json:"state"`
	Compared    int             `json:"times_compared"`
	Differ      number          `json:"differ"`
	Usual       number          `json:"usually_differ"`
	P           number          `json:"p"`
}

// shareLimits is the JSON form of a Share.
type shareLimits struct {
	Met   int    `json:"met"`
	Of    int    `json:"of"`
	Share number `json:"share"`
	Low   number `json:"low"`
	High  number `json:"high"`
}

func (s Share) limitsJSON() *shareLimits {
	if s.Of == 0 {
		return nil
	}
	return &shareLimits{s.Met, s.Of, number(s.Share), number(s.Low), number(s.High)}
}

func (o *OverTime) json() *overTimeJSON {
	if o == nil {
		return nil
	}
	out := &overTimeJSON{Evaluation: o.Evaluation, Anchors: o.Anchors, Warnings: append([]string{}, o.Warnings()...)}
	for _, j := range o.Judges {
		one := judgeOverTimeJSON{Judge: j.Name, Model: j.Model, Times: []judgeAtJSON{}}
		for _, at := range j.Times {
			one.Times = append(one.Times, judgeAtJSON{
				Evaluation: at.Evaluation, At: at.At.UTC(), Named: append([]string{}, at.Named...), NamedBefore: at.Before,
				Same: at.Same.limitsJSON(), SameFirst: at.SameFirst.limitsJSON(), Right: at.Right.limitsJSON(), First: at.First.limitsJSON(),
				Missing: at.Missing, State: at.State, Compared: at.Times, Differ: number(at.Now), Usual: number(at.Usual),
				P: number(at.Adjusted),
			})
		}
		out.Judges = append(out.Judges, one)
	}
	return out
}
