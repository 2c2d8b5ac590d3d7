package reuse_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// anchored returns an evaluation that asks the judges of essays about three anchors.
func anchored(of string, change func(*eval.Evaluation)) (*eval.Evaluation, map[string]string) {
	return essays("e"+eval.AnchorsSuffix, nil, func(e *eval.Evaluation) {
		e.Single, e.Pairwise.Trials, e.Anchors, e.Items = nil, 1, &eval.Anchors{Of: eval.ID(of)}, nil
		for i, name := range []string{"k", "l", "m"} {
			e.Items = append(e.Items, eval.Item{ID: name, Question: "Q"})
			for k := range 2 {
				text := fmt.Sprint("text ", name, k)
				e.Documents = append(e.Documents, eval.Document{
					ID: eval.AnchorDocument(name, k), Item: i, Candidate: "anchors", Hash: eval.TextHash(text), Bytes: len(text),
				})
			}
		}
		if change != nil {
			change(e)
		}
	})
}

func anchorTexts() map[string]string {
	texts := map[string]string{}
	for _, name := range []string{"k", "l", "m"} {
		for k := range 2 {
			text := fmt.Sprint("text ", name, k)
			texts[eval.TextHash(text)] = text
		}
	}
	return texts
}

// firstWins makes the first text of anchors k and l win, and the one shown first of m. Verdicts of judge b on l fail with the
// first text in front, and another model gives them with the second.
func firstWins(r *record.Run) {
	switch r.Winner = r.Item + "/1"; {
	case r.Item == "m":
		r.Winner = r.Documents[0]
	case r.Item == "l" && r.Judge == "b" && r.Documents[0] == "l/1":
		r.State, r.Class, r.AnsweredBy, r.Winner = eval.StateFailed.String(), "malformed", "", ""
	case r.Item == "l" && r.Judge == "b":
		r.AnsweredBy = "openai:mini"
	}
}

// What judges said about anchors before is found in all stores, in the order of time and with the orders of texts, also if
// anchors have other names or were asked with others. Another template, other texts and other settings are other questions.
func TestHistoryOfAnchors(t *testing.T) {
	t.Parallel()
	here, there := open(t), open(t)
	first, _ := anchored("ev-aaaaaaaaaaaa", nil)
	answer(t, there, asking(t, there, first, anchorTexts(), record.Settings{}), firstWins)
	renamed, _ := anchored("ev-bbbbbbbbbbbb", func(e *eval.Evaluation) {
		e.Items[0].ID, e.Documents[0].ID, e.Documents[1].ID = "z", "z/1", "z/2" // now last
	})
	answer(t, here, asking(t, here, renamed, anchorTexts(), record.Settings{}), firstWins)
	for i, change := range []func(*eval.Evaluation){
		func(e *eval.Evaluation) { e.Pairwise.Template = "[[documents]]" },
		func(e *eval.Evaluation) {
			e.Judges[0].Overrides, e.Judges[1].Model = map[string]any{"temperature": 0}, "c"
		},
		func(e *eval.Evaluation) {
			for i := range e.Items {
				e.Items[i].Question = "R"
			}
		},
		func(e *eval.Evaluation) { e.Anchors = nil },
	} {
		other, _ := anchored(fmt.Sprint("ev-", i), change)
		answer(t, here, asking(t, here, other, anchorTexts(), record.Settings{}), nil)
	}

	now, _ := anchored("ev-cccccccccccc", nil)
	all, err := reuse.History(t.Context(), now, here, there, here)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range all {
		got = append(got, fmt.Sprintf("%v %v %s %s", one.Evaluation == first.ID(), one.Evaluation == renamed.ID(), one.Judges[0].Said, one.Judges[1].Said))
	}
	want := []string{"true false 111112 11--12", "false true 111112 11--12"}
	if !slices.Equal(got, want) {
		t.Errorf("history is\n%q\nwant\n%q", got, want)
	}
}

// What was said about anchors answers nothing else, and nothing else answers them.
func TestAnchorsAreNotReused(t *testing.T) {
	t.Parallel()
	db := open(t)
	plain := func(e *eval.Evaluation) { e.Anchors = nil }
	before, _ := anchored("ev-aaaaaaaaaaaa", nil)
	answer(t, db, asking(t, db, before, anchorTexts(), record.Settings{}), nil)
	same, _ := anchored("", func(e *eval.Evaluation) { plain(e); e.Name = "same" })
	asks := asking(t, db, same, anchorTexts(), record.Settings{})
	if n := known(t, db, asks); n != 0 {
		t.Errorf("anchors answer %d runs of another evaluation", n)
	}
	answer(t, db, asks, nil)
	again, _ := anchored("ev-bbbbbbbbbbbb", nil)
	if n := known(t, db, asking(t, db, again, anchorTexts(), record.Settings{})); n != 0 {
		t.Errorf("%d anchors are answered by earlier evaluations", n)
	}
	third, _ := anchored("", func(e *eval.Evaluation) { plain(e); e.Name = "third" })
	if n := known(t, db, asking(t, db, third, anchorTexts(), record.Settings{})); n != 12 {
		t.Errorf("of 12 runs, %d are known: the test asks something else", n)
	}
}
