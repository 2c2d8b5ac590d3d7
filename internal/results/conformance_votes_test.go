package results

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

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

// pageVote is a first vote of a person on the pair a.md and b.md, or b.md and c.md.
func pageVote(annotator, first, second, said string) PageVote {
	of := map[string]string{"a.md": "a", "b.md": "b", "c.md": "c"}
	return PageVote{
		Annotator: annotator, Document1: first, Document2: second, Item: "q1", Candidate1: of[first], Candidate2: of[second],
		Said: said, ShownFirst: second, Chosen: ChosenSample, Note: "why \x00 <b>", At: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Changes: 1,
	}
}

// Votes given on the page are recorded once, are read together with those of a file, and are undone once.
func testPageVotes(t *testing.T, url string) {
	db, e := openStore(t, url)
	put := func(what string, v PageVote, want bool) {
		t.Helper()
		if got, err := db.PutVote(t.Context(), e.ID, v); err != nil || got != want {
			t.Errorf("%s: stored %v, %v; want %v", what, got, err, want)
		}
	}
	undo := func(what string, v PageVote, want bool) {
		t.Helper()
		if got, err := db.UndoVote(t.Context(), e.ID, v); err != nil || got != want {
			t.Errorf("%s: undone %v, %v; want %v", what, got, err, want)
		}
	}
	wantVotes := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, v := range mustCollect(t, db.Votes(t.Context(), e.ID)) {
			got = append(got, v.Annotator+" "+v.Document1+" "+v.Document2+" "+v.Winner+" "+v.Chosen)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("votes %s (-want +got):\n%s", when, diff)
		}
		stored, err := db.Evaluation(t.Context(), e.ID)
		if err != nil || stored.OnPage.Votes > len(want) || stored.Voted() != (len(want) > 0) {
			t.Errorf("%s the evaluation has %d votes of the page, %v; of all %d", when, stored.OnPage.Votes, err, len(want))
		}
	}

	annas := pageVote("anna", "a.md", "b.md", SaidSecond)
	wantVotes("before there are any")
	put("a first vote", annas, true)
	put("the same that arrives again", annas, false)
	other := annas
	other.Said = SaidFirst
	put("another verdict from another tab", other, false)
	put("another person's on the pair", pageVote("bo", "a.md", "b.md", SaidTie), true)
	put("a skipped pair", pageVote("bo", "b.md", "c.md", SaidSkip), true)
	wantVotes("from the page", "anna a.md b.md b.md sample", "bo a.md b.md tie sample")
	kept := mustCollect(t, db.PageVotes(t.Context(), e.ID))
	if diff := cmp.Diff([]PageVote{annas, pageVote("bo", "a.md", "b.md", SaidTie), pageVote("bo", "b.md", "c.md", SaidSkip)}, kept); diff != "" {
		t.Errorf("what was said (-want +got):\n%s", diff)
	}

	undo("another person's vote", pageVote("cy", "a.md", "b.md", SaidSecond), false)
	undo("a vote", annas, true)
	undo("it again", annas, false)
	put("the undone vote that arrives late", annas, false)
	wantVotes("after one was undone", "bo a.md b.md tie sample")
	again := other
	again.Changes = 3
	put("a vote after that", again, true)
	undo("the first vote again, late", annas, false)
	wantVotes("after a new one", "anna a.md b.md a.md sample", "bo a.md b.md tie sample")

	// A file made from the page's votes may be given to the evaluation: no vote counts twice.
	voted, texts := withVotes(
		e, eval.Vote{Annotator: "anna", First: "a.md", Second: "b.md", Winner: "b.md"},
		eval.Vote{Annotator: "anna", First: "b.md", Second: "c.md", Winner: "c.md"},
	)
	if err := db.PutEvaluation(t.Context(), voted, maps.All(texts)); err != nil {
		t.Fatal(err)
	}
	wantVotes("with a file", "anna a.md b.md a.md sample", "bo a.md b.md tie sample", "anna b.md c.md c.md ")
	undo("the vote", again, true)
	wantVotes("with a file, after an undone vote", "bo a.md b.md tie sample", "anna b.md c.md c.md ")

	wrong := annas
	wrong.Document1, wrong.Document2 = "b.md", "a.md"
	if _, err := db.PutVote(t.Context(), e.ID, wrong); err == nil {
		t.Error("a vote whose documents are not in order was stored")
	}
	if _, err := db.PutVote(t.Context(), "ev-none", annas); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("a vote on an unknown evaluation: got %v", err)
	}
	if _, err := db.UndoVote(t.Context(), "ev-none", annas); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("an undone vote on an unknown evaluation: got %v", err)
	}
}

// One person's tabs that send at the same time record one vote; two people on one pair record two.
func testVotesAtOnce(t *testing.T, url string) {
	db, e := openStore(t, url)
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := map[string]int{}
	for _, who := range []string{"anna", "bo"} {
		for range 8 {
			wg.Go(func() {
				ok, err := db.PutVote(t.Context(), e.ID, pageVote(who, "a.md", "b.md", SaidTie))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if ok {
					stored[who]++
				}
			})
		}
	}
	wg.Wait()
	if diff := cmp.Diff(map[string]int{"anna": 1, "bo": 1}, stored); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if votes := mustCollect(t, db.Votes(t.Context(), e.ID)); len(votes) != 2 {
		t.Errorf("%d votes, want 2", len(votes))
	}
}
