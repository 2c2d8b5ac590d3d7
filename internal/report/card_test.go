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
	"github.com/evalfleet/evalfleet/eval"
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
	beside := []string{"ranking.csv", "ranking.jsonl", "pairwise_results.csv", "pairwise_results.jsonl", "verdicts.csv", "calls.csv", "manifest.json"}
	notes := r.Notes()
	for _, width := range []int{60, 80, 100, 140} {
		text := card(t, r, CardOptions{TextOptions: TextOptions{Width: width}, Page: "out/report.html", Beside: beside, Details: "evalfleet report out --details"})
		all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(all) > 30 || width >= 100 && len(all) > 22 {
			t.Errorf("%d columns: %d lines\n%s", width, len(all), text)
		}
		for _, line := range all {
			if n := wording.Columns.StringWidth(line); n > width {
				t.Errorf("%d columns: a line of %d: %s", width, n, line)
			}
		}
		said := strings.Join(strings.Fields(text), " ")
		for _, want := range []string{r.Headline(), r.Reliance().String(), "out/report.html", "ranking.csv/.jsonl", fileWords(beside, width-lines.LabelWidth), "--details", r.runWords(), strings.SplitAfter(notes[0], ". ")[0], wording.Counted(len(notes)-1, "more note")} {
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

// A card names files on one line, and counts those that do not fit.
func TestCardNamesFiles(t *testing.T) {
	t.Parallel()
	names := []string{"ranking.csv", "ranking.jsonl", "verdicts.csv", "manifest.json"}
	for columns, want := range map[int]string{
		80: "ranking.csv/.jsonl, verdicts.csv, manifest.json",
		45: "ranking.csv/.jsonl, verdicts.csv and 1 more",
		30: "ranking.csv/.jsonl and 2 more",
		10: "ranking.csv/.jsonl and 2 more",
	} {
		if got := fileWords(names, columns); got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
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

// Runs that an early end makes needless are not waited for; wins by degree are called so, and settings name the degrees and
// the criteria.
func TestCardOfAnEarlyEndAndDegrees(t *testing.T) {
	t.Parallel()
	m := tournament(names(2), names(30), []string{"a", "b"}, []float64{0, 0}, 1)
	m.counts = []results.PhaseCounts{{Kind: eval.KindPairwise, Runs: len(m.pairwise) + 40, Succeeded: len(m.pairwise), Classes: map[string]int{}}}
	text := card(t, built(t, m, Options{}), CardOptions{})
	if !strings.Contains(text, "40 without a result yet") || strings.Contains(text, "by their degree") {
		t.Errorf("a running evaluation without degrees:\n%s", text)
	}

	m.evaluation.Stopped = &results.Stop{Known: &results.Known{}}
	m.evaluation.Plan.Pairwise.Degrees, m.evaluation.Plan.Pairwise.Criteria = 2, []eval.Criterion{{Name: "style", Description: "How it reads."}}
	r := built(t, m, Options{})
	if text = card(t, r, CardOptions{TextOptions: TextOptions{Width: 300}}); !strings.Contains(text, "40 not needed") ||
		!strings.Contains(text, "wins 63 %, counted by their degree.") || strings.Count(text, "counted by their degree") != 1 {
		t.Errorf("an early end with degrees:\n%s", text)
	}
	page := pageOf(t, r)
	for _, want := range []string{"better, much better", "criterion style", "How it reads."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
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
	if heads := r.itemMap().Candidates; len(heads) != 3 || heads[0] == heads[1] || heads[0] == heads[2] || heads[1] == heads[2] {
		t.Errorf("heads of narrow columns are %q", heads)
	}
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

// TestReliance: the line says what is known, each number once, and warns of what the thresholds say.
func TestReliance(t *testing.T) {
	t.Parallel()
	agreement := func(raw, kappa, low float64, units int) *Agreement {
		limits := rank.Limits{Low: low}
		return &Agreement{
			Units: units, Groups: units, FleissLimits: limits,
			Pairs: []RaterPair{{A: 0, B: 1, Units: units, Raw: raw, Cohen: kappa, CohenLimits: limits}},
		}
	}
	people := func(accuracy, kappa, low float64) *People {
		one := AgainstPeople{Pairs: 50, Accuracy: accuracy, Cohen: kappa, CohenLimits: rank.Limits{Low: low}}
		return &People{Judges: []AgainstPeople{one, one}}
	}
	swaps := func(consistent, flipped, tied int) []Judge {
		asked := rank.Counts{FirstWins: 100}
		return []Judge{
			{Model: "a", Positions: asked, Swaps: rank.Swaps{Consistent: consistent, AlwaysFirst: flipped, HalfTied: tied}},
			{Model: "b", Positions: asked},
		}
	}
	tied := swaps(92, 8, 0)
	tied[1].Positions = rank.Counts{Ties: 110}
	moderately := agreement(.72, .49, .34, 100)
	none := math.NaN()
	for _, tt := range []struct {
		name      string
		judges    []Judge
		agreement *Agreement
		people    *People
		pairs     int
		level     Level
		want      string
	}{
		{"worse than chance", swaps(92, 8, 0), moderately, people(.18, -.14, -.3), 100, Unsound, "Judges agree on 72 % of verdicts (kappa 0.49, moderate). 92 % of pairs get the same verdict in both orders. Do not rely on this ranking: judges match people on 18 % of 50 pairs (kappa −0.14, poor), no better than chance."},
		{"as people", swaps(92, 8, 0), moderately, people(.8, .65, .5), 100, Sound, "Judges agree on 72 % of verdicts (kappa 0.49, moderate). 92 % of pairs get the same verdict in both orders. Judges match people on 80 % of 50 pairs (kappa 0.65, substantial)."},
		{"perhaps chance", swaps(92, 8, 0), moderately, people(.75, .45, -.05), 100, Caution, "Judges agree on 72 % of verdicts (kappa 0.49, moderate). 92 % of pairs get the same verdict in both orders. Check some verdicts first: judges match people on 75 % of 50 pairs (kappa 0.45, moderate), which may be chance."},
		{"fairly as people", swaps(92, 8, 0), moderately, people(.6, .25, .1), 100, Caution, ""},
		{"follow the order", swaps(45, 55, 0), moderately, nil, 100, Unsound, "Judges agree on 72 % of verdicts (kappa 0.49, moderate). Do not rely on this ranking: judges prefer the same place instead of the same text on 55 % of pairs."},
		{"often follow the order", swaps(75, 25, 0), moderately, nil, 100, Caution, ""},
		{"often tie in one order", swaps(45, 0, 55), moderately, nil, 100, Caution, ""},
		{"agree by chance", swaps(92, 8, 0), agreement(.5, 0, -.1, 100), nil, 100, Unsound, ""},
		{"agree fairly", swaps(92, 8, 0), agreement(.68, .4, .2, 100), nil, 100, Caution, "92 % of pairs get the same verdict in both orders. Check some verdicts first: judges agree on 68 % of verdicts (kappa 0.40, fair)."},
		{"all alike", swaps(92, 8, 0), agreement(1, 1, none, 100), nil, 100, Sound, "Judges agree on 100 % of verdicts (kappa 1.00, almost perfect). 92 % of pairs get the same verdict in both orders. There are no votes of people to compare with."},
		{"only ties", tied, agreement(1, none, none, 100), nil, 100, Caution, "92 % of pairs get the same verdict in both orders. Check some verdicts first: judges agree on 100 % of verdicts, mostly on ties."},
		{"many ties", tied, agreement(.95, .2, -.1, 100), nil, 100, Caution, "92 % of pairs get the same verdict in both orders. Check some verdicts first: judges agree on 95 % of verdicts (kappa 0.20, low because most verdicts are ties), mostly on ties."},
		{"agree on 60 of 100 pairs", swaps(92, 8, 0), agreement(.72, .49, .34, 60), nil, 100, Sound, "Judges agree on 72 % of verdicts on 60 of 100 pairs (kappa 0.49, moderate). 92 % of pairs get the same verdict in both orders. There are no votes of people to compare with."},
		{"agree by chance, perhaps", swaps(92, 8, 0), agreement(.52, .04, -.1, 100), nil, 100, Unsound, ""},
		{"follow the order on nearly half", swaps(53, 47, 0), moderately, nil, 100, Unsound, ""},
		{"one judge", swaps(92, 8, 0)[:1], nil, nil, 100, Caution, "92 % of pairs get the same verdict in both orders. Check some verdicts first: there is one judge, and there is no vote of people to compare it with."},
		{"people voted on four pairs", swaps(92, 8, 0), moderately, &People{Judges: []AgainstPeople{{Pairs: 4}}}, 100, Sound, "Judges agree on 72 % of verdicts (kappa 0.49, moderate). 92 % of pairs get the same verdict in both orders. People voted on 4 pairs, too few to compare with."},
		{"one judge and people on six pairs", swaps(92, 8, 0)[:1], nil, &People{Judges: []AgainstPeople{{Pairs: 6, Accuracy: .92, Cohen: .82, CohenLimits: rank.Limits{Low: .4}}}}, 100, Caution, "92 % of pairs get the same verdict in both orders. Judges match people on 92 % of 6 pairs (kappa 0.82, almost perfect). Check some verdicts first: there is one judge, and people voted on only 6 pairs."},
		{"agree perhaps by chance", swaps(92, 8, 0), agreement(.75, .5, -.1, 8), nil, 100, Caution, ""},
		{"few pairs", swaps(4, 0, 0), agreement(1, 1, none, 4), nil, 4, Unknown, "Judges agree on 100 % of verdicts (kappa 1.00, almost perfect). 100 % of pairs get the same verdict in both orders. Nothing tells yet whether to rely on this ranking: 4 pairs have verdicts, not at least 5."},
		{"one pair that follows the order", swaps(0, 1, 0)[:1], nil, nil, 1, Unknown, "0 % of pairs get the same verdict in both orders. Nothing tells yet whether to rely on this ranking: 1 pair has a verdict, not at least 5."},
		{"just enough pairs", swaps(5, 0, 0), agreement(1, 1, none, 5), nil, 5, Caution, ""},
		{"one pair more", swaps(6, 0, 0), agreement(1, 1, none, 6), nil, 6, Sound, ""},
		{"few pairs in common", swaps(92, 8, 0), agreement(1, 1, .9, 6), nil, 100, Caution, ""},
		{"agree on ties", tied, agreement(.95, 0, -.1, 100), nil, 100, Caution, ""},
		{"all weak", swaps(50, 30, 20), agreement(.6, .1, .05, 100), people(.6, .2, .1), 100, Caution, "Check some verdicts first: judges match people on 60 % of 50 pairs (kappa 0.20, slight), judges agree on 60 % of verdicts (kappa 0.10, slight) and order changes 50 % of verdicts."},
	} {
		r := &Report{Judges: tt.judges, Verdicts: 100, Agreement: tt.agreement, People: tt.people, Pairs: tt.pairs}
		r.Evaluation.Finished = time.Now()
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

// A headline names the candidate that is more probably the best than the first one, unless both are shown alike.
func TestLikelierThanTheFirst(t *testing.T) {
	t.Parallel()
	ranked := func(best ...float64) (all []Ranked) {
		for k, p := range best {
			all = append(all, Ranked{Name: fmt.Sprint("c", k+1), Best: p})
		}
		return all
	}
	for want, of := range map[string][]Ranked{
		", but “c2” is more probably the best (58 %, not 11 %)": ranked(.11, .58, .31),
		"": ranked(.41, .4, .19),
	} {
		if got := (Group{Ranked: of}).likelier(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, of := range [][]Ranked{ranked(.362, .363, .275), ranked(math.NaN(), math.NaN())} {
		if got := (Group{Ranked: of}).likelier(); got != "" {
			t.Errorf("%v: got %q, want nothing", of, got)
		}
	}
}

// With two candidates, the ranking also says how often the better one wins against the other.
func TestWinsOfTwo(t *testing.T) {
	t.Parallel()
	r := &Report{Groups: []Group{{Ranked: []Ranked{{Name: "new", Standing: rank.Standing{Ability: .5}}, {Name: "old", Standing: rank.Standing{Ability: -.5}}}}}}
	r.Evaluation.Plan = &eval.Evaluation{}
	if got := r.winsOfTwo(); got != "Against “old”, “new” wins 73 %." {
		t.Errorf("got %q", got)
	}
	r.Groups[0].Ranked = append(r.Groups[0].Ranked, Ranked{Name: "third"})
	if got := r.winsOfTwo(); got != "" {
		t.Errorf("of three candidates: got %q", got)
	}
}

// Of many candidates, one is called the best if it is the only contender, but ahead of every other only if its bounds of
// ranks say so, too.
func TestBestOfMany(t *testing.T) {
	t.Parallel()
	for bound, want := range map[int]string{
		11: "“c1” is the best of the 25 candidates, at 95 % confidence.",
		1:  "“c1” is ahead of every other candidate at 95 % confidence.",
	} {
		group := Group{tests: &rank.Uncertainty{}, Tiers: []Tier{{Candidates: 25}}, Contenders: &Contenders{Positions: []int{0}}}
		for k := range 25 {
			group.Ranked = append(group.Ranked, Ranked{Name: fmt.Sprint("c", k+1), Standing: rank.Standing{Rank: k + 1}, RankHigh: 25})
		}
		group.Ranked[0].RankHigh = bound
		r := &Report{Verdicts: 1000, Groups: []Group{group}}
		r.Evaluation.Plan, r.Evaluation.Finished = &eval.Evaluation{Pairwise: &eval.Pairwise{}}, time.Now()
		if got := r.Headline(); got != want {
			t.Errorf("rank of the first up to %d: got %q, want %q", bound, got, want)
		}
	}
}
