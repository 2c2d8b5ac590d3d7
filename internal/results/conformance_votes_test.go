package results

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// withVotes is an evaluation that these votes belong to, and its texts.
func withVotes(e Evaluation, votes ...eval.Vote) (Evaluation, map[string]string) {
	text := eval.EncodeVotes(votes)
	e.Settings.Votes = eval.TextHash(text)
	return e, map[string]string{e.Settings.Votes: text}
}

func testVotes(t *testing.T, url string) {
	db, e := openStore(t, url)
	wantVotes := func(when string, want ...VoteRow) {
		t.Helper()
		if diff := cmp.Diff(want, mustCollect(t, db.Votes(t.Context(), e.ID))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	wantVotes("before there are any")
	annas := eval.Vote{Annotator: "anna", First: "b.md", Second: "a.md", Winner: "b.md"}
	bos := eval.Vote{Annotator: "bo \x00", First: "c.md", Second: "b.md", Winner: eval.Tie}
	row := VoteRow{Annotator: "anna", Document1: "a.md", Document2: "b.md", Winner: "b.md", Item: "q1", Candidate1: "a", Candidate2: "b"}
	other := VoteRow{Annotator: "bo \x00", Document1: "b.md", Document2: "c.md", Winner: eval.Tie, Item: "q1", Candidate1: "b", Candidate2: "c"}

	voted, texts := withVotes(e, bos, annas)
	for range 2 {
		if err := db.PutEvaluation(t.Context(), voted, maps.All(texts)); err != nil {
			t.Fatal(err)
		}
	}
	wantVotes("stored twice", row, other)
	if err := db.PutEvaluation(t.Context(), voted, maps.All(map[string]string{})); err != nil {
		t.Errorf("votes that are stored need not be given again: %v", err)
	}
	wantVotes("stored again without their text", row, other)
	if text, err := db.Text(t.Context(), voted.Settings.Votes); err != nil || text != texts[voted.Settings.Votes] {
		t.Errorf("their text: got %q, %v", text, err)
	}
	if got, err := db.Evaluation(t.Context(), e.ID); err != nil || got.Settings.Votes != voted.Settings.Votes {
		t.Errorf("settings name the votes %q, %v; want %q", got.Settings.Votes, err, voted.Settings.Votes)
	}

	fewer, texts := withVotes(e, bos)
	for what, given := range map[string]map[string]string{"missing": {}, "missing beside others": {"x": "y"}} {
		if err := db.PutEvaluation(t.Context(), fewer, maps.All(given)); err == nil {
			t.Errorf("votes whose text is %s were stored", what)
		}
	}
	strange, unfit := withVotes(e, eval.Vote{Annotator: "cy", First: "a.md", Second: "z.md", Winner: "a.md"})
	if err := db.PutEvaluation(t.Context(), strange, maps.All(unfit)); err == nil || !strings.Contains(err.Error(), "z.md") {
		t.Errorf("a vote on a document that there is not: got %v", err)
	}
	wantVotes("after what was refused", row, other)
	if err := db.PutEvaluation(t.Context(), fewer, maps.All(texts)); err != nil {
		t.Fatal(err)
	}
	wantVotes("replaced", other)
	if err := db.PutEvaluation(t.Context(), e, maps.All(map[string]string{})); err != nil {
		t.Fatal(err)
	}
	wantVotes("taken back")
}
