package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

func TestMarksOfAPair(t *testing.T) {
	t.Parallel()
	p := func(judge string, reverse bool, winner int) Preference {
		return Preference{Judge: judge, Trial: 1, Reverse: reverse, Winner: winner}
	}
	for _, c := range []struct {
		name   string
		said   []Preference
		people [3]int
		want   Marks
	}{
		{"all say the same", []Preference{p("a", false, 0), p("a", true, 0), p("b", false, 0)}, [3]int{2, 1, 0}, Marks{}},
		{"two judges differ", []Preference{p("a", false, 0), p("b", false, 1)}, [3]int{}, Marks{Disagree: true}},
		{"one ties", []Preference{p("a", false, 0), p("b", false, -1)}, [3]int{}, Marks{Disagree: true}},
		{"one follows the order, and prefers neither", []Preference{p("a", false, 0), p("a", true, 1), p("b", false, 1)}, [3]int{}, Marks{Flipped: true}},
		{"trials differ, orders do not", []Preference{p("a", false, 0), {"a", 2, false, 1}}, [3]int{}, Marks{}},
		{"a tie in one order", []Preference{p("a", false, 0), p("a", true, -1)}, [3]int{}, Marks{}},
		{"people say the other", []Preference{p("a", false, 0)}, [3]int{1, 2, 0}, Marks{Unlike: true}},
		{"people say that it is a tie", []Preference{p("a", false, 0)}, [3]int{0, 0, 1}, Marks{Unlike: true}},
		{"one that follows the order is a tie to people", []Preference{p("a", false, 0), p("a", true, 1)}, [3]int{1, 0, 0}, Marks{Flipped: true, Unlike: true}},
		{"people are undecided", []Preference{p("a", false, 0)}, [3]int{2, 2, 1}, Marks{}},
	} {
		if got := MarksOf(c.said, c.people); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// disputed is an evaluation of three candidates on two items by two judges: on the first
// pair the judges disagree, on the second one follows the order, on the third people differ.
func disputed() *memory {
	m := sourceOf(plan([]string{"x", "y", "z"}, []string{"q1", "q2"}, "j1", "j2"))
	m.evaluation.Settings.Votes = "votes"
	for _, item := range []string{"q1", "q2"} {
		for n, pair := range [][2]string{{"x", "y"}, {"x", "z"}, {"y", "z"}} {
			a, b := item+"/"+pair[0], item+"/"+pair[1]
			said := [4]string{a, a, a, a} // a first by both judges, then b first
			if item == "q1" && n == 0 {
				said = [4]string{a, b, a, b}
			}
			if item == "q1" && n == 1 {
				said = [4]string{a, a, b, a}
			}
			m.verdict(0, a, b, said[0], "one "+item)
			m.verdict(1, a, b, said[1], "two")
			m.verdict(0, b, a, said[2], "three")
			m.verdict(1, b, a, said[3], "four <b>")
		}
	}
	m.votes = []results.VoteRow{{Annotator: "p", Document1: "q1/y", Document2: "q1/z", Winner: "q1/z", Item: "q1", Candidate1: "y", Candidate2: "z"}}
	return m
}

// TestReadingsTellDegreesAndCriteria: a verdict that is read says by how much a text is better, and what it is by criterion.
func TestReadingsTellDegreesAndCriteria(t *testing.T) {
	t.Parallel()
	m := disputed()
	m.evaluation.Plan.Pairwise.Degrees = 2
	m.evaluation.Plan.Pairwise.Criteria = []eval.Criterion{{Name: "style"}, {Name: "truth <"}}
	m.pairwise[0].Degree = 2
	m.pairwise[0].Criteria = []record.Preference{
		{Criterion: "style", Winner: m.pairwise[0].Document2, Degree: 1}, {Criterion: "truth <", Winner: eval.Tie},
	}
	page := pageOf(t, built(t, m, Options{}))
	for _, want := range []string{
		"<b>For <bdi>x</bdi>, much better.</b> style: <bdi>y</bdi>, better; truth &lt;: a tie. one q1", "<b>For <bdi>x</bdi>.</b> three",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestReadingsOfAReport(t *testing.T) {
	t.Parallel()
	m := disputed()
	m.texts = map[string]string{
		eval.TextHash("q1/x"): "A text\nof two lines <script>\x1b[2J",
		eval.TextHash("q1/y"): strings.Repeat("long ", 10_000),
	}
	r := built(t, m, Options{})
	if r.Pairs != 6 || len(r.Readings) != 6 {
		t.Fatalf("got %d of %d pairs to read, want 6 of 6", len(r.Readings), r.Pairs)
	}
	var got []string
	for _, p := range r.Readings {
		got = append(got, fmt.Sprintf("%s %s %v %+v", p.ID, p.Documents, p.People, p.Marks))
	}
	want := []string{
		"0.2 [q1/y q1/z] [0 1 0] {Disagree:false Flipped:false Unlike:true}",
		"0.0 [q1/x q1/y] [0 0 0] {Disagree:true Flipped:false Unlike:false}",
		"0.1 [q1/x q1/z] [0 0 0] {Disagree:false Flipped:true Unlike:false}",
		"0.3 [q2/x q2/y] [0 0 0] {Disagree:false Flipped:false Unlike:false}",
		"0.4 [q2/x q2/z] [0 0 0] {Disagree:false Flipped:false Unlike:false}",
		"0.5 [q2/y q2/z] [0 0 0] {Disagree:false Flipped:false Unlike:false}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
	}
	first := r.Readings[0]
	if first.Question != "What about q1?" || len(first.Texts[1]) > textRunes+3 || len(first.Said) != 4 {
		t.Errorf("question %q, a text of %d bytes, %d verdicts", first.Question, len(first.Texts[1]), len(first.Said))
	}
	page := strings.Replace(pageOf(t, r), "<script>"+pageScript+"</script>", "", 1)
	for _, part := range []string{
		`<div class="pair disagree" id="pair-0.0">`, `<div class="pair flipped" id="pair-0.1">`, `<div class="pair unlike" id="pair-0.2">`,
		`<div class="prose bounded" role="group" aria-label="Answer of x" tabindex="0">A text`, "A text\nof two lines &lt;script&gt;", "What about q1?", "<b>For <bdi>x</bdi>.</b> one q1", "four &lt;b&gt;", "People: 0 for “y”, 1 for “z”, 0 ties.",
		`id="which-flipped"`, `href="#reading"`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, foreign := range []string{"<script>", "\x1b"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page contains %q", foreign)
		}
	}
}

// Of many pairs, those with a mark are kept, and of the others an even sample; texts have a
// bound together.
func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	var items []string
	for i := range 80 {
		items = append(items, fmt.Sprintf("q%02d", i))
	}
	m := sourceOf(plan([]string{"x", "y"}, items, "j1", "j2"))
	m.texts = map[string]string{}
	for i, item := range items {
		a, b := item+"/x", item+"/y"
		m.texts[eval.TextHash(a)], m.texts[eval.TextHash(b)] = strings.Repeat("a", 50_000), strings.Repeat("b", 50_000)
		other := a
		if i == 77 {
			other = b
		}
		m.verdict(0, a, b, a, strings.Repeat("reason ", 1000))
		m.verdict(1, a, b, other, "r")
		m.verdict(0, b, a, a, "r")
		m.verdict(1, b, a, other, "r")
	}
	r := built(t, m, Options{})
	marked := 0
	for _, p := range r.Readings {
		marked += one(p.Disagree)
	}
	if r.Pairs != 80 || len(r.Readings) != pairsOfMark+1 || marked != 1 {
		t.Errorf("got %d of %d pairs, %d marked; want %d of 80, 1 marked", len(r.Readings), r.Pairs, marked, pairsOfMark+1)
	}
	if page := pageOf(t, r); len(page) > 500_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
}
