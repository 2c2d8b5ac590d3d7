package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

const anchoredHead = "documents: [\"docs/*.md\"]\njudges: [\"simulator:careful\", \"simulator:average\"]\n"

const anchoredFile = anchoredHead + "pairwise: {pairs: all}\nanchors: anchors.jsonl\n"

const anchorRows = `{"name": "tea", "question": "What is tea?", "text_a": "A drink.", "text_b": "A colour.", "winner": "a"}
{"question": "Why?", "text_a": "So.", "text_b": "Because.", "winner": "tie"}
{"question": "Why?", "text_a": "Because.", "text_b": "No."}
`

// Anchors are an evaluation of their own, which asks the same judges in the same way. The other one is the same as without.
func TestAnchors(t *testing.T) {
	t.Parallel()
	files := with(two, "eval.yaml", anchoredFile, "anchors.jsonl", anchorRows)
	s := load(t, files, Options{})
	plain := load(t, with(files, "eval.yaml", anchoredHead+"pairwise: {pairs: all}\n"), Options{})
	if s.Evaluation.ID() != plain.Evaluation.ID() || plain.Anchors != nil {
		t.Errorf("with anchors, the evaluation is %s, without %s", s.Evaluation.ID(), plain.Evaluation.ID())
	}

	e := s.Anchors.Evaluation
	if e.Anchors.Of != s.Evaluation.ID() || e.Name != s.Evaluation.Name+eval.AnchorsSuffix || !slices.EqualFunc(
		e.Judges, s.Evaluation.Judges, func(a, b eval.Judge) bool { return a.Name == b.Name }) {
		t.Errorf("anchors of %s, named %q, by %v", e.Anchors.Of, e.Name, e.Judges)
	}
	if e.Pairwise.Template != s.Evaluation.Pairwise.Template || e.Pairwise.Order != eval.OrderBoth || !s.Anchors.NoReuse || s.Anchors.Settings.Cache {
		t.Errorf("they are asked as %+v, and with earlier answers: %v, %v", e.Pairwise, !s.Anchors.NoReuse, s.Anchors.Settings.Cache)
	}
	winners := map[string]int{}
	for i, item := range e.Items {
		first, second := e.Documents[2*i], e.Documents[2*i+1]
		if first.ID != eval.AnchorDocument(item.ID, 0) || second.ID != eval.AnchorDocument(item.ID, 1) || s.Anchors.Texts[second.Hash] == "" ||
			first.Candidate != second.Candidate { // verdicts on two candidates would be ranked
			t.Errorf("anchor %s has %s and %s", item.ID, first.ID, second.ID)
		}
		winners[item.Facts[eval.WinnerFact]]++
	}
	if len(e.Items) != 3 || winners["tea/1"] != 1 || winners[eval.Tie] != 1 || winners[""] != 1 {
		t.Errorf("%d anchors with the winners %v", len(e.Items), winners)
	}

	other := load(t, with(files, "anchors.jsonl", strings.ReplaceAll(anchorRows, `"winner": "a"`, `"winner": "b"`)), Options{})
	if other.Anchors.Evaluation.ID() != e.ID() {
		t.Error("with another known winner, the anchors are another evaluation")
	}
	csv := "name,question,text_a,text_b,winner\ntea,What is tea?,A drink.,A colour.,a\n,Why?,So.,Because.,tie\n,Why?,Because.,No.,\n"
	table := load(t, with(files, "eval.yaml", strings.Replace(anchoredFile, "anchors.jsonl", "[anchors.csv]", 1), "anchors.csv", csv), Options{})
	if table.Anchors.Evaluation.ID() != e.ID() {
		t.Error("the same rows in a table are other anchors")
	}
}

// The budget bounds the anchors, too, and limits of the evaluation apply to them.
func TestAnchorsKeepLimits(t *testing.T) {
	t.Parallel()
	s := load(t, with(two, "anchors.jsonl", anchorRows, "eval.yaml", anchoredFile+"concurrency: {max_concurrency: 3}\nbudget: {usd: 2}\ncache: true\n"), Options{})
	got := s.Anchors.Settings
	if got.Budget() != 2e9 || got.Cache {
		t.Errorf("a budget of %d, cache %v", got.Budget(), got.Cache)
	}
	id := string(s.Anchors.Evaluation.ID())
	for _, limit := range got.Limits {
		if limit.Evaluation != "" && limit.Evaluation != id {
			t.Errorf("limit %+v is not of %s", limit, id)
		}
	}
	for _, limit := range s.Settings.Limits {
		if limit.Evaluation == id {
			t.Errorf("limit %+v of the other evaluation is of the anchors", limit)
		}
	}
}

// What is wrong with anchors is said with its place and what to do.
func TestBadAnchors(t *testing.T) {
	t.Parallel()
	row := func(a, b string) string {
		return fmt.Sprintf(`{"name": "n", "question": "Q", "text_a": %q, "text_b": %q}`+"\n", a, b)
	}
	many := ""
	for i := range eval.MostAnchors + 2 {
		many += fmt.Sprintf(`{"question": "Q", "text_a": "a%d", "text_b": "b"}`+"\n", i)
	}
	for _, tt := range []struct {
		file, rows string
		options    Options
		want       string
	}{
		{anchoredFile, row("", "b"), Options{}, "anchors.jsonl:1: text_a: the text is empty; write the text"},
		{anchoredFile, `{"question": "Q", "text_b": "b"}`, Options{}, "anchors.jsonl:1: text_a: there is no text; want the columns question, text_a and text_b"},
		{anchoredFile, row("a", "a"), Options{}, "anchors.jsonl:1: both texts of the anchor are the same"},
		{anchoredFile, row("a", "b") + row("b", "a"), Options{}, "anchors.jsonl:2: the anchor is already in anchors.jsonl:1; list each pair once"},
		{anchoredFile, row("a", "b") + row("a", "c"), Options{}, `anchors.jsonl:2: a second anchor "n", the first is in anchors.jsonl:1`},
		{anchoredFile, `{"name": "n", "text_a": "a", "text_b": "b", "winner": "c"}`, Options{}, `anchors.jsonl:1: winner: "c" is neither candidate`},
		{anchoredFile, many, Options{}, "anchors.jsonl:1001: more than 1,000 anchors"},
		{anchoredFile, "", Options{}, "anchors.jsonl: the file is empty"},
		{anchoredFile, "[]", Options{}, "there are no anchors; list at least one pair"},
		{strings.Replace(anchoredFile, "anchors.jsonl", "missing.jsonl", 1), "", Options{}, "missing.jsonl: no such file"},
		{strings.Replace(anchoredFile, "anchors.jsonl", "../../etc/passwd", 1), "", Options{}, "outside"},
		{strings.Replace(anchoredFile, "anchors.jsonl", "[]", 1), "", Options{}, "anchors"},
		{anchoredHead + "single: {criteria: [style]}\nanchors: anchors.jsonl\n", anchorRows, Options{}, "anchors are pairs, but no pairs are compared; add pairwise: {}"},
		{anchoredFile, anchorRows, Options{Limit: 3}, "--limit: the flag does not apply to a file with anchors"},
		{anchoredFile, anchorRows, Options{ForFleet: true}, "wait for them: evalfleet enqueue FILE --wait"},
	} {
		if _, got := problemsOf(t, with(two, "eval.yaml", tt.file, "anchors.jsonl", tt.rows), tt.options); !strings.Contains(got, tt.want) {
			t.Errorf("%.60q says\n%s\nwant %q", tt.rows, got, tt.want)
		}
	}
}

// A template shows of an anchor what it shows of documents, or the anchor is refused.
func TestAnchorsShowWhatTemplatesShow(t *testing.T) {
	t.Parallel()
	files := with(nil, "t.md", "[[item.land]] [[reference]] [[question]] [[documents]] [[answer_format]]", "docs.jsonl",
		`{"item": "i", "candidate": "x", "text": "X", "question": "Q", "land": "Mali", "reference": "R"}
{"item": "i", "candidate": "y", "text": "Y"}`, "eval.yaml", `documents: {jsonl: docs.jsonl, fields: [land]}
judges: ["simulator:careful"]
pairwise: {pairs: all, template: t.md}
anchors: anchors.jsonl
`)
	_, got := problemsOf(t, with(files, "anchors.jsonl", anchorRows), Options{})
	if want := "anchors.jsonl:1: the template shows [[item.land]], which the anchor does not have; add the field land"; !strings.Contains(got, want) {
		t.Errorf("it says\n%s\nwant %q", got, want)
	}
	s := load(t, with(files, "anchors.jsonl", `{"question": "Q", "text_a": "a", "text_b": "b", "land": "Chad", "reference": "S", "other": "x"}`), Options{})
	if item := s.Anchors.Evaluation.Items[0]; item.Fields["land"] != "Chad" || item.Reference != "S" || len(item.Fields) != 1 {
		t.Errorf("the anchor shows %+v", item)
	}
}
