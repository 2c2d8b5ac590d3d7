package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

func card(t *testing.T, r *Report, options CardOptions) string {
	t.Helper()
	var out strings.Builder
	if err := r.WriteCard(&out, options); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestCard: the result takes at most 22 lines, fits terminals from 60 columns up, and says
// who is first, whether judges can be relied on, what it cost and where the report is.
func TestCard(t *testing.T) {
	t.Parallel()
	r := built(t, typical(), Options{})
	for _, width := range []int{60, 80, 100, 140} {
		text := card(t, r, CardOptions{TextOptions: TextOptions{Width: width}, Page: "out/report.html", Beside: 9, Details: "evalfleet report out --details"})
		all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(all) > 27 || width >= 100 && len(all) > 22 {
			t.Errorf("%d columns: %d lines\n%s", width, len(all), text)
		}
		for _, line := range all {
			if n := wording.Columns.StringWidth(line); n > width {
				t.Errorf("%d columns: a line of %d: %s", width, n, line)
			}
		}
		said := strings.Join(strings.Fields(text), " ")
		for _, want := range []string{r.Headline(), r.Reliance().String(), "out/report.html", "9 more files", "--details", r.runWords()} {
			if !strings.Contains(said, want) {
				t.Errorf("%d columns: no %q in\n%s", width, want, text)
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("%d columns: colour without being asked", width)
		}
	}
	if text := card(t, r, CardOptions{TextOptions: TextOptions{Colour: true}}); !strings.Contains(text, "\x1b["+lines.Yellow+"m"+"Trust") {
		t.Errorf("the line of trust is not yellow:\n%q", text)
	}
}

// A card says why an evaluation stopped, without control characters of a provider's message.
func TestCardOfAStoppedEvaluation(t *testing.T) {
	t.Parallel()
	m := typical()
	m.evaluation.Stopped = &results.Stop{Paused: map[string]record.Pause{"openai": {Class: providers.Auth, Message: "no \x1b[31mkey"}}}
	text := card(t, built(t, m, Options{}), CardOptions{})
	if !strings.Contains(text, "Stopped  provider openai is paused, auth: no ") || strings.Contains(text, "\x1b") {
		t.Errorf("got\n%q\nwant why it stopped, and no escape sequence", text)
	}
}

// The card and the page of a cancelled evaluation count its missing runs as cancelled, and
// promise no result and no other submission.
func TestCancelledEvaluation(t *testing.T) {
	t.Parallel()
	m := tournament(names(4), []string{"q"}, []string{"a", "b"}, []float64{0, 0}, 2).withCalls(3, "")
	m.evaluation.Cancelled = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	r := built(t, m, Options{Draws: 20})
	const missing = 7
	r.Phases[0].Runs += missing
	if text := card(t, r, CardOptions{}); !strings.Contains(text, fmt.Sprintf("%d cancelled", missing)) || strings.Contains(text, "result yet") {
		t.Errorf("got\n%s\nwant %d cancelled runs and none that waits for a result", text, missing)
	}
	page := pageOf(t, r)
	if !strings.Contains(page, "evaluation was cancelled") || strings.Contains(page, "Preliminary") || strings.Contains(page, "Submit the evaluation again") {
		t.Error("the page does not say that the evaluation was cancelled, or says to submit it again")
	}
}

// TestPathsAreNotCut: a path longer than the terminal is printed whole, to be copied.
func TestPathsAreNotCut(t *testing.T) {
	t.Parallel()
	path := strings.Repeat("folder/", 20) + "report.html"
	text := card(t, built(t, typical(), Options{}), CardOptions{TextOptions: TextOptions{Width: 60}, Page: path})
	if !slices.Contains(strings.Split(text, "\n"), path) {
		t.Errorf("the path is not whole:\n%s", text)
	}
}

// TestNarrowTables: where a table is too wide, columns go, and are named; names stay
// readable and numbers whole.
func TestNarrowTables(t *testing.T) {
	t.Parallel()
	r := built(t, typical(), Options{})
	write := func(width int) string {
		var out strings.Builder
		if err := r.WriteText(&out, TextOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	wide, narrow := write(140), write(60)
	for _, text := range []string{write(80), narrow} {
		for _, number := range regexp.MustCompile(`[\d.,]+…`).FindAllString(text, -1) {
			t.Errorf("a number is cut: %s", number)
		}
	}
	if strings.Contains(wide, "Not shown at this width") || !strings.Contains(narrow, "Not shown at this width: ") {
		t.Error("columns go where there is room, or none goes where there is none")
	}
	for _, name := range []string{"llama-7b", "pythia-6.9b"} {
		if !strings.Contains(narrow, name) {
			t.Errorf("%s is cut", name)
		}
	}
}

// TestLongNamesStayApart: judges and candidates whose names begin alike are told apart in
// each form of the report, however narrow.
func TestLongNamesStayApart(t *testing.T) {
	t.Parallel()
	const long = "openrouter:some-vendor-with-a-long-name/model-with-a-longer-name-than-any-table-"
	judges := []string{long + "low", long + "high"}
	r := built(t, tournament([]string{long + "first", long + "second", "other"}, []string{"q1", "q2", "q3", "q4"}, judges, []float64{0, .3}, 3), Options{})
	texts := forms(t, r)
	for _, width := range []int{60, 80, 140} {
		texts[fmt.Sprint("text of ", width)] = textOf(t, r, TextOptions{Width: width})
	}
	delete(texts, "json") // has whole names
	for form, text := range texts {
		for _, end := range []string{"low", "high", "first", "second"} {
			if !regexp.MustCompile(`…[a-z-]*-` + end + `\b`).MatchString(text) {
				t.Errorf("%s: no name is shown with its end, %s", form, end)
			}
		}
		for _, cut := range regexp.MustCompile(`openrouter:[a-z/-]*…(?:[^a-z-]|$)`).FindAllString(text, 3) {
			t.Errorf("%s: a name is cut at its end: %q", form, cut)
		}
	}
}

// TestReliance: the line says what is known, and warns of what the thresholds say.
func TestReliance(t *testing.T) {
	t.Parallel()
	agreement := func(raw, kappa float64) *Agreement {
		return &Agreement{Units: 100, Pairs: []RaterPair{{A: 0, B: 1, Units: 100, Raw: raw, Cohen: kappa, CohenLimits: rank.Limits{Low: kappa - .15}}}}
	}
	few := func(units int, low float64) *Agreement {
		return &Agreement{Units: units, Pairs: []RaterPair{{A: 0, B: 1, Units: units, Raw: 1, Cohen: 1, CohenLimits: rank.Limits{Low: low}}}}
	}
	people := func(accuracy, kappa, low float64) *People {
		one := AgainstPeople{Pairs: 50, Accuracy: accuracy, Cohen: kappa, CohenLimits: rank.Limits{Low: low}}
		return &People{Judges: []AgainstPeople{one, one}}
	}
	swaps := func(consistent, flipped int) []Judge {
		return []Judge{{Swaps: rank.Swaps{Consistent: consistent, AlwaysFirst: flipped}}, {}}
	}
	for _, tt := range []struct {
		name      string
		judges    []Judge
		agreement *Agreement
		people    *People
		level     Level
		want      string
	}{
		{"worse than chance", swaps(92, 8), agreement(.72, .49), people(.18, -.14, -.3), Unsound, "Judges agree on 72 % of pairs (kappa 0.49, moderate). Order changes 8 % of verdicts. They match people on 18 % (kappa −0.14, poor): do not rely on this ranking."},
		{"as people", swaps(92, 8), agreement(.72, .49), people(.8, .65, .5), Sound, "Judges agree on 72 % of pairs (kappa 0.49, moderate). Order changes 8 % of verdicts. They match people on 80 % (kappa 0.65, substantial)."},
		{"perhaps chance", swaps(92, 8), agreement(.72, .49), people(.5, .25, -.05), Caution, ""},
		{"follow the order", swaps(45, 55), agreement(.72, .49), nil, Unsound, ""},
		{"often follow the order", swaps(75, 25), agreement(.72, .49), nil, Caution, ""},
		{"agree by chance", swaps(92, 8), agreement(.5, 0), nil, Unsound, ""},
		{"agree slightly", swaps(92, 8), agreement(.55, .2), nil, Caution, ""},
		{"all alike", swaps(92, 8), agreement(1, math.NaN()), nil, Sound, "Judges agree on 100 % of pairs. Order changes 8 % of verdicts."},
		{"one judge", swaps(92, 8)[:1], nil, nil, Sound, "Only one judge. Order changes 8 % of verdicts."},
		{"agree perhaps by chance", swaps(92, 8), few(8, -.1), nil, Caution, ""},
		{"few pairs", swaps(4, 0), few(4, math.NaN()), nil, Unknown, "Judges agree on 100 % of pairs (kappa 1.00, almost perfect). Order changes 0 % of verdicts, but 4 pairs are too few to tell whether to rely on this ranking."},
		{"one pair", swaps(1, 0)[:1], nil, nil, Unknown, "Only one judge. Order changes 0 % of verdicts, but 1 pair is too few to tell whether to rely on this ranking."},
		{"just enough pairs", swaps(5, 0), few(5, math.NaN()), nil, Sound, ""},
		{"few pairs, all in doubt", swaps(0, 2), few(2, math.NaN()), nil, Unsound, ""},
		{"nothing known", []Judge{{}, {}}, nil, nil, Unknown, "No two judges compared the same texts."},
	} {
		r := &Report{Judges: tt.judges, Verdicts: 100, Agreement: tt.agreement, People: tt.people}
		got := r.Reliance()
		if got.Level != tt.level || tt.want != "" && got.String() != tt.want {
			t.Errorf("%s: %s, %s; want %s, %s", tt.name, got.Level, got, tt.level, tt.want)
		}
	}
	if got := (&Report{Judges: []Judge{{}}}).Reliance(); got != nil {
		t.Errorf("without verdicts: %v", got)
	}
}

// Limits of an Elo rating that are negative are not joined by a dash, which reads like a sign.
func TestEloBelowZero(t *testing.T) {
	t.Parallel()
	if got := eloOf(Ranked{Standing: rank.Standing{Ability: -12}, Limits: rank.Limits{Low: -29, High: -9}}); strings.Contains(got, "–−") || !strings.Contains(got, "(−") {
		t.Errorf("got %q, want limits that are set apart", got)
	}
}
