package eval

import (
	"strings"
	"time"
)

// AnchorsSuffix ends the names of evaluations that ask anchors.
const AnchorsSuffix = " (anchors)"

// MostAnchors bounds the anchors of an evaluation.
const MostAnchors = 1000

// WinnerFact is the key in Item.Facts of the document that is known to be the better one of an anchor, or of Tie.
const WinnerFact = "winner"

// Anchors says that an evaluation asks the judges of another one about pairs that were chosen to see whether judges change.
// Each of its items is an anchor with two documents, the one of id AnchorDocument(item, 0) first, that are compared in both
// orders. Its verdicts count in no ranking.
type Anchors struct {
	// Of is the evaluation whose judges are asked. It makes each asking an evaluation of its own.
	Of ID `json:"of"`
	// History has what the same judges said about the same anchors before, oldest first. It is not part of the identity.
	History []Asking `json:"history,omitempty"`
}

// Asking is one time at which judges were asked about anchors.
type Asking struct {
	Evaluation ID             `json:"evaluation"`
	Name       string         `json:"name"` // of the evaluation
	At         time.Time      `json:"at"`
	Judges     []AnchorAnswer `json:"judges"` // in the order of the evaluation that has the history; those that were not asked are empty
}

// AnchorAnswer is what one judge said about anchors.
type AnchorAnswer struct {
	// Named are the names that the provider gave the model, sorted; empty: none is known.
	Named []string `json:"named,omitempty"`
	// Said has two letters for each anchor, in the order of the items: the verdicts with the first text shown first, and
	// with the second.
	Said string `json:"said,omitempty"`
}

// The letters of AnchorAnswer.Said.
const (
	SaidFirst   = '1' // the first text of the anchor is better, however it was shown
	SaidSecond  = '2'
	SaidTie     = '='
	SaidNothing = '-' // not asked, failed, or answered by another model
)

// AnchorDocument returns the id of the first (k = 0) or second document of an anchor.
func AnchorDocument(item string, k int) string { return item + [2]string{"/1", "/2"}[k] }

// AsksAnchors reports whether an evaluation with this name may be one that asks anchors; only its plan says it for certain.
func AsksAnchors(name string) bool { return strings.HasSuffix(name, AnchorsSuffix) }
