package results

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// variety is n runs of a phase that differ in all that can be searched for.
func variety(phase, n int) []record.Entry {
	kind := []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPanel, eval.KindPrompts}[phase]
	var entries []record.Entry
	for i := range n {
		at := epoch.Add(time.Duration((i*7)%n) * time.Second) // ends come in another order
		documents := []string{fmt.Sprintf("d%d", i%5), fmt.Sprintf("d%d", (i/2+1+i%5)%5)}
		r := &record.Run{
			Phase: phase, Index: i, Kind: kind, State: "succeeded", Queue: "q",
			Judge: fmt.Sprint("judge ", i%3), Model: fmt.Sprint("p:m", i%3), AnsweredBy: fmt.Sprint("p:m", i%4),
			Item: []string{"", "q1", "q2"}[i%3], Documents: documents, Candidates: []string{"c" + documents[0][1:], "c" + documents[1][1:]},
			Trial: 1 + i%2, Attempts: 1, Started: at, Ended: at.Add(time.Second), Worker: "w",
		}
		said := []string{"Cites 100% of its SOURCES_!", "Two\nlines: \"<b>&amp;", "Ünïcode ␛ läßt grüßen", ""}[i%4]
		switch {
		case i%11 == 3:
			r.State, r.AnsweredBy, r.Class, r.Error = "failed", "", []providers.Class{providers.Timeout, providers.Malformed}[i%2], "No verdict: "+said
		case i%13 == 4:
			r.State, r.AnsweredBy = "cancelled", ""
		case kind == eval.KindSingle:
			r.Scores = []record.Score{{Criterion: "clarity", Score: 3, Reason: said}, {Criterion: "rigour", Score: 1, Reason: "Loose."}}
		case kind == eval.KindPairwise:
			r.Winner, r.Reason = append(slices.Clone(documents), eval.Tie)[i%3], said
		case kind == eval.KindPanel:
			r.Dimension = "depth"
			r.Scores = []record.Score{{Criterion: "depth", Score: 2, Reason: said}}
		case i%2 == 0:
			r.Answers, r.Finish = []string{said, "Another answer"}, "stop"
		default:
			r.Answer, r.Finish = said, "stop"
		}
		if kind != eval.KindPairwise {
			r.Documents, r.Candidates = r.Documents[:1], r.Candidates[:1]
		}
		entries = append(entries, record.Entry{Run: r, Calls: []record.Call{call(phase, i, 0, 1, func(*record.Call) {})}})
	}
	return entries
}

// combined returns how many conditions a filter has at most.
func combined() int {
	if testing.Short() {
		return 1
	}
	return 3
}

// fits says by what was appended whether a run is meant.
func (f Filter) fits(r *record.Run) bool {
	if f.Phase != nil && *f.Phase != r.Phase || f.Kind != "" && f.Kind != r.Kind {
		return false
	}
	if f.State != eval.StateNone && f.State.String() != r.State || f.Class != "" && f.Class != string(r.Class) {
		return false
	}
	if f.Judge != "" && f.Judge != r.Judge || f.Model != "" && f.Model != r.Model && f.Model != r.AnsweredBy {
		return false
	}
	if f.Item != "" && f.Item != r.Item || f.Trial != 0 && f.Trial != r.Trial {
		return false
	}
	if f.Candidate != "" && !slices.Contains(r.Candidates, f.Candidate) {
		return false
	}
	for _, d := range f.Documents {
		if !slices.Contains(r.Documents, d) {
			return false
		}
	}
	if f.Order != "" && (r.Kind != eval.KindPairwise || (f.Order == OrderReverse) != (r.Documents[0] > r.Documents[1])) {
		return false
	}
	if f.Winner != "" && r.Winner != f.Winner {
		if i := slices.Index(r.Documents, r.Winner); i < 0 || r.Candidates[i] != f.Winner {
			return false
		}
	}
	said := append([]string{r.Reason, r.Error, r.Answer}, r.Answers...)
	for _, s := range r.Scores {
		said = append(said, s.Reason)
	}
	return slices.ContainsFunc(said, func(s string) bool { return strings.Contains(lowerASCII(s), lowerASCII(f.Text)) })
}

// filters yields each part of a filter alone and many together.
func filters() iter.Seq[Filter] {
	one := 1
	parts := []func(*Filter){
		func(f *Filter) { f.Phase = &one },
		func(f *Filter) { f.Kind = eval.KindPairwise },
		func(f *Filter) { f.Kind = eval.KindPrompts },
		func(f *Filter) { f.State = eval.StateSucceeded },
		func(f *Filter) { f.State = eval.StateFailed },
		func(f *Filter) { f.State = eval.StateCancelled },
		func(f *Filter) { f.Class = "timeout" },
		func(f *Filter) { f.Judge = "judge 2" },
		func(f *Filter) { f.Model = "p:m3" },
		func(f *Filter) { f.Item = "q1" },
		func(f *Filter) { f.Candidate = "c3" },
		func(f *Filter) { f.Documents = []string{"d2"} },
		func(f *Filter) { f.Documents = []string{"d2", "d4"} },
		func(f *Filter) { f.Order = OrderForward },
		func(f *Filter) { f.Order = OrderReverse },
		func(f *Filter) { f.Trial = 2 },
		func(f *Filter) { f.Winner = "d1" },
		func(f *Filter) { f.Winner = "c0" },
		func(f *Filter) { f.Winner = eval.Tie },
		func(f *Filter) { f.Text = "100% OF ITS sources_!" },
		func(f *Filter) { f.Text = "\"<b>&amp;" },
		func(f *Filter) { f.Text = "␛ läßt" },
		func(f *Filter) { f.Text = "LÄSST" },
		func(f *Filter) { f.Text = "loose" },
		func(f *Filter) { f.Text = "no verdict" },
	}
	return func(yield func(Filter) bool) {
		if !yield(Filter{}) {
			return
		}
		random := rand.New(rand.NewPCG(1, 2))
		for i := range combined() * len(parts) {
			var f Filter
			parts[i%len(parts)](&f)
			for range i / len(parts) {
				parts[random.IntN(len(parts))](&f)
			}
			if !yield(f) {
				return
			}
		}
	}
}

// pages follows a search to its end.
func pages(t *testing.T, sink Reader, id eval.ID, s Search, between func()) []RunRow {
	t.Helper()
	var all []RunRow
	for n := 0; ; n++ {
		page, err := sink.Search(t.Context(), id, s)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) > s.Most || n > 10_000 {
			t.Fatalf("page %d has %d runs, want at most %d", n, len(page.Runs), s.Most)
		}
		all = append(all, page.Runs...)
		if s.After = page.Next; page.Next == nil {
			return all
		}
		between()
	}
}

// wanted are the runs of a filter in the order of a search.
func wanted(entries []record.Entry, s Search) []record.Run {
	var want []record.Run
	for _, entry := range entries {
		if s.fits(entry.Run) {
			r := *entry.Run
			r.Worker = "w"
			want = append(want, r)
		}
	}
	slices.SortFunc(want, func(a, b record.Run) int { return cmpRuns(a, b, s.Newest) })
	return want
}

func cmpRuns(a, b record.Run, newest bool) int {
	byPlace := slices.Compare([]int{a.Phase, a.Index}, []int{b.Phase, b.Index})
	if !newest {
		return byPlace
	}
	if c := b.Ended.Compare(a.Ended); c != 0 {
		return c
	}
	return -byPlace
}

func runsOf(rows []RunRow) []record.Run {
	var runs []record.Run
	for _, row := range rows {
		runs = append(runs, row.Run)
	}
	return runs
}

// phased stores an evaluation whose phases are those of variety.
func phased(t *testing.T, db Store, e Evaluation) eval.ID {
	t.Helper()
	e.Phases = []record.Phase{{Kind: eval.KindSingle, Runs: 80}, {Kind: eval.KindPairwise, Runs: 80}, {Kind: eval.KindPanel, Runs: 80}, {Kind: eval.KindPrompts, Runs: 80}}
	if err := db.PutEvaluation(t.Context(), e, func(func(string, string) bool) {}); err != nil {
		t.Fatal(err)
	}
	return e.ID
}

func testSearch(t *testing.T, url string) {
	db, e := openStore(t, url)
	id := phased(t, db, e)
	var entries []record.Entry
	for phase := range 4 {
		entries = append(entries, variety(phase, 80)...)
	}
	mustAppend(t, db, id, entries...)
	some := 0
	for f := range filters() {
		for _, newest := range []bool{false, true} {
			s := Search{Filter: f, Newest: newest, Most: 9}
			want := wanted(entries, s)
			found := pages(t, db, id, s, func() {})
			if diff := cmp.Diff(want, runsOf(found)); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", s, diff)
			}
			for _, row := range found {
				if row.Used.Calls != 1 {
					t.Errorf("%+v: run %d.%d has %d calls, want 1", s, row.Phase, row.Index, row.Used.Calls)
				}
			}
			some += min(1, len(want))
		}
		if n, exact, err := db.SearchCount(t.Context(), id, f); n != len(wanted(entries, Search{Filter: f})) || !exact || err != nil {
			t.Errorf("%+v: counted %d, exact %t, %v; want %d", f, n, exact, err, len(wanted(entries, Search{Filter: f})))
		}
	}
	if some < 20*combined() {
		t.Errorf("only %d searches find anything", some)
	}
	if rest := pages(t, db, "ev-abcdefgh2345", Search{Most: 9}, func() {}); len(rest) != 0 {
		t.Errorf("an unknown evaluation has %d runs", len(rest))
	}
	for _, most := range []int{0, MostFound + 1} {
		if _, err := db.Search(t.Context(), id, Search{Most: most}); err == nil {
			t.Errorf("a page of %d runs was given", most)
		}
	}
}

// Whatever is recorded while a user pages through, each run that was there is on one page, and
// none on two.
func testSearchAppended(t *testing.T, url string) {
	db, e := openStore(t, url)
	id := phased(t, db, e)
	all := variety(1, 80)
	for _, newest := range []bool{false, true} {
		random := rand.New(rand.NewPCG(3, 4))
		order := random.Perm(len(all))
		before, later := order[:40], order[40:]
		generation := map[bool]int{false: 0, true: 1}[newest] // the second time they are done again
		put := func(i int, at time.Time) {
			entry := all[i]
			r := *entry.Run
			r.Generation, r.Started, r.Ended = generation, at, at
			mustAppend(t, db, id, record.Entry{Run: &r})
		}
		if newest {
			later = nil
			before = order
		}
		for _, i := range before {
			put(i, all[i].Run.Ended)
		}
		added := 80
		found := pages(t, db, id, Search{Newest: newest, Most: 7}, func() {
			if newest { // new ones end later than all there are
				entry := all[0]
				r := *entry.Run
				r.Index, r.Ended = added, epoch.Add(time.Hour)
				added++
				mustAppend(t, db, id, record.Entry{Run: &r})
				return
			}
			for _, i := range later[:min(5, len(later))] {
				put(i, all[i].Run.Ended)
			}
			later = later[min(5, len(later)):]
		})
		seen := map[int]int{}
		for i, row := range found {
			seen[row.Index]++
			if i > 0 && cmpRuns(found[i-1].Run, row.Run, newest) >= 0 {
				t.Errorf("newest %t: run %d is behind run %d", newest, row.Index, found[i-1].Index)
			}
		}
		for _, i := range before {
			if seen[i] != 1 {
				t.Errorf("newest %t: run %d is on %d pages, want 1", newest, i, seen[i])
			}
		}
	}
}

// A search ends at its bound and continues from there, and a count does not claim to be exact.
func testSearchBounded(t *testing.T, url string) {
	db, e := openStore(t, url)
	id := phased(t, db, e)
	entries := variety(1, 80)
	mustAppend(t, db, id, entries...)
	db.(*store).looks = 10
	ctx := context.Background()
	for _, newest := range []bool{false, true} {
		s := Search{Filter: Filter{Text: "nobody says this"}, Newest: newest, Most: 9}
		page, err := db.Search(ctx, id, s)
		if err != nil || len(page.Runs) != 0 || page.Next == nil {
			t.Fatalf("newest %t: %d runs, next %v, %v; want none and more behind", newest, len(page.Runs), page.Next, err)
		}
		place := slices.IndexFunc(wanted(entries, Search{Newest: newest}), func(r record.Run) bool { return r.Index == page.Next.Index })
		if place != 9 {
			t.Errorf("newest %t: goes on behind the %dth run, want the 10th", newest, place+1)
		}
		for f := range filters() {
			s := Search{Filter: f, Newest: newest, Most: 9}
			if diff := cmp.Diff(wanted(entries, s), runsOf(pages(t, db, id, s, func() {}))); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", s, diff)
			}
		}
	}
	if n, exact, err := db.SearchCount(ctx, id, Filter{Judge: "judge 2"}); exact || n < 1 || n > 10 || err != nil {
		t.Errorf("counted %d, exact %t, %v; want those of the first ten, not exact", n, exact, err)
	}
}
