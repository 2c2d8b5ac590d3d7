package report

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const (
	// reasonsKept is how many reasons for a candidate, and how many against it, are kept.
	reasonsKept = 4
	// reasonRunes bounds the length of a stored reason.
	reasonRunes = 600
)

// Reason is a judge's argument for preferring one candidate's document to another's.
type Reason struct {
	Run      string `json:"run"`
	Judge    string `json:"judge"`
	Item     string `json:"item"`
	Opponent string `json:"opponent"` // the other candidate
	Text     string `json:"reason"`   // clipped to reasonRunes

	lot uint64
}

// reasons is a random sample of the reasons for and against a candidate. The random numbers depend on run ids only,
// so the sample does not depend on the order of the rows.
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

// draw inserts a reason if its random number is among the reasonsKept smallest.
func draw(kept []Reason, next Reason, opponent, text string) []Reason {
	at, _ := slices.BinarySearchFunc(kept, next.lot, func(r Reason, lot uint64) int { return cmp.Compare(r.lot, lot) })
	if at >= reasonsKept {
		return kept
	}
	next.Opponent, next.Text = opponent, wording.Clip(text, reasonRunes)
	kept = slices.Insert(kept, at, next)
	return kept[:min(len(kept), reasonsKept)]
}
