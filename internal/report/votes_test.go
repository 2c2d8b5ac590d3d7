package report

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// vote adds what a person said of two documents of one item.
func (m *memory) vote(annotator, first, second, winner string) {
	m.evaluation.Settings.Votes = "some"
	m.votes = append(m.votes, results.VoteRow{Annotator: annotator, Document1: first, Document2: second, Winner: winner})
}

// published are three people's verdicts on 999 pairs of five models' answers to 170
// questions (cmd/evalfleet/testdata/pandalm says whose), judged by judges as well.
func published(t *testing.T, judges ...string) *memory {
	t.Helper()
	file, err := os.Open("../../cmd/evalfleet/testdata/pandalm/human_votes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var items []string
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		if !seen[row[0]] {
			items = append(items, row[0])
		}
		seen[row[0]] = true
	}
	m := sourceOf(plan([]string{"bloom-7b", "cerebras-gpt-6.7B", "llama-7b", "opt-7b", "pythia-6.9b"}, items, judges...))
	for _, row := range rows[1:] {
		first, second := row[0]+"/"+row[1], row[0]+"/"+row[2]
		for k, annotator := range rows[0][3:] {
			m.vote(annotator, first, second, map[string]string{"0": eval.Tie, "1": first, "2": second}[row[3+k]])
		}
	}
	return m
}

// Votes from the page are counted by why their pair was shown. Only votes on a random sample represent all pairs.
func TestVotesOfThePage(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"x", "y", "z"}, []string{"q1", "q2"}, "j"))
	vote := func(who, first, second, chosen string) {
		m.vote(who, first, second, first)
		m.votes[len(m.votes)-1].Chosen = chosen
	}
	vote("anna", "q1/x", "q1/y", "")
	for _, chosen := range []string{"", results.ChosenSample} {
		m.votes[0].Chosen = chosen
		want := map[string]string{results.ChosenSample: "1 vote on a random sample of pairs."}[chosen]
		r, err := Build(t.Context(), m, m.evaluation.ID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if said := r.People.summary(); !strings.HasSuffix(said, want) || strings.Contains(said, "without bias") || chosen == "" && strings.Contains(said, "page") {
			t.Errorf("with one vote chosen as %q: %s", chosen, said)
		}
	}

	vote("anna", "q1/x", "q1/z", results.ChosenContested)
	vote("bo", "q1/x", "q1/z", results.ChosenContested)
	vote("bo", "q2/x", "q2/z", results.ChosenNarrow)
	r, err := Build(t.Context(), m, m.evaluation.ID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "1 vote on a random sample of pairs, 2 votes on pairs that judges contest, 1 vote on pairs of neighbours whose order is open. Chosen pairs"
	if said := r.People.summary(); !strings.Contains(said, want) {
		t.Errorf("said: %s", said)
	}
	if got := r.peopleJSON(); got.Sample != 1 || got.Contested != 2 || got.Narrow != 1 {
		t.Errorf("report.json has %d, %d and %d votes", got.Sample, got.Contested, got.Narrow)
	}
}

// TestPublishedVotes: the agreement that has been published of them, and the majority.
func TestPublishedVotes(t *testing.T) {
	t.Parallel()
	r := built(t, published(t), Options{Draws: 20})
	people := r.People
	if people.Votes != 2997 || people.Pairs != 999 || people.Undecided != 0 {
		t.Errorf("%d votes on %d pairs, %d undecided; want 2997, 999 and 0", people.Votes, people.Pairs, people.Undecided)
	}
	if diff := cmp.Diff([]string{"vote_1", "vote_2", "vote_3"}, people.Agreement.Raters); diff != "" {
		t.Fatalf("annotators (-want +got):\n%s", diff)
	}
	const named = 4e-4 // these figures depend on which text of a pair is called the first, ours do not
	for k, want := range []float64{0.8520226785, 0.8789438113, 0.8616614541} {
		if limits := people.Agreement.Pairs[k].CohenLimits; !(limits.Low < want && want < limits.High && limits.High-limits.Low < 0.12) {
			t.Errorf("limits of kappa %+v around %v of 999 pairs on 170 questions", limits, want)
		}
		if got := people.Agreement.Pairs[k]; math.Abs(got.Cohen-want) > named || got.Units != 999 {
			t.Errorf("Cohen of %d and %d: %.10f of %d pairs, want about %.10f of 999", got.A, got.B, got.Cohen, got.Units, want)
		}
	}
	if math.Abs(people.Agreement.Fleiss-0.8641753650) > named || math.Abs(people.Agreement.Alpha-0.8642206852) > named {
		t.Errorf("Fleiss %.10f, alpha %.10f; want about 0.8641753650 and 0.8642206852", people.Agreement.Fleiss, people.Agreement.Alpha)
	}
	// Without judges, people's ranking is the evaluation's.
	want := [][]string{{"llama-7b 1", "pythia-6.9b 2", "bloom-7b 3", "opt-7b 4", "cerebras-gpt-6.7B 5"}}
	if diff := cmp.Diff(want, ranking(r)); diff != "" || r.Verdicts != 2997 || r.Intervals.By != ByItem {
		t.Errorf("%d verdicts by %s (-want +got):\n%s", r.Verdicts, r.Intervals.By, diff)
	}
	if diff := cmp.Diff(r.Groups[0].Ranked[0].Ability, people.Groups[0].Ranked[0].Ability); diff != "" || len(r.elo) == 0 {
		t.Errorf("%d ratings of documents; ability of the first (-ranking +people):\n%s", len(r.elo), diff)
	}
	for _, a := range people.Annotators {
		if a.Votes != 999 || a.Groups[0].Ranked[0].Name != "llama-7b" {
			t.Errorf("annotator %s: %d votes, %v first", a.Name, a.Votes, a.Groups[0].Ranked[0].Name)
		}
	}
	for what, out := range map[string]string{"text": textOf(t, r, TextOptions{}), "page": pageOf(t, r)} {
		if strings.Contains(out, "NaN") || !strings.Contains(out, "llama-7b") {
			t.Errorf("the %s of votes alone:\n%.3000s", what, out)
		}
	}
}

// TestJudgeAgainstPeople: judges do not change people's ranking, nor people theirs.
func TestJudgeAgainstPeople(t *testing.T) {
	t.Parallel()
	m := published(t, "echo", "first")
	majority := map[[2]string]map[string]int{}
	for _, vote := range m.votes {
		pair := [2]string{vote.Document1, vote.Document2}
		if majority[pair] == nil {
			majority[pair] = map[string]int{}
		}
		majority[pair][vote.Winner]++
	}
	ties := 0
	for pair, said := range majority {
		for winner, n := range said {
			if n < 2 {
				continue
			}
			if winner == eval.Tie {
				ties++
			}
			m.verdict(0, pair[0], pair[1], winner, "")
			m.verdict(0, pair[1], pair[0], winner, "")
		}
		m.verdict(1, pair[0], pair[1], pair[0], "") // whichever is shown first
	}
	if ties != 105 {
		t.Fatalf("%d pairs are ties by majority, want 105", ties)
	}
	alone := built(t, published(t), Options{Draws: 20})
	r := built(t, m, Options{Draws: 20})
	if got := r.People.Judges[0]; got.Pairs != 999 || got.Accuracy != 1 || got.Precision != 1 || got.Recall != 1 || got.F1 != 1 || got.Cohen != 1 || !math.IsNaN(got.CohenLimits.Low) {
		t.Errorf("a judge that says what most people say: %+v", got)
	}
	// 422 of 999 are the first by majority; the other outcomes are never said.
	got := r.People.Judges[1]
	for what, pair := range map[string][2]float64{
		"accuracy": {got.Accuracy, 422. / 999}, "precision": {got.Precision, 422. / 999 / 3}, "recall": {got.Recall, 1. / 3},
		"F1": {got.F1, 2 * 422. / (422 + 999) / 3}, "kappa": {got.Cohen, (422 - 447.) / (999 - 447)}, // of 894 that are no ties, chance agrees on 447
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("%s of a judge that prefers the first: %v, want %v", what, pair[0], pair[1])
		}
	}
	if diff := cmp.Diff([]string{"echo", "first", "vote_1", "vote_2", "vote_3"}, r.People.Everyone.Raters); diff != "" || len(r.People.Everyone.Pairs) != 10 {
		t.Errorf("%d pairs of raters (-want +got):\n%s", len(r.People.Everyone.Pairs), diff)
	}
	if diff := cmp.Diff([]string{"echo", "first"}, r.Agreement.Raters); diff != "" {
		t.Errorf("judges among themselves (-want +got):\n%s", diff)
	}
	if r.Verdicts != len(m.pairwise) {
		t.Errorf("%d verdicts are ranked, want the judges' %d", r.Verdicts, len(m.pairwise))
	}
	for k, c := range r.People.Groups[0].Ranked {
		if before := alone.Groups[0].Ranked[k]; c.Name != before.Name || c.Ability != before.Ability {
			t.Errorf("people rank %s with %v beside judges, and %s with %v alone", c.Name, c.Ability, before.Name, before.Ability)
		}
	}
	text := textOf(t, r, TextOptions{})
	for _, want := range []string{"People", "echo", "100.0 %", "vote_1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not say %q:\n%s", want, text)
		}
	}
}

func TestFewVotes(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q"}, "j"))
	m.vote("anna", "q/a", "q/b", "q/a")
	m.vote("bo", "q/a", "q/b", "q/b") // undecided
	m.vote("bo", "q/b", "q/c", eval.Tie)
	m.vote("cy", "q/b", "q/c", eval.Tie)
	m.vote("cy", "q/a", "q/c", "q/c") // without the judge's verdict
	m.verdict(0, "q/a", "q/b", "q/a", "")
	m.verdict(0, "q/b", "q/c", "q/c", "")
	m.verdict(0, "q/c", "q/b", "q/b", "") // contradicts itself, which is no tie
	r := built(t, m, Options{})
	people := r.People
	if people.Pairs != 3 || people.Undecided != 1 || people.Annotators[1].Ties != 1 {
		t.Errorf("%d pairs, %d undecided, annotators %+v; want 3, 1 and a tie of bo", people.Pairs, people.Undecided, people.Annotators)
	}
	if got := people.Judges[0]; got.Pairs != 1 || got.Accuracy != 0 || got.Mostly != 0 || got.F1 != 0 {
		t.Errorf("the judge: %+v, want one pair, on which it is wrong in both orders", got)
	}
	empty := sourceOf(plan([]string{"a", "b"}, []string{"q"}, "j"))
	empty.vote("anna", "q/a", "q/b", "q/a")
	r = built(t, empty, Options{})
	if got := r.People.Judges[0]; got.Pairs != 0 || !math.IsNaN(got.Accuracy) || len(r.People.Groups[0].Ranked) != 2 {
		t.Errorf("a judge without verdicts: %+v, beside %+v", got, r.People.Groups)
	}
	var object, markdown strings.Builder
	if err := errors.Join(r.WriteJSON(&object), r.WriteMarkdown(&markdown)); err != nil {
		t.Fatal(err)
	}
	for what, out := range map[string]string{
		"text": textOf(t, r, TextOptions{}), "page": pageOf(t, r), "JSON": object.String(), "Markdown": markdown.String(),
	} {
		if strings.Contains(out, "NaN") || !strings.Contains(out, "anna") && what != "page" {
			t.Errorf("the %s has a number that is none, or nothing of anna:\n%.3000s", what, out)
		}
	}
	for name, spoil := range map[string]results.VoteRow{
		"document": {Annotator: "anna", Document1: "q/a", Document2: "nowhere", Winner: "q/a"},
		"winner":   {Annotator: "anna", Document1: "q/a", Document2: "q/b", Winner: "q/c"},
	} {
		m := sourceOf(plan([]string{"a", "b", "c"}, []string{"q"}, "j"))
		m.vote("anna", "q/a", "q/b", "q/a")
		m.votes = append(m.votes, spoil)
		if _, err := Build(context.Background(), m, "ev-abcdefgh2345", Options{}); err == nil || !strings.Contains(err.Error(), "anna") {
			t.Errorf("unknown %s: got %v, want an error that names the annotator", name, err)
		}
	}
}

// TestPeopleHaveNoOrder: in which order people saw two texts is not known.
func TestPeopleHaveNoOrder(t *testing.T) {
	t.Parallel()
	m := sourceOf(plan([]string{"a", "b"}, []string{"q1", "q2"}, "j"))
	m.vote("anna", "q1/a", "q1/b", "q1/a")
	m.vote("anna", "q2/a", "q2/b", "q2/a")
	m.vote("bo", "q1/a", "q1/b", "q1/b")
	ranked := built(t, m, Options{Ties: rank.HalfWins}).People.Groups[0].Ranked
	if got := ranked[0].Ability - ranked[1].Ability; math.Abs(got-math.Log(2)) > 1e-6 {
		t.Errorf("a is ahead of b by %v, want log 2", got)
	}
}

// crowd are so many people with so many votes each, on five candidates that are a step
// apart; most are of two minds about ties.
func crowd(people, votes int, judges ...string) *memory {
	items := names(40)
	m := sourceOf(plan(names(5), items, judges...))
	random := rand.New(rand.NewPCG(8, 9))
	for person := range people {
		tie := []float64{0, 0.2, 1}[person%3] // some tie always
		for range votes {
			pair := random.Perm(5)[:2]
			item := items[random.IntN(len(items))]
			documents := []string{item + "/" + names(5)[pair[0]], item + "/" + names(5)[pair[1]]}
			winner := documents[0]
			switch {
			case random.Float64() < tie:
				winner = eval.Tie
			case random.Float64() > 1/(1+math.Exp(0.5*float64(pair[0]-pair[1]))):
				winner = documents[1]
			}
			m.vote(fmt.Sprintf("person-%03d", person), documents[0], documents[1], winner)
		}
	}
	return m
}

// TestManyPeopleWithFewVotes: people with few votes share a tie parameter, so that those
// who always tie need no prior, and have no ranking of their own. The work does not grow
// with the people.
func TestManyPeopleWithFewVotes(t *testing.T) {
	t.Parallel()
	m := crowd(300, 5)
	r := built(t, m, Options{Draws: 20})
	if r.People.Pooled != 300 || r.Groups[0].Regularised || len(r.tallies) != 1 {
		t.Errorf("%d people share a tie parameter, %d parameters, with a prior: %t", r.People.Pooled, len(r.tallies), r.Groups[0].Regularised)
	}
	for _, a := range r.People.Annotators {
		if len(a.Groups) > 0 {
			t.Fatalf("%s with %d votes has a ranking of their own", a.Name, a.Votes)
		}
	}
	one := crowd(300, 5)
	for k := range one.votes {
		one.votes[k].Annotator = fmt.Sprintf("person-%d", k%2)
	}
	together := built(t, one, Options{Draws: 20, Ties: rank.HalfWins}).Groups[0].Ranked
	for k, c := range built(t, m, Options{Draws: 20, Ties: rank.HalfWins}).Groups[0].Ranked {
		if d := together[k]; c.Name != d.Name || math.Abs(c.Ability-d.Ability) > 1e-9 {
			t.Errorf("%s %v, by two people %s %v", c.Name, c.Ability, d.Name, d.Ability)
		}
	}
	if text := textOf(t, r, TextOptions{}); !strings.Contains(text, "280 more annotators") || !strings.Contains(text, "300 annotators with fewer than 20") {
		t.Errorf("the terminal does not say so:\n%s", text)
	}
	// Of many who voted often, those who voted most have parameters and rankings of their own.
	many := built(t, crowd(130, 21), Options{Draws: 20})
	alone := 0
	for _, a := range many.People.Annotators {
		if len(a.Groups) > 0 {
			alone++
		}
	}
	if many.People.Pooled != 30 || alone != 20 || len(many.tallies) != 101 {
		t.Errorf("%d of 130 share a tie parameter, %d have rankings, %d parameters; want 30, 20 and 101", many.People.Pooled, alone, len(many.tallies))
	}
	// Those who hold a prior are named.
	if notes := strings.Join(many.Notes(), "\n"); !many.Groups[0].Regularised || !strings.Contains(notes, "“person-002”") || strings.Contains(notes, "named in a note") {
		t.Errorf("with a prior: %t; notes: %s", many.Groups[0].Regularised, notes)
	}
}
