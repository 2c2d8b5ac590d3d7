package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Reliance sums up in a line whether judges can be relied on. It tells how far they agree with each other and with
// people, and how often the order of two texts changes their verdict. Unknown numbers are NaN.
type Reliance struct {
	// Level is the worst level that any of the numbers implies.
	Level Level
	// Agree is how often a verdict of one judge is that of another on the same texts, in whichever order they saw them.
	// Kappa is the agreement beyond chance: Cohen's kappa of two judges, Fleiss' kappa of more.
	Agree, Kappa float64
	// Order is the share of pairs asked about in both orders on which a judge gave another verdict in the other order.
	Order float64
	// People is the share of pairs on which judges agree with the majority of people, and PeopleKappa is Cohen's
	// kappa. Both are means over judges, weighted by pairs.
	People, PeopleKappa float64

	judges int
	chance bool // agreement, between judges or with people, may be chance
	pairs  int  // largest number of pairs compared by two judges, in both orders, or also by people
}

// Level says how far a ranking can be relied on.
type Level string

// The levels.
const (
	Unknown Level = "unknown" // there is too little data to tell
	Sound   Level = "sound"   // no number is a warning
	Caution Level = "caution"
	Unsound Level = "unsound" // judges agree no better than chance, or follow the order
)

const (
	// slight is the largest kappa of agreement that is called slight (Landis and Koch 1977, "The measurement of
	// observer agreement for categorical data").
	slight = 0.20
	// often is the share of verdicts that follow the order above which the level is Caution. Notes on single judges
	// have the same bound.
	often = 1 - notableConsistency
	// mostly is the share above which verdicts follow the order more than the texts.
	mostly = 0.5
	// fewest is the smallest number of pairs for Sound. With fewer, all verdicts agree by chance more often than once
	// in 20 (sign test: 0.5^4 > 0.05 > 0.5^5).
	fewest = 5
)

// Reliance computes the reliance of the ranking. It returns nil if no judge compared two texts.
func (r *Report) Reliance() *Reliance {
	if len(r.Judges) == 0 || r.Verdicts == 0 {
		return nil
	}
	none := math.NaN()
	t := &Reliance{Agree: none, Kappa: none, Order: none, People: none, PeopleKappa: none, judges: len(r.Judges)}
	if a := r.Agreement; a != nil {
		t.Agree, t.Kappa, t.pairs = a.raw(), a.Fleiss, a.Units
		limits := a.FleissLimits
		if len(a.Pairs) == 1 {
			t.Kappa, limits = a.Pairs[0].Cohen, a.Pairs[0].CohenLimits
		}
		t.chance = limits.Low <= 0
	}

	var both rank.Swaps
	for _, j := range r.Judges {
		both.Consistent += j.Swaps.Consistent
		both.AlwaysFirst += j.Swaps.AlwaysFirst
		both.AlwaysSecond += j.Swaps.AlwaysSecond
		t.pairs = max(t.pairs, j.Swaps.Total())
	}

	if both.Total() > 0 {
		t.Order = 1 - both.Consistency()
	}
	t.people(r.People)
	t.Level = t.level()
	return t
}

func (t *Reliance) people(p *People) {
	if p == nil {
		return
	}
	same, kappa, low, pairs := 0.0, 0.0, 0.0, 0.0
	for _, j := range p.Judges {
		if n := float64(j.Pairs); n > 0 {
			same, kappa, low, pairs = same+n*j.Accuracy, kappa+n*j.Cohen, low+n*j.CohenLimits.Low, pairs+n
			t.pairs = max(t.pairs, j.Pairs)
		}
	}
	if pairs > 0 {
		t.People, t.PeopleKappa = same/pairs, kappa/pairs
		t.chance = t.chance || low/pairs <= 0
	}
}

func (t *Reliance) level() Level {
	switch {
	case t.Kappa <= 0, t.PeopleKappa <= 0, t.Order >= mostly:
		return Unsound
	case t.Kappa <= slight, t.PeopleKappa <= slight, t.chance, t.Order > often:
		return Caution
	case t.pairs < fewest:
		return Unknown
	default:
		return Sound
	}
}

// strength returns the name of a kappa's range (Landis and Koch 1977).
func strength(kappa float64) string {
	switch {
	case kappa < 0:
		return "poor"
	case kappa <= slight:
		return "slight"
	case kappa <= 0.40:
		return "fair"
	case kappa <= 0.60:
		return "moderate"
	case kappa <= 0.80:
		return "substantial"
	default:
		return "almost perfect"
	}
}

// String returns the numbers and the advice in one line.
func (t *Reliance) String() string {
	var parts []string
	switch {
	case !math.IsNaN(t.Agree):
		parts = append(parts, fmt.Sprintf("Judges agree on %s %% of pairs%s.", outOfHundred(t.Agree), kappaWords(t.Kappa)))
	case t.judges == 1:
		parts = append(parts, "Only one judge.")
	default:
		parts = append(parts, "No two judges compared the same texts.")
	}

	if !math.IsNaN(t.Order) {
		parts = append(parts, fmt.Sprintf("Order changes %s %% of verdicts.", outOfHundred(t.Order)))
	}
	if !math.IsNaN(t.People) {
		parts = append(parts, fmt.Sprintf("%s on %s %%%s.", matches(t.judges), outOfHundred(t.People), kappaWords(t.PeopleKappa)))
	}
	advice := map[Level]string{
		Unsound: ": do not rely on this ranking.",
		Caution: ": check some verdicts before you rely on this ranking.",
	}[t.Level]
	if t.Level == Unknown && t.pairs > 0 {
		advice = fmt.Sprintf(", but %s too few to tell whether to rely on this ranking.", wording.Either(t.pairs, "pair is", "pairs are"))
	}
	line := strings.Join(parts, " ")
	if advice != "" {
		line = strings.TrimSuffix(line, ".") + advice
	}
	return line
}

func matches(judges int) string {
	if judges == 1 {
		return "It matches people"
	}
	return "They match people"
}

func kappaWords(kappa float64) string {
	if math.IsNaN(kappa) {
		return ""
	}
	return fmt.Sprintf(" (kappa %s, %s)", strings.TrimPrefix(signed(kappa), "+"), strength(kappa))
}

// Result returns what records and pages show of an evaluation that has ended: its headline, and whether its judges
// can be relied on. For a nil report it has only the current time.
func (r *Report) Result() record.Result {
	result := record.Result{At: time.Now().UTC().Truncate(time.Second)}
	if r == nil {
		return result
	}
	result.Headline = r.Headline()
	if trust := r.Reliance(); trust != nil {
		result.Reliance = &record.Reliance{Level: string(trust.Level), Text: trust.String()}
	}
	return result
}
