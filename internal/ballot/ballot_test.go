package ballot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// asked is an evaluation of four candidates' answers to some questions, by one judge in both orders.
func asked(items int) (results.Evaluation, map[string]string) {
	plan := &eval.Evaluation{
		Name: "asked", JSON: eval.JSONAuto, Judges: []eval.Judge{{Name: "j", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: true},
	}
	texts := map[string]string{}
	for i := range items {
		item := fmt.Sprintf("q%02d", i)
		plan.Items = append(plan.Items, eval.Item{ID: item, Question: "What is " + item + "?"})
		for _, candidate := range []string{"w", "x", "y", "z"} {
			text := candidate + " answers " + item
			texts[eval.TextHash(text)] = text
			plan.Documents = append(plan.Documents, eval.Document{
				ID: item + "/" + candidate, Item: i, Candidate: candidate, Hash: eval.TextHash(text), Bytes: len(text),
			})
		}
	}
	plan.Normalize()
	phases := []record.Phase{{Kind: eval.KindPairwise, Runs: items * 6 * 2}}
	return results.Evaluation{ID: plan.ID(), Plan: plan, Phases: phases, Created: time.Unix(1e9, 0)}, texts
}

func stored(t *testing.T, e results.Evaluation, texts map[string]string) results.Store {
	t.Helper()
	db, err := results.Open(t.Context(), filepath.Join(t.TempDir(), "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.PutEvaluation(t.Context(), e, maps.All(texts)); err != nil {
		t.Fatal(err)
	}
	return db
}

// judged records the judge's verdicts on pairs, by their first documents: the winner in each order.
func judged(t *testing.T, db results.Store, e results.Evaluation, winners map[int][2]string) {
	t.Helper()
	var entries []record.Entry
	for pair, two := range winners {
		item := e.Plan.Items[pair/6].ID
		of := [][2]string{{"w", "x"}, {"w", "y"}, {"w", "z"}, {"x", "y"}, {"x", "z"}, {"y", "z"}}[pair%6]
		for order, winner := range two {
			first, second := of[order], of[1-order]
			entries = append(entries, record.Entry{Run: &record.Run{
				Index: 2*pair + order, Kind: eval.KindPairwise, State: "succeeded", Queue: "p", Judge: "j", Model: "p:m", AnsweredBy: "p:m",
				Item: item, Documents: []string{item + "/" + first, item + "/" + second}, Candidates: []string{first, second}, Trial: 1,
				Attempts: 1, Started: time.Unix(1, 0), Ended: time.Unix(2, 0), Winner: item + "/" + winner,
			}})
		}
	}
	if err := db.Append(t.Context(), e.ID, entries); err != nil {
		t.Fatal(err)
	}
}

func noReport(context.Context) (*report.Report, error) { return nil, errors.New("no report is needed") }

// names returns the documents of a ballot's pairs.
func names(b *Ballot) (all []string) {
	for _, pair := range b.Pairs {
		all = append(all, b.Evaluation.Plan.Documents[pair[0]].ID+" "+b.Evaluation.Plan.Documents[pair[1]].ID)
	}
	return all
}

func mustDraw(t *testing.T, db results.Reader, e results.Evaluation, s Settings, built func(context.Context) (*report.Report, error)) *Ballot {
	t.Helper()
	b, err := Draw(t.Context(), db, e, s, built)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestASampleDependsOnNoVerdict(t *testing.T) {
	t.Parallel()
	e, texts := asked(20)
	db := stored(t, e, texts)
	draw := func(n int) []string {
		return names(mustDraw(t, db, e, Settings{results.ChosenSample, n}, noReport))
	}
	before, all := draw(10), draw(1000)
	judged(t, db, e, map[int][2]string{0: {"w", "x"}, 7: {"w", "w"}})
	if diff := cmp.Diff(before, draw(10)); diff != "" {
		t.Errorf("after verdicts the sample is another one (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, draw(30)[:10]); diff != "" {
		t.Errorf("a larger sample does not begin with the smaller one:\n%s", diff)
	}
	seen := map[string]bool{}
	for _, pair := range all {
		seen[pair] = true
	}
	if len(all) != 120 || len(seen) != 120 {
		t.Errorf("of 120 pairs, %d are drawn, %d different ones", len(all), len(seen))
	}
}

// Where a strong judge sees some pairs again, in a phase of its own, a sample has each pair once, and what the first judges
// contested is contested.
func TestBallotWithAStrongJudge(t *testing.T) {
	t.Parallel()
	e, texts := asked(2)
	e.Plan.Judges = append(e.Plan.Judges, eval.Judge{Name: "strong", Provider: "p", Model: "strong"})
	e.Plan.Escalate = &eval.Escalate{When: []eval.Doubt{eval.DoubtFlip}, Share: 0.5}
	e.ID = e.Plan.ID()
	e.Phases = append(e.Phases, record.Phase{Kind: eval.KindPairwise, Runs: 8, Choice: &plan.Choice{Contested: []int{4}, Sampled: []int{0, 3, 7}}})
	db := stored(t, e, texts)
	all := names(mustDraw(t, db, e, Settings{results.ChosenSample, 1000}, noReport))
	slices.Sort(all)
	if len(all) != 12 || len(slices.Compact(all)) != 12 {
		t.Errorf("of 12 pairs, %d are drawn, %d different ones", len(all), len(slices.Compact(all)))
	}

	judged(t, db, e, map[int][2]string{1: {"w", "w"}, 4: {"x", "z"}})
	if got := names(mustDraw(t, db, e, Settings{Chosen: results.ChosenContested}, noReport)); !slices.Equal(got, []string{"q00/x q00/z"}) {
		t.Errorf("contested: %v, want the pair of x and z", got)
	}
}

// Each pair is equally likely to be in a sample, in any position in the plan.
func TestSamplesAreRandom(t *testing.T) {
	t.Parallel()
	const evaluations, pairs, size = 4000, 12, 3
	var counts [pairs]int
	for n := range evaluations {
		var l lots
		for k := range pairs {
			l.add(drawn{Pair{0, k}, 0, LotOf(eval.ID(fmt.Sprintf("ev-%d", n)), "a", fmt.Sprint("b", k))}, size)
		}
		for _, pair := range l.pairs(size) {
			counts[pair[1]]++
		}
	}
	expected, sum := float64(evaluations*size)/pairs, 0.0
	for _, n := range counts {
		sum += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	if sum > 31.3 { // the 99.9th percentile of chi-squared with 11 degrees of freedom; the inputs are fixed
		t.Errorf("chi-squared is %.1f: %v, want about %.0f each", sum, counts, expected)
	}
}

func TestContestedPairs(t *testing.T) {
	t.Parallel()
	e, texts := asked(3)
	db := stored(t, e, texts)
	settings := Settings{Chosen: results.ChosenContested}
	judged(t, db, e, map[int][2]string{1: {"w", "w"}, 6: {"x", "x"}})
	if _, err := Draw(t.Context(), db, e, settings, noReport); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "judges agree") {
		t.Errorf("without a contested pair: got %v", err)
	}
	judged(t, db, e, map[int][2]string{4: {"x", "z"}, 12: {"w", "x"}, 17: {"y", "y"}})
	got := map[string]bool{}
	for _, name := range names(mustDraw(t, db, e, settings, noReport)) {
		got[name] = true
	}
	if diff := cmp.Diff(map[string]bool{"q00/x q00/z": true, "q02/w q02/x": true}, got); diff != "" {
		t.Errorf("contested (-want +got):\n%s", diff)
	}
}

// Neighbours that need the fewest more pairs come first, those that are told apart not at all.
func TestNarrowPairs(t *testing.T) {
	t.Parallel()
	e, texts := asked(2)
	db := stored(t, e, texts)
	group := report.Group{Neighbours: []report.Neighbour{
		{Right: 0.6, Clusters: 40}, {Right: 0.99, Clusters: 0}, {Right: 0.9, Clusters: 4},
	}}
	for _, name := range []string{"y", "x", "z", "w"} {
		var one report.Ranked
		one.Name = name
		group.Ranked = append(group.Ranked, one)
	}
	built := func(context.Context) (*report.Report, error) {
		return &report.Report{Groups: []report.Group{group}}, nil
	}
	got := names(mustDraw(t, db, e, Settings{Chosen: results.ChosenNarrow}, built))
	for k, name := range got { // without the items, whose order is random
		got[k] = strings.NewReplacer("q00/", "", "q01/", "").Replace(name)
	}
	if diff := cmp.Diff([]string{"w z", "w z", "x y", "x y"}, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}

	group.Neighbours = []report.Neighbour{{Right: math.NaN(), Clusters: math.NaN()}, {Right: 0.5, Clusters: math.Inf(1)}, {Right: 0.7, Clusters: 9}}
	if got := mustDraw(t, db, e, Settings{Chosen: results.ChosenNarrow}, built); len(got.Pairs) != 6 {
		t.Errorf("where nothing is known, %d pairs are chosen, want all 6 of neighbours", len(got.Pairs))
	}
	group.Neighbours = group.Neighbours[:0]
	if _, err := Draw(t.Context(), db, e, Settings{Chosen: results.ChosenNarrow}, built); !errors.Is(err, ErrNothing) {
		t.Errorf("without open neighbours: got %v", err)
	}
}

func TestNothingToVoteOn(t *testing.T) {
	t.Parallel()
	e, texts := asked(1)
	db := stored(t, e, texts)
	for want, change := range map[string]func(*eval.Evaluation){
		"scores texts one by one":  func(p *eval.Evaluation) { p.Pairwise, p.Single = nil, &eval.Single{} },
		"compares no pairs":        func(p *eval.Evaluation) { p.Pairwise = nil },
		"not in its results store": func(p *eval.Evaluation) { p.Documents[1].Hash, p.Documents[2].Hash, p.Documents[3].Hash = "", "", "" },
		"no pairs of different texts": func(p *eval.Evaluation) {
			for k := range p.Documents {
				p.Documents[k].Hash = "same"
			}
		},
	} {
		changed, _ := asked(1)
		changed.ID = e.ID
		change(changed.Plan)
		_, err := Draw(t.Context(), db, changed, Settings{results.ChosenSample, 10}, noReport)
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// A pair of known texts is enough.
	changed, _ := asked(1)
	changed.Plan.Documents[0].Hash = ""
	if got := mustDraw(t, db, changed, Settings{results.ChosenSample, 10}, noReport); len(got.Pairs) != 3 {
		t.Errorf("with one unknown text, %d pairs are drawn, want 3", len(got.Pairs))
	}
}

// vote records what a person said about the k-th pair of a ballot.
func vote(t *testing.T, db results.Store, b *Ballot, who string, k int, said string, changes int) results.PageVote {
	t.Helper()
	first, second := b.Evaluation.Plan.Documents[b.Pairs[k][0]], b.Evaluation.Plan.Documents[b.Pairs[k][1]]
	v := results.PageVote{
		Annotator: who, Document1: first.ID, Document2: second.ID, Said: said, ShownFirst: first.ID, Chosen: b.Chosen,
		At: time.Unix(int64(1000+k), 0), Changes: changes,
	}
	if ok, err := db.PutVote(t.Context(), b.Evaluation.ID, v); err != nil || !ok {
		t.Fatalf("vote: %v, %v", ok, err)
	}
	return v
}

func TestWhatIsAskedNext(t *testing.T) {
	t.Parallel()
	e, texts := asked(1)
	text := eval.EncodeVotes([]eval.Vote{{Annotator: "cy", First: "q00/w", Second: "q00/x", Winner: "q00/w"}})
	e.Settings.Votes = eval.TextHash(text)
	texts[e.Settings.Votes] = text
	db := stored(t, e, texts)
	b := mustDraw(t, db, e, Settings{results.ChosenSample, 6}, noReport)
	inFile := -1 // the pair that cy has voted on in the file
	for k, name := range names(b) {
		if name == "q00/w q00/x" {
			inFile = k
		}
	}
	var free []int // the others
	for k := range b.Pairs {
		if k != inFile {
			free = append(free, k)
		}
	}

	shown := map[Pair]int{}
	next := func(who string, perPair int) Turn {
		t.Helper()
		said, err := b.Read(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return said.Next(who, perPair, func(p Pair) int { return shown[p] })
	}
	want := func(what string, got Turn, k, done, left int) {
		t.Helper()
		expected := Turn{Found: k >= 0, Done: done, Left: left, Changes: got.Changes}
		if k >= 0 {
			expected.Pair = b.Pairs[k]
		}
		if got != expected {
			t.Errorf("%s: got %+v, want %+v", what, got, expected)
		}
	}

	want("the first pair, also if it has a vote in the file", next("anna", 2), 0, 0, 6)
	b.Chosen = results.ChosenNarrow // where votes in a file count
	want("the first pair without votes", next("anna", 2), free[0], 0, 6)
	want("one who has voted in the file", next("cy", 2), free[0], 1, 5)
	shown[b.Pairs[free[0]]] = 1
	want("while another person looks at the first", next("anna", 2), free[1], 0, 6)
	want("of one person a pair", next("anna", 1), free[1], 0, 4)
	clear(shown)
	annas := vote(t, db, b, "anna", free[0], results.SaidTie, 1)
	want("after a vote", next("anna", 2), free[1], 1, 5)
	vote(t, db, b, "anna", free[1], results.SaidSkip, 1)
	want("after a skipped pair", next("anna", 2), free[2], 2, 4)
	want("another person, after a skip of the first", next("bo", 2), free[1], 0, 6)
	for _, k := range free[1:] {
		vote(t, db, b, "bo", k, results.SaidFirst, 1)
	}
	want("where all have a vote", next("dee", 2), min(free[0], inFile), 0, 6)
	want("one person a pair, and all have one", next("dee", 1), -1, 0, 0)

	annas.At = time.Unix(2000, 0)
	if undone, err := db.UndoVote(t.Context(), e.ID, annas); err != nil || !undone {
		t.Fatal(undone, err)
	}
	got := next("anna", 1)
	want("what was undone, before all others", got, free[0], 1, 1)
	if got.Changes != 2 {
		t.Errorf("after a vote and its undoing there were %d changes, want 2", got.Changes)
	}
	said, err := b.Read(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if pair, last, ok := said.Last("bo"); !ok || pair != b.Pairs[free[4]] || last.Said != results.SaidFirst {
		t.Errorf("bo's last vote: got %v %v %v", pair, last, ok)
	}
	if none, err := (&Ballot{Evaluation: e}).Read(t.Context(), db); err != nil {
		t.Error(err)
	} else if pair, _, ok := none.Last("bo"); !ok || pair != b.Pairs[free[4]] {
		t.Errorf("on another ballot, bo's last vote is %v, %v", pair, ok)
	}
	if _, _, ok := said.Last("eve"); ok {
		t.Error("one who has done nothing has a last vote")
	}
}

// A sample asks about all of its pairs, also those on which people have voted because judges contest them: else it would
// be a sample of those that judges agree on.
func TestASampleKeepsPairsWithOtherVotes(t *testing.T) {
	t.Parallel()
	e, texts := asked(1)
	db := stored(t, e, texts)
	contested := mustDraw(t, db, e, Settings{results.ChosenSample, 6}, noReport)
	contested.Chosen = results.ChosenContested
	vote(t, db, contested, "anna", 0, results.SaidFirst, 1)
	vote(t, db, contested, "bo", 0, results.SaidSecond, 1)

	b := mustDraw(t, db, e, Settings{results.ChosenSample, 6}, noReport)
	next := func(b *Ballot, who string) Turn {
		t.Helper()
		said, err := b.Read(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return said.Next(who, 2, func(Pair) int { return 0 })
	}
	if got := next(b, "cy"); got.Pair != b.Pairs[0] || got.Left != 6 {
		t.Errorf("the sample leaves a contested pair out: got %+v", got)
	}
	if got := next(b, "anna"); got.Done != 1 || got.Left != 5 {
		t.Errorf("one who has voted on a pair of the sample: got %+v, want 1 done and 5 left", got)
	}
	vote(t, db, b, "cy", 0, results.SaidTie, 1)
	vote(t, db, b, "dee", 0, results.SaidTie, 1)
	if got := next(b, "eve"); got.Pair == b.Pairs[0] || got.Left != 5 {
		t.Errorf("a pair with two votes of the sample is shown to a third person: got %+v", got)
	}
	if got := next(contested, "eve"); got.Left != 5 {
		t.Errorf("where the choice is another one, all votes count: got %+v", got)
	}
}

func TestTickets(t *testing.T) {
	t.Parallel()
	of := Ticket{Pair{3, 70_000}, results.ChosenContested, 4}
	annas := TicketsOf("store", "ev-a", "anna")
	text := annas.Write(of)
	if got, ok := annas.Read(text, 70_001); !ok || got != of {
		t.Errorf("read %+v, %v", got, ok)
	}
	if again := TicketsOf("store", "ev-a", "anna").Write(of); again != text {
		t.Errorf("the same ticket is %q and %q", text, again)
	}
	if _, ok := annas.Read(text, 70_000); ok {
		t.Error("a ticket for a document that there is not is read")
	}
	for what, other := range map[string]Tickets{
		"another voter": TicketsOf("store", "ev-a", "bo"), "another evaluation": TicketsOf("store", "ev-b", "anna"),
		"another store": TicketsOf("other", "ev-a", "anna"),
	} {
		if got, ok := other.Read(text, 1<<31); ok {
			t.Errorf("%s reads the ticket as %+v", what, got)
		}
	}
	for _, bad := range []string{"", "x", text + "A", text[:len(text)-1], strings.Repeat("A", 22), strings.Repeat("A", 1000), "{}"} {
		if got, ok := annas.Read(bad, 1<<31); ok {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// Each text is on each side about equally often, for voters apart from each other.
func TestSidesAreRandom(t *testing.T) {
	t.Parallel()
	swapped, apart := 0, 0
	for n := range 1000 {
		first, second := fmt.Sprint("a", n), fmt.Sprint("b", n)
		annas, bos := Swapped("ev-a", "anna", first, second), Swapped("ev-a", "bo", first, second)
		if annas {
			swapped++
		}
		if annas != bos {
			apart++
		}
	}
	for what, n := range map[string]int{"swapped": swapped, "unlike another voter's": apart} {
		if n < 430 || n > 570 {
			t.Errorf("%d of 1000 pairs are %s", n, what)
		}
	}
}
