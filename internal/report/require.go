package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Requirement is a condition that a report must meet, for example before a release. ParseRequirement reads one.
type Requirement struct {
	text        string
	left, right string // candidates, or the name of a measure and its bound
	atMost      bool
	number      *measure // nil: candidates are compared
	bound       float64
	whole       bool // the bound is a count, although the measure is a share
}

// measure is a number of a report that a requirement can bound.
type measure struct {
	share  bool // it is a share, whose bound may be a percentage
	levels bool // its bound is a Level
	of     func(*Report) float64
	count  func(*Report) int // for shares of all runs: how many runs
}

// numbers are the measures that a requirement can name. A measure returns NaN if it is not known.
var numbers = map[string]measure{
	"failed":  {share: true, count: func(r *Report) int { _, _, failed, _ := r.runs(); return failed }},
	"missing": {share: true, count: func(r *Report) int { planned, done, failed, _ := r.runs(); return planned - done - failed }},
	"flips":   {share: true, of: relied(func(t *Reliance) float64 { return t.Order })},
	"kappa":   {of: relied(func(t *Reliance) float64 { return t.Kappa })},
	"people":  {of: relied(func(t *Reliance) float64 { return t.PeopleKappa })},
	"cost":    {of: func(r *Report) float64 { return float64(r.Spent) / ratelimit.Dollar }},
	"trust":   {levels: true, of: relied(func(t *Reliance) float64 { return float64(t.Level.place()) })},
}

func relied(of func(*Reliance) float64) func(*Report) float64 {
	return func(r *Report) float64 {
		if t := r.Reliance(); t != nil {
			return of(t)
		}
		return math.NaN()
	}
}

// requirementForm matches LEFT >= RIGHT or LEFT <= RIGHT; between candidates, @ CONFIDENCE follows.
var requirementForm = regexp.MustCompile(`^\s*("[^"]*"|[^"<>=@]*[^"<>=@\s])\s*(>=|<=)\s*("[^"]*"|` +
	`[^"<>=@]*[^"<>=@\s])\s*(?:@\s*([0-9.]+))?\s*$`)

// ParseRequirement reads a requirement, of one of two forms. `new >= old @ 0.95` compares candidates; quote names
// that contain <, >, = or @. The other form bounds a number: `failed <= 1%`, `missing <= 0`, `flips <= 20%`, `kappa
// >= 0.4`, `people >= 0.4` or `cost <= 5`. kappa is that of judges, people that of judges and people; cost is in USD.
// `trust >= sound` bounds the level of Reliance, here at its best.
// The error says which part is invalid.
func ParseRequirement(text string) (Requirement, error) {
	match := requirementForm.FindStringSubmatch(text)
	if match == nil {
		return Requirement{}, fmt.Errorf("%q: want NEW >= OLD @ 0.95 for candidates, or a number and its bound, such as failed <= 1%%", text)
	}
	q := Requirement{
		text: strings.TrimSpace(text), left: strings.Trim(match[1], `"`), right: strings.Trim(match[3], `"`),
		atMost: match[2] == "<=",
	}
	if match[4] != "" {
		confidence, err := strconv.ParseFloat(match[4], 64)
		if err != nil || confidence <= 0.5 || confidence >= 1 {
			return Requirement{}, fmt.Errorf("%q: want a confidence between 0.5 and 1 after @, such as 0.95", text)
		}
		q.bound = confidence
		return q, nil
	}

	known, ok := numbers[q.left]
	if !ok {
		return Requirement{}, fmt.Errorf(
			"%q: unknown number %q: want trust, failed, missing, flips, kappa, people or cost; a comparison of candidates "+
				"needs a confidence, such as @ 0.95",
			text, q.left,
		)
	}
	if known.levels {
		place := Level(q.right).place()
		if place < 0 || q.atMost {
			return Requirement{}, fmt.Errorf("%q: want %s >= sound, caution, unsound or unknown", text, q.left)
		}
		q.number, q.bound = &known, float64(place)
		return q, nil
	}
	words, percentage := strings.CutSuffix(q.right, "%")
	bound, err := strconv.ParseFloat(strings.TrimSpace(words), 64)
	switch {
	case err != nil || math.IsNaN(bound) || math.IsInf(bound, 0):
		return Requirement{}, fmt.Errorf("%q: %q is not a number", text, q.right)
	case percentage && !known.share:
		return Requirement{}, fmt.Errorf("%q: %s is not a share: write its bound without %%", text, q.left)
	case !percentage && known.share && known.count == nil:
		return Requirement{}, fmt.Errorf("%q: %s is a share: write its bound in percent, such as %s <= 20%%", text, q.left, q.left)
	case percentage:
		bound /= 100
	}

	q.number, q.bound, q.whole = &known, bound, known.count != nil && !percentage
	return q, nil
}

// Checked is the result of checking a requirement.
type Checked struct {
	Requirement string
	Met         bool
	Got         string // the actual value, in words
}

// Check reports whether a report meets the requirement. An unknown number does not meet it. Check returns an error if
// a candidate does not exist.
func (q Requirement) Check(r *Report) (Checked, error) {
	checked := Checked{Requirement: q.text}
	if q.number == nil {
		for _, name := range []string{q.left, q.right} {
			if !slices.Contains(r.candidates, name) {
				return checked, fmt.Errorf("%q: there is no candidate %q: want one of %s", q.text, name, someOf(r.candidates))
			}
		}
		better, other := q.left, q.right
		if q.atMost {
			better, other = other, better
		}
		sure := r.confidence(better, other)
		checked.Met, checked.Got = sure >= q.bound, fmt.Sprintf("%s is better with confidence %.3f", called(better), sure)
		if math.IsNaN(sure) {
			checked.Got = "unknown: the " + r.said() + " do not tell"
		} else if doubt := r.doubt(); doubt != "" && checked.Met {
			checked.Met, checked.Got = false, "unknown: "+doubt
		}
		return checked, nil
	}

	got := q.value(r)
	checked.Met = got >= q.bound
	if q.atMost {
		checked.Met = got <= q.bound
	}
	switch {
	case math.IsNaN(got):
		checked.Got = q.left + " is unknown"
	case q.number.levels:
		checked.Got = fmt.Sprintf("%s is %s. %s", q.left, levels[int(got)], r.Reliance())
	case q.whole:
		checked.Got = q.left + " is " + wording.Count(int(got))
	case q.number.share:
		checked.Got = q.left + " is " + percent(got)
	default:
		checked.Got = fmt.Sprintf("%s is %.3g", q.left, got)
	}

	return checked, nil
}

// value returns the number that the requirement bounds; NaN if it is unknown.
func (q Requirement) value(r *Report) float64 {
	planned, _, _, _ := r.runs()
	switch {
	case q.whole:
		return float64(q.number.count(r))
	case q.number.count == nil:
		return q.number.of(r)
	case planned == 0:
		return math.NaN()
	}
	return share(q.number.count(r), planned)
}

// confidence returns the probability that one candidate is better than another, and NaN if that is unknown. It is
// unknown with a single cluster, because nothing shows how much verdicts on other texts would differ.
func (r *Report) confidence(better, other string) float64 {
	if r.Intervals == nil || r.Intervals.Clusters < 2 {
		return math.NaN()
	}
	for _, g := range r.Groups {
		at := func(name string) int {
			return slices.IndexFunc(g.Ranked, func(c Ranked) bool { return c.Name == name })
		}
		if i, j := at(better), at(other); i >= 0 && j >= 0 {
			return g.Beats(i, j)
		}
	}
	return math.NaN()
}

// said returns what raters gave, in a sentence.
func (r *Report) said() string {
	if r.ByScore() {
		return "scores"
	}
	return "verdicts"
}

// someOf joins the first ten names and counts the others.
func someOf(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %s more", wording.Count(len(names)-most))
}

// WriteJUnit writes the checked requirements as JUnit XML, with one test case for each.
func WriteJUnit(w io.Writer, suite string, all []Checked) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Failure *failure `xml:"failure,omitempty"`
		Output  string   `xml:"system-out,omitempty"`
	}
	type testSuite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	out := testSuite{Name: suite, Tests: len(all)}
	for _, c := range all {
		one := testCase{Name: c.Requirement, Class: suite}
		if c.Met {
			one.Output = c.Got
		} else {
			one.Failure = &failure{c.Got}
			out.Failures++
		}
		out.Cases = append(out.Cases, one)
	}

	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	return encoder.Encode(out)
}
