package report

import (
	"bytes"
	"fmt"
	"html"
	"math/rand/v2"
	"strings"
	"testing"
)

func comparisonPage(t *testing.T, reports ...*Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := Compare(reports...).WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestComparisonPage(t *testing.T) {
	t.Parallel()
	build := func(bias float64, candidates ...string) *Report {
		return built(t, tournament(candidates, names(3), []string{"j"}, []float64{bias}, 4).withCalls(2, ""), Options{Draws: 20})
	}
	first, second := build(0, "a", "b", "c", `<script>`), build(1, "c", "b", "a", "new")
	second.Evaluation.Plan.Name = `</title><script>alert(1)</script>`
	page := strings.Replace(comparisonPage(t, first, second), "<script>"+pageScript+"</script>", "", 1)
	for _, want := range []string{
		"2 evaluations side by side", "1 new, 1 gone.", "<th scope=\"col\">rank 2</th>", "&lt;script&gt;", "from 1 to 2", "No setting differs",
		`<g class="mark mark2"><title>`, `, “a”: `, "The table below has every number.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	rows := cells(t, page, "Candidates, in the order of the first evaluation")
	if got := rows["new"]; !strings.HasPrefix(got, "– – ") || !strings.HasSuffix(got, " new;") {
		t.Errorf("a new candidate: %q", got)
	}
	if strings.Contains(page, "<script") || strings.Count(page, "</title>") != strings.Count(page, "<title>") {
		t.Error("a name is not inert")
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page contains a number that is none")
	}
	empty := built(t, sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j")), Options{})
	if page := comparisonPage(t, empty, first); strings.Contains(page, "<svg") || !strings.Contains(page, "from 1 to 2") {
		t.Error("an evaluation without abilities is drawn, or the other is left out")
	}
	if page := comparisonPage(t, empty, empty); !strings.Contains(page, "Nothing is ranked") {
		t.Error("the page does not say that nothing is ranked")
	}
	for _, n := range sizes() {
		large := built(t, many(n), Options{Draws: 5})
		says := fmt.Sprintf("%d more candidates are in the table only", n-40)
		if page := comparisonPage(t, large, large, large); len(page) > 1<<20 || !strings.Contains(page, says) {
			t.Errorf("the page of %d candidates in 3 evaluations has %d bytes, want at most 1 MiB and %q", n, len(page), says)
		}
	}
}

// Means, wins and win rates have the 95 % intervals of the reports that are compared, on the page and in the terminal, where
// two evaluations fit on a line.
func TestComparisonShowsIntervals(t *testing.T) {
	t.Parallel()
	scored := func(quality float64) *Report {
		return built(t, scoring(3, 12, 2, func(r *rand.Rand, c, _, _ int) float64 { return nearScore(r, quality-float64(c)) }), Options{Draws: 100})
	}
	compared := tournament([]string{"a", "b", "c"}, names(8), []string{"j", "k"}, []float64{0, 0}, 6)
	for what, reports := range map[string][]*Report{
		"scores": {scored(8), scored(6)}, "pairs": {built(t, compared, Options{}), built(t, compared, Options{})},
	} {
		c := Compare(reports...)
		cells := strings.Join(strings.Fields(comparisonText(t, c)), " ")
		page := comparisonPage(t, reports...)
		if told := "Behind a value, its 95 % interval is in brackets"; !strings.Contains(cells, told) || !strings.Contains(page, told) {
			t.Errorf("%s: the comparison does not say what is in brackets", what)
		}
		for k, r := range c.Reports {
			one := r.Groups[0].Ranked[0]
			want := r.score(one) + " (" + r.scoreInterval(one) + ")"
			if r.scoreInterval(one) == "–" || !strings.Contains(cells, want) || !strings.Contains(page, html.EscapeString(want)) {
				t.Errorf("%s: the comparison lacks %q of evaluation %d in\n%s", what, want, k+1, cells)
			}
		}
	}
}
