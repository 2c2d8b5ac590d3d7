package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
)

// dropWords says which judges to drop. It is empty with fewer than two judges, or if nothing is known to compare them
// by.
func (r *Report) dropWords() string {
	var drop []string
	known, chance := 0, 0
	for _, j := range r.Judges {
		c := j.Card
		if c == nil {
			return ""
		}
		if c.Drop != "" {
			drop = append(drop, called(j.Name)+": "+c.Drop)
		}
		known += one(!math.IsNaN(c.OthersKappa) || !math.IsNaN(c.PeopleKappa) || !math.IsNaN(c.Flipped))
		chance += one(c.PeoplePairs >= leastPairs && c.PeopleKappa <= 0)
	}

	switch {
	case len(r.Judges) < 2 || known == 0:
		return ""
	case len(drop) > 0:
		return "Drop judge " + strings.Join(drop, "; judge ") + "."
	case chance == len(r.Judges):
		return "Dropping a judge does not help: none agrees with people better than chance."
	default:
		return "No judge to drop: on 20 pairs or more, no judge is clearly worse than another."
	}
}

// plainSigned formats a number with a minus sign, but without a plus sign.
func plainSigned(x float64) string { return strings.TrimPrefix(signed(x), "+") }

// cardSection returns a table of the judges' scorecards. ok is false without verdicts on pairs.
func (r *Report) cardSection() (s section, ok bool) {
	if r.Verdicts == 0 || len(r.Judges) == 0 || r.Judges[0].Card == nil {
		return section{}, false
	}

	t := lines.Table{{Head: "judge", Flexible: true}}
	add := func(head, full, means string, cell func(*Scorecard) (text string, bad bool)) {
		c, some := lines.Column{Head: head, Full: full, Means: means, Right: true}, false
		for _, j := range r.Judges {
			text, bad := cell(j.Card)
			c.Cells, c.Bad = append(c.Cells, text), append(c.Bad, bad)
			some = some || text != "–"
		}
		if some {
			t = append(t, c)
		}
	}
	whole := func(x float64) string {
		if math.IsNaN(x) {
			return "–"
		}
		return outOfHundred(x) + " %"
	}
	for _, j := range r.Judges {
		t[0].Cells = append(t[0].Cells, harmless.Line(j.Name))
	}
	add(
		"people", "kappa with people", "Cohen's kappa with most people; 0 is chance",
		func(c *Scorecard) (string, bool) { return coefficient(c.PeopleKappa), c.PeopleKappa <= 0 },
	)
	add("judges", "kappa with other judges", "Cohen's kappa with other judges; 0 is chance",
		func(c *Scorecard) (string, bool) { return coefficient(c.OthersKappa), c.OthersKappa <= 0 })
	add(
		"flips", "changes with the order", "pairs whose preferred text changes with the order",
		func(c *Scorecard) (string, bool) { return whole(c.Flipped), c.Flipped >= mostly },
	)
	add(
		"picks first", "prefers the first of equals", "how often it prefers the first of two equal texts",
		func(c *Scorecard) (string, bool) { return whole(c.First), false },
	)
	add("picks longer", "prefers the longer", "decided verdicts that prefer the longer text",
		func(c *Scorecard) (string, bool) { return whole(c.Longer), false })
	add("own", "prefers its own family",
		"how much more often than people or other judges it prefers candidates of its own family", func(c *Scorecard) (string, bool) {
			if math.IsNaN(c.Own) {
				return "–", false
			}
			return fmt.Sprintf("%+.0f %%", 100*c.Own), c.OwnLimits.Low > 0
		})
	add("again", "same when asked again", "the same verdict in another trial",
		func(c *Scorecard) (string, bool) { return whole(c.Repeated), false })
	add("cost", "cost of its calls", "", func(c *Scorecard) (string, bool) {
		if c.Used.Calls+c.Used.FromCache == 0 {
			return "–", false
		}
		return cost(c.Used), false
	})
	s = section{title: "Scorecards", table: t}
	if words := r.dropWords(); words != "" {
		s.lines = append(s.lines, words)
	}
	return s, true
}

// cardJSON is the JSON form of Scorecard; docs/formats.md describes its fields.
type cardJSON struct {
	Others      number `json:"judges_agree"`
	OthersKappa number `json:"judges_kappa"`
	People      number `json:"people_agree"`
	PeopleKappa number `json:"people_kappa"`
	PeoplePairs int    `json:"people_pairs"`
	Flipped     number `json:"flipped"`
	First       number `json:"prefers_first"`
	Longer      number `json:"prefers_longer"`
	Own         number `json:"prefers_own"`
	OwnLow      number `json:"prefers_own_low"`
	OwnHigh     number `json:"prefers_own_high"`
	Repeated    number `json:"repeated"`
	CostUSD     number `json:"cost_usd"`
	PerVerdict  number `json:"cost_usd_per_verdict"`
	Drop        string `json:"drop"`
}

func (j Judge) cardJSON() *cardJSON {
	c := j.Card
	if c == nil {
		return nil
	}
	out := &cardJSON{
		number(c.Others), number(c.OthersKappa), number(c.People), number(c.PeopleKappa), c.PeoplePairs, number(c.Flipped),
		number(c.First), number(c.Longer),
		number(c.Own), number(c.OwnLimits.Low), number(c.OwnLimits.High), number(c.Repeated), number(c.Used.CostUSD),
		number(c.perVerdict()), c.Drop,
	}
	if math.IsNaN(c.Own) {
		out.OwnLow, out.OwnHigh = number(math.NaN()), number(math.NaN())
	}
	if c.Used.Unpriced > 0 || c.Used.Calls+c.Used.FromCache == 0 {
		out.CostUSD = number(math.NaN())
	}
	return out
}
