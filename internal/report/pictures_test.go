package report

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// TestPictures: each picture is drawn where its data is there, and left out where it is not, for evaluations of every
// shape. Its alternative says what it shows.
func TestPictures(t *testing.T) {
	t.Parallel()
	lengths, spreads, orders := "Length of the texts in kB", "How often each score was given", "How often the first of two equal texts wins"
	matrix, figure := "<h3>Who agrees with whom</h3>", regexp.MustCompile(`<figcaption>([^<]*)`)
	one := tournament(names(2), []string{"q"}, []string{"j"}, []float64{1}, 1)
	bare := tournament(names(2), []string{"q"}, []string{"j"}, []float64{0}, 1)
	for k := range bare.evaluation.Plan.Documents {
		bare.evaluation.Plan.Documents[k].Bytes = 0
	}
	for name, of := range map[string]struct {
		m    *memory
		want []string
	}{
		"judges, items and scores": {typical(), []string{lengths, spreads, orders, matrix}},
		"one judge and one item":   {one, []string{lengths, orders}},
		"no lengths":               {bare, []string{orders}},
		"one candidate":            {sourceOf(plan(names(1), []string{"q"}, "j")).withScores("style"), []string{lengths, spreads}},
		"three hundred":            {many(300), []string{lengths, orders}},
		"nothing":                  {sourceOf(plan(names(2), []string{"q"}, "j")), []string{lengths}},
	} {
		page := pageOf(t, built(t, of.m, Options{Draws: 20}))
		drawn := fmt.Sprint(figure.FindAllString(page, -1))
		if _, table, ok := strings.Cut(page, matrix); ok {
			drawn += matrix
			if head, _, _ := strings.Cut(table, "</thead>"); !strings.Contains(head, ">rater</th>") {
				t.Errorf("%s: the head of the raters' table is %s", name, head)
			}
		}
		for _, picture := range []string{lengths, spreads, orders, matrix} {
			wanted := strings.Contains(fmt.Sprint(of.want), picture)
			if got := strings.Contains(drawn, picture); got != wanted {
				t.Errorf("%s: %q is drawn: %t, want %t", name, picture, got, wanted)
			}
		}
	}
}

// TestSpread: every score is in one column, also those outside the scale, and the columns of a long scale are parts of
// it.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		scale  eval.Scale
		scores []float64
		want   string
	}{
		{eval.Scale{Min: 1, Max: 5}, []float64{1, 1, 5, 2.4, 9}, "1:2 2:1 3:0 4:0 5:2"},
		{eval.Scale{Min: 0, Max: 100}, []float64{0, 9.9, 10, 55, 100, -3}, "0:3 10:1 20:0 30:0 40:0 50:1 60:0 70:0 80:0 90:1"},
		{eval.Scale{Min: 3, Max: 3}, []float64{3}, "3:1"},
	} {
		s, got := newSpread(of.scale), []string{}
		for _, score := range of.scores {
			s.add(score)
		}
		for k, n := range s.counts {
			got = append(got, fmt.Sprintf("%s:%d", s.label(k), n))
		}
		if strings.Join(got, " ") != of.want {
			t.Errorf("scale %v: got %s, want %s", of.scale, strings.Join(got, " "), of.want)
		}
		h := s.histogram()
		for k, c := range h.Columns {
			if c.X < 0 || c.X+c.Width > plotWidth || c.Y < histogramCount || c.Y+c.Height > h.Bottom+0.2 || c.CountY < 10 {
				t.Errorf("scale %v: column %d is outside: %+v", of.scale, k, c)
			}
		}
	}
	if h := newSpread(eval.Scale{Min: 1, Max: 5}).histogram(); h != nil {
		t.Errorf("a histogram of nothing: %+v", h)
	}
}

// TestLengths: the median and the tenths are lengths of texts, in the order of the ranking.
func TestLengths(t *testing.T) {
	t.Parallel()
	m := tournament(names(2), names(21), []string{"j"}, []float64{0}, 3)
	for k := range m.evaluation.Plan.Documents {
		d := &m.evaluation.Plan.Documents[k]
		d.Bytes = 1000 * (d.Item + 1)
		if d.Candidate == "candidate-0001" {
			d.Bytes = 500
		}
	}
	v := built(t, m, Options{Draws: 20}).lengthView()
	var got []string
	for _, row := range v.Plot.Rows {
		got = append(got, row.Numbers)
	}
	if want := "“candidate-0000”: 11 kB (3 – 19 kB); “candidate-0001”: 0.5 kB (0.5 – 0.5 kB)"; strings.Join(got, "; ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, "; "), want)
	}
	if cells := fmt.Sprint(v.Table.Rows[0].Cells); cells != "[{21 } {1,000 } {3,000 } {11,000 } {19,000 } {21,000 }]" {
		t.Errorf("the table has %s", cells)
	}
}

// TestScatters: judges are drawn against cost and time where both are known and differ from 0, and left out where not.
// With votes, quality is the agreement with people, and has intervals.
func TestScatters(t *testing.T) {
	t.Parallel()
	const cost, length = "against the cost of 1,000 verdicts", "against the time of a judge’s call"
	priced := func(m *memory, usd ...float64) *memory {
		for k, j := range m.evaluation.Plan.Judges {
			used, took := results.Usage{Calls: 50, CostUSD: usd[k]}, results.Took{Calls: 50, Sum: 100 * float64(k+1), Squares: 1000 * float64(k+1)}
			m.progress = append(m.progress, results.Progress{Judge: j.Name, Succeeded: 50, Used: used})
			m.outlays = append(m.outlays, results.Outlay{Of: j.Name, Took: took})
		}
		return m
	}
	three := func() *memory {
		return tournament(names(5), []string{"q", "r"}, []string{"careful", "average", "careless"}, []float64{0, .3, 1.2}, 3)
	}
	for name, of := range map[string]struct {
		m    *memory
		want string // what the titles hold
	}{
		"priced":    {priced(three(), 2, .5, .01), cost + " " + length},
		"free":      {priced(three(), 0, 0, 0), length},
		"unknown":   {three(), ""},
		"one judge": {priced(tournament(names(3), []string{"q"}, []string{"j"}, []float64{0}, 1), 1), ""},
	} {
		r := built(t, of.m, Options{Draws: 20})
		var titles []string
		for _, s := range r.judgeScatters() {
			_, title, _ := strings.Cut(s.Title, "other judges ")
			titles = append(titles, title)
			if len(s.Points) != len(r.Judges) || !strings.Contains(s.Alternative, "careful") {
				t.Errorf("%s: %d points, %s", name, len(s.Points), s.Alternative)
			}
			for _, p := range s.Points {
				if p.X < s.Left || p.X > s.Right || p.Y < 0 || p.Y > s.Bottom || p.Left > p.X || p.Right < p.X {
					t.Errorf("%s: %s is outside of the figure: %+v", name, s.Title, p)
				}
			}
		}
		if got := strings.Join(titles, " "); got != of.want {
			t.Errorf("%s: drawn %q, want %q", name, got, of.want)
		}
	}
}

// TestCandidateScatters: candidates are drawn against what their own answers cost, and not without it.
func TestCandidateScatters(t *testing.T) {
	t.Parallel()
	m := tournament(names(3), []string{"q", "r"}, []string{"j"}, []float64{.3}, 1)
	m.evaluation.Plan.Answered = &eval.Answered{Evaluation: m.evaluation.ID}
	if drawn := built(t, m, Options{Draws: 20}).candidateScatters(); len(drawn) != 0 {
		t.Errorf("without calls: drawn %+v", drawn)
	}
	for _, d := range m.evaluation.Plan.Documents {
		used, took := results.Usage{Calls: 1, CostUSD: .001}, results.Took{Calls: 1, Sum: 2, Squares: 4}
		m.outlays = append(m.outlays, results.Outlay{Of: d.ID, Used: used, Took: took})
	}
	drawn := built(t, m, Options{Draws: 20}).candidateScatters()
	if len(drawn) != 2 || len(drawn[0].Points) != 3 || !drawn[0].Points[0].Up || !strings.Contains(drawn[0].Points[0].Numbers, "$1.00") {
		t.Fatalf("drawn %+v, want wins with intervals against $1.00 for 1,000 answers", drawn)
	}
}
