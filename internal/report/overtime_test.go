package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// anchored returns an evaluation of n anchors, whose first texts are known to be better. times has the judges' verdicts as
// letters, the last time at the end; the times before it are its history, at which providers named models as named says.
func anchored(n int, judges []string, named []string, times ...string) *memory {
	e := &eval.Evaluation{
		Name:     "essays" + eval.AnchorsSuffix,
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: true},
		JSON:     eval.JSONAuto, Blind: true, Anchors: &eval.Anchors{Of: "ev-aaaaaaaaaaaa"},
	}
	for i := range n {
		name := fmt.Sprintf("a%02d", i)
		e.Items = append(e.Items, eval.Item{ID: name, Facts: map[string]string{eval.WinnerFact: eval.AnchorDocument(name, 0)}})
		for k := range 2 {
			id := eval.AnchorDocument(name, k)
			e.Documents = append(e.Documents, eval.Document{ID: id, Item: i, Candidate: "anchors", Hash: eval.TextHash(id), Bytes: 9})
		}
	}
	for _, name := range judges {
		e.Judges = append(e.Judges, eval.Judge{Name: name, Provider: "simulator", Model: name})
	}

	now := len(times) - 1
	m := sourceOf(e)
	m.names = map[string][]string{}
	for k, judge := range e.Judges {
		m.names[judge.Target()] = []string{named[now]}
		for i, letter := range times[now] {
			first, second := eval.AnchorDocument(e.Items[i/2].ID, i%2), eval.AnchorDocument(e.Items[i/2].ID, 1-i%2)
			if letter == eval.SaidNothing {
				continue
			}
			m.verdict(k, first, second, map[rune]string{
				eval.SaidFirst: e.Items[i/2].ID + "/1", eval.SaidSecond: e.Items[i/2].ID + "/2", eval.SaidTie: eval.Tie,
			}[letter], "because")
		}
	}
	for t, said := range times[:now] {
		asking := eval.Asking{Evaluation: eval.ID(fmt.Sprint("ev-", t)), Name: "before", At: m.evaluation.Created.Add(time.Duration(t-now) * 24 * time.Hour)}
		for range judges {
			asking.Judges = append(asking.Judges, eval.AnchorAnswer{Named: []string{named[t]}, Said: said})
		}
		e.Anchors.History = append(e.Anchors.History, asking)
	}
	return m
}

func written(t *testing.T, r *Report) (card, text, markdown, page string, object map[string]any) {
	t.Helper()
	var a, b, c, d, j bytes.Buffer
	for _, err := range []error{
		r.WriteCard(&a, CardOptions{}), r.WriteText(&b, TextOptions{Width: 200}), r.WriteMarkdown(&c), r.WriteHTML(&d), r.WriteJSON(&j),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(j.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(a.String()), " "), strings.Join(strings.Fields(b.String()), " "), c.String(),
		strings.ReplaceAll(d.String(), "&nbsp;", " "), object
}

// A judge with other verdicts, and a model with another name, are warnings in every form. Their verdicts rank nothing.
func TestChangedJudgesAreWarned(t *testing.T) {
	t.Parallel()
	old, other := strings.Repeat("11", 40), strings.Repeat("11", 28)+strings.Repeat("22", 12)
	m := anchored(40, []string{"ann", "bob"}, []string{"m-1", "m-1", "m-2"}, old, old, other)
	r := built(t, m, Options{})
	if r.Verdicts != 0 || len(r.Groups) != 0 {
		t.Errorf("%d verdicts count in %d rankings", r.Verdicts, len(r.Groups))
	}
	card, text, markdown, page, object := written(t, r)
	changed := "“ann” has changed: 30.0 % of its verdicts on anchors differ from earlier ones, usually 0.0 % (p below 0.001)."
	renamed := "The provider of “bob” names another model than before: “m-2” instead of “m-1”."
	for form, got := range map[string]string{"card": card, "text": text, "markdown": markdown, "page": page} {
		for _, want := range []string{changed, renamed} {
			if !strings.Contains(got, want) {
				t.Errorf("the %s does not say %q:\n%.900s", form, want, got)
			}
		}
		if strings.Contains(got, "no verdict yet") {
			t.Errorf("the %s says that there is no verdict yet", form)
		}
	}
	for form, got := range map[string]string{"text": text, "markdown": markdown, "page": page} {
		if !strings.Contains(got, "Judges over time") || !strings.Contains(got, "changed, another model named") {
			t.Errorf("the %s has no table of judges over time", form)
		}
	}
	over := object["judges_over_time"].(map[string]any)
	ann := over["judges"].([]any)[0].(map[string]any)["times"].([]any)
	last := ann[len(ann)-1].(map[string]any)
	if len(over["warnings"].([]any)) != 4 || len(ann) != 3 || last["state"] != "changed" || last["differ"] != .3 || last["times_compared"] != 2. ||
		last["known_winners"].(map[string]any)["share"] != .7 {
		t.Errorf("report.json has %v", last)
	}
}

// A judge that says the same is as before; with too little to compare, nothing is said about it.
func TestUnchangedJudges(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("12", 40)
	for _, tt := range []struct {
		times []string
		want  string
	}{
		{[]string{old, old, old}, "1 judge as before, by 40 anchors."},
		{[]string{old, old}, "unknown whether 1 judge changed, by 40 anchors."},
		{[]string{old}, "unknown whether 1 judge changed, by 40 anchors."},
		{[]string{old, old, strings.Repeat("--", 40)}, "unknown whether 1 judge changed, by 40 anchors."},
	} {
		r := built(t, anchored(40, []string{"ann"}, []string{"m", "m", "m"}, tt.times...), Options{})
		if got := r.OverTime.Line(); got != tt.want {
			t.Errorf("%d times: %q, want %q", len(tt.times), got, tt.want)
		}
	}
	r := built(t, anchored(40, []string{"ann"}, []string{"m"}, old), Options{})
	if first := r.OverTime.Judges[0].Times[0].First; first.Share != 1 || first.Of != 80 {
		t.Errorf("a judge that follows the order prefers the text shown first in %+v", first)
	}
	if r := built(t, tournament([]string{"x", "y"}, []string{"q"}, []string{"j"}, []float64{0}, 1), Options{}); r.OverTime != nil {
		t.Error("an evaluation without anchors has judges over time")
	}
}

// Names that providers give models, and those of judges, cannot break the page.
func TestHostileNamesOfModels(t *testing.T) {
	t.Parallel()
	const hostile = "<script>alert(1)</script>\x1b[31m\u202e"
	old := strings.Repeat("11", 20)
	r := built(t, anchored(20, []string{hostile}, []string{"m", "m", hostile}, old, old, old), Options{})
	card, text, markdown, page, _ := written(t, r)
	var judges bytes.Buffer
	if err := WriteServedJudges(&judges, []*Report{r}); err != nil {
		t.Fatal(err)
	}
	for form, got := range map[string]string{"card": card, "text": text, "markdown": markdown, "page": page, "page of judges": judges.String()} {
		if strings.Contains(got, "\x1b") || strings.Contains(got, "\u202e") || form != "card" && form != "text" && strings.Contains(got, "<script>alert") {
			t.Errorf("the %s shows %q as it is", form, hostile)
		}
		if !strings.Contains(got, "alert(1)") && !strings.Contains(got, "alert\\(1\\)") {
			t.Errorf("the %s does not show the name", form)
		}
	}
}

// The page of judges shows each judge once, as the newest evaluation of its anchors has it.
func TestPageOfJudges(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("11", 20)
	before := built(t, anchored(20, []string{"ann"}, []string{"m"}, old), Options{})
	before.Evaluation.ID, before.OverTime.Evaluation = "ev-0", "ev-0"
	now := built(t, anchored(20, []string{"ann"}, []string{"m", "m"}, old, old), Options{})
	var page bytes.Buffer
	if err := WriteServedJudges(&page, []*Report{now, before}); err != nil {
		t.Fatal(err)
	}
	if got := page.String(); strings.Count(got, "<h2 id=\"ev-") != 1 || !strings.Contains(got, "1 judge; none is known to have changed.") ||
		!strings.Contains(got, "Agreement of ann with itself at first") {
		t.Errorf("the page has %d series:\n%s", strings.Count(got, "<h2"), got[strings.Index(got, "<main"):])
	}
	page.Reset()
	if err := WriteServedJudges(&page, nil); err != nil || !strings.Contains(page.String(), "No judge was asked about anchors yet.") {
		t.Errorf("without anchors, the page says %v\n%s", err, page.String())
	}
}
