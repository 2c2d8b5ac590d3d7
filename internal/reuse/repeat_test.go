package reuse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// grownFrom returns an evaluation that adds the text n to another one's ranking, and plans it.
func grownFrom(t *testing.T, db results.Store, board *eval.Evaluation, texts map[string]string, change func(*eval.Evaluation)) reuse.Asking {
	t.Helper()
	compared, err := results.Compared(t.Context(), db, board.ID(), board)
	if err != nil {
		t.Fatal(err)
	}
	e, pairwise := *board, *board.Pairwise
	texts[eval.TextHash("text n")] = "text n"
	e.Documents = append(slices.Clone(e.Documents), eval.Document{ID: "n", Candidate: "n", Hash: eval.TextHash("text n"), Bytes: 6})
	pairwise.Pairs = eval.Pairs{Mode: eval.PairsGrown, Listed: compared, Newcomers: []string{"n"}, Opponents: 2}
	e.Pairwise, e.Board = &pairwise, &eval.Board{Evaluation: board.ID()}
	if change != nil {
		change(&e)
	}
	e.Normalize()
	return asking(t, db, &e, texts, record.Settings{})
}

// verdicts returns what is recorded about pairs, by judge, documents in the order shown and trial.
func verdicts(t *testing.T, db results.Store, of eval.ID) (all []string) {
	t.Helper()
	for row, err := range db.PairwiseRows(t.Context(), of) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(row.Judge, row.Document1, row.Document2, row.Trial, row.Winner, row.AnsweredBy, row.Reason))
	}
	slices.Sort(all)
	return all
}

// All verdicts on recorded pairs are those of the ranking before, one by one, also if texts are equal, a fallback
// answered, or nothing else may be used again. Those that failed are asked again.
func TestRecordedPairsAreRepeated(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*record.Run){
		"all": nil,
		"some of a fallback": func(r *record.Run) {
			if r.Judge == "a" || slices.Contains(r.Documents, "z") {
				r.AnsweredBy = "openai:mini"
			}
		},
		"some failed": func(r *record.Run) {
			if r.Judge == "a" {
				r.State, r.Class, r.AnsweredBy, r.Winner, r.Scores = eval.StateFailed.String(), "malformed", "", "", nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			board, texts := essays("board", map[string]string{"w": "Yes.", "x": "Yes.", "y": "text y", "z": "Yes."}, func(e *eval.Evaluation) {
				e.Single = nil
			})
			answer(t, db, asking(t, db, board, texts, record.Settings{}), change)

			of := grownFrom(t, db, board, texts, nil)
			of.Fresh = true
			want := verdicts(t, db, board.ID())
			found, err := reuse.Find(t.Context(), of, db)
			if err != nil || found.Runs() != len(want) || found.Lost() != 0 {
				t.Fatalf("%d runs are known and %d lost, %v; want all %d", found.Runs(), found.Lost(), err, len(want))
			}
			if err := found.Store(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			if got := verdicts(t, db, of.Record.ID); !slices.Equal(got, want) {
				t.Errorf("recorded are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if found, err = reuse.Find(t.Context(), of, db); err != nil || found.Runs() != 0 || found.Lost() != 0 {
				t.Errorf("once more, %d runs are known and %d lost, %v", found.Runs(), found.Lost(), err)
			}
		})
	}
}

// Recorded pairs that a results store does not have are counted.
func TestRecordedPairsAreLost(t *testing.T) {
	t.Parallel()
	db := open(t)
	board, texts := essays("board", letters("x", "y", "z"), func(e *eval.Evaluation) { e.Single = nil })
	before := asking(t, db, board, texts, record.Settings{})
	lost := func(change func(*eval.Evaluation)) int {
		t.Helper()
		found, err := reuse.Find(t.Context(), grownFrom(t, db, board, texts, change), db)
		if err != nil {
			t.Fatal(err)
		}
		return found.Lost()
	}
	if got := lost(func(e *eval.Evaluation) { e.Pairwise.Pairs.Listed = [][2]int{{0, 1}, {1, 2}} }); got != 2 {
		t.Errorf("of two pairs without a verdict, %d are lost", got)
	}

	answer(t, db, before, nil)
	if got := lost(func(e *eval.Evaluation) { e.Pairwise.Pairs.Listed = e.Pairwise.Pairs.Listed[1:] }); got != 2*2*2 {
		t.Errorf("of a pair that is left out, %d verdicts are lost, want %d", got, 2*2*2)
	}
	if _, err := reuse.Find(t.Context(), grownFrom(t, db, board, texts, func(e *eval.Evaluation) { e.Board.Evaluation = "ev-none" }), db); err == nil {
		t.Error("an evaluation that is not stored is no error")
	}
}
