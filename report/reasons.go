package report

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/results"
)

const (
	// reasonsKept is how many reasons for, and how many against, are kept of each
	// candidate.
	reasonsKept = 4
	// reasonRunes bounds the text of a reason that is kept.
	reasonRunes = 600
)

// Reason is why a judge preferred one candidate's document to another's.
type Reason struct {
	Run      string `json:"run"`
	Judge    string `json:"judge"`
	Item     string `json:"item"`
	Opponent string `json:"opponent"` // the other candidate
	Text     string `json:"reason"`   // at most reasonRunes, then "…"

	lot uint64
}

// reasons are a candidate's reasons: an even sample of all, which does not depend
// on the order in which verdicts came, because run ids draw the lots.
type reasons struct {
	won, lost []Reason
}

func (b *builder) keepReason(winner, loser int, row results.PairwiseRow) {
	reason := Reason{
		Run: fmt.Sprintf("%d.%d", row.Phase, row.Index), Judge: row.Judge, Item: row.Item,
		lot: rand.NewPCG(uint64(row.Phase), uint64(row.Index)).Uint64(),
	}
	names := b.report.candidates
	b.reasons[winner].won = draw(b.reasons[winner].won, reason, names[loser], row.Reason)
	b.reasons[loser].lost = draw(b.reasons[loser].lost, reason, names[winner], row.Reason)
}

// draw keeps the reasonsKept smallest lots.
func draw(kept []Reason, next Reason, opponent, text string) []Reason {
	at, _ := slices.BinarySearchFunc(kept, next.lot, func(r Reason, lot uint64) int { return cmp.Compare(r.lot, lot) })
	if at >= reasonsKept {
		return kept
	}
	next.Opponent, next.Text = opponent, wording.Clip(text, reasonRunes)
	kept = slices.Insert(kept, at, next)
	return kept[:min(len(kept), reasonsKept)]
}
