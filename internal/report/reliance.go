package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Reliance says how far a ranking can be relied on. It is a chain: its level is that of its weakest evidence. Unknown
// numbers are NaN.
type Reliance struct {
	Level    Level
	Evidence []Evidence
	// Agree is how often a verdict of one judge is that of another on the same texts, in whichever order they saw them.
	// Kappa is the agreement beyond chance: Cohen's kappa of two judges, Fleiss' kappa of more.
	Agree, Kappa float64
	// Alpha is Krippendorff's alpha of the judges' scores, where scores rank candidates: that of the criterion on which
	// they agree least.
	Alpha float64
	// Order is the share of pairs asked about in both orders on which a judge gave another verdict in the other order.
	Order float64
	// People is how often a verdict of a judge is that of most people, and PeopleKappa is Cohen's kappa. Both are means
	// over judges, weighted by pairs.
	People, PeopleKappa float64

	raters string
	common string // on how many pairs judges are compared; empty: on all
	voted  int    // pairs of texts on which most people agree and a judge gave a verdict
}

// Level says how far a ranking can be relied on.
type Level string

// The levels, of which any is weaker than the next.
const (
	Unknown Level = "unknown" // there is too little data to tell
	Unsound Level = "unsound" // the ranking may be chance, or follow something else than the texts
	Caution Level = "caution"
	Sound   Level = "sound" // nothing that is measured is a warning
)

var levels = []Level{Unknown, Unsound, Caution, Sound}

func (l Level) place() int { return slices.Index(levels, l) }

// Reliance weighs the evidence for the ranking. It returns nil if no judge compared two texts or scored one.
func (r *Report) Reliance() *Reliance {
	if len(r.Judges) == 0 || r.Verdicts == 0 && !r.ByScore() {
		return nil
	}
	none := math.NaN()
	t := &Reliance{Level: Sound, Agree: none, Kappa: none, Alpha: none, Order: none, People: none, PeopleKappa: none, raters: r.raters()}
	evidence := []func(*Report){
		t.weighPairs, t.weighCoverage, t.weighPeople, t.weighAgreement, t.weighJudges, t.weighOrder, t.weighCycles, t.weighFit,
		t.weighMissing,
	}
	if r.ByScore() {
		evidence = []func(*Report){t.weighScores, t.weighCoverage, t.weighPeople, t.weighScoreAgreement, t.weighJudges, t.weighFailed}
	}
	for _, weigh := range evidence {
		weigh(r)
	}
	for _, one := range t.Evidence {
		if one.Level.place() < t.Level.place() {
			t.Level = one.Level
		}
	}
	return t
}

// strength returns the name of a kappa's range (Landis and Koch 1977). One that is shown as 0.00 is no agreement beyond
// chance, as is a negative one.
func strength(kappa float64) string {
	switch {
	case kappa < 0.005:
		return "poor"
	case kappa <= slight:
		return "slight"
	case kappa <= fair:
		return "fair"
	case kappa <= moderate:
		return "moderate"
	case kappa <= substantial:
		return "substantial"
	default:
		return "almost perfect"
	}
}

// String returns what is known in one line: first the numbers that are no warning, then the weakest evidence.
func (t *Reliance) String() string {
	var why []string
	weak := map[string]bool{}
	for _, one := range t.Evidence {
		if t.Level != Sound && one.Level == t.Level {
			why = append(why, one.Why)
			weak[one.Of] = len(why) <= mostWhy
		}
	}

	var parts []string
	for _, one := range []struct{ of, words string }{
		{"agreement", cmp.Or(t.agreeWords(), alphaWords(t.Alpha))}, {"order", t.orderWords()}, {"people", t.peopleWords()},
	} {
		if one.words != "" && !weak[one.of] {
			parts = append(parts, capital(one.words)+".")
		}
	}
	switch {
	case len(why) > 0:
		parts = append(parts, advice[t.Level]+": "+list(why, mostWhy)+".")
	case t.peopleWords() == "" && t.voted > 0:
		parts = append(parts, fmt.Sprintf("People voted on %s, too few to compare with.", wording.Counted(t.voted, "pair")))
	case t.peopleWords() == "" && t.raters != people:
		parts = append(parts, "There are no votes of people to compare with.")
	}
	return strings.Join(parts, " ")
}

// Line returns the level followed by String, as cards and pages show it, such as "Caution. Check some verdicts first: …".
func (t *Reliance) Line() string { return t.record().Line() }

func (t *Reliance) record() *record.Reliance {
	return &record.Reliance{Level: string(t.Level), Text: t.String()}
}

// mostWhy is how many weaknesses a line of trust names.
const mostWhy = 3

var advice = map[Level]string{
	Unknown: "Nothing tells yet whether to rely on this ranking",
	Unsound: "Do not rely on this ranking",
	Caution: "Check some verdicts first",
}

// agreeWords, alphaWords, orderWords and peopleWords return a sentence about a number, without its capital and full stop. They are
// empty if the number is not known.
func (t *Reliance) agreeWords() string {
	if math.IsNaN(t.Agree) {
		return ""
	}
	return fmt.Sprintf("%s agree on %s %% of verdicts%s%s", t.raters, outOfHundred(t.Agree), t.common, kappaWords(t.Agree, t.Kappa))
}

func alphaWords(alpha float64) string {
	if math.IsNaN(alpha) {
		return ""
	}
	return "judges' scores agree with alpha " + strings.TrimPrefix(signed(alpha), "+")
}

func (t *Reliance) orderWords() string {
	if math.IsNaN(t.Order) {
		return ""
	}
	return outOfHundred(1-t.Order) + " % of pairs get the same verdict in both orders"
}

func (t *Reliance) peopleWords() string {
	if math.IsNaN(t.People) {
		return ""
	}
	return fmt.Sprintf("judges match people on %s %% of %s%s", outOfHundred(t.People), wording.Counted(t.voted, "pair"),
		kappaWords(t.People, t.PeopleKappa))
}

func kappaWords(raw, kappa float64) string {
	if math.IsNaN(kappa) {
		return ""
	}
	words := strength(kappa)
	if raw > mostlyAgree && kappa <= fair {
		words = "low because most verdicts are ties"
	}
	return fmt.Sprintf(" (kappa %s, %s)", strings.TrimPrefix(signed(kappa), "+"), words)
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
		result.Reliance = trust.record()
	}
	return result
}
