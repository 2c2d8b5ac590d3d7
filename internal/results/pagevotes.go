package results

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// PageVote is what a person said about a pair on the page where people vote.
type PageVote struct {
	Annotator              string
	Document1, Document2   string // sorted by id
	Item                   string
	Candidate1, Candidate2 string
	Said                   string // SaidFirst, SaidSecond, SaidTie or SaidSkip; empty: the person took it back
	ShownFirst             string // the document that was shown first, or on the left
	Chosen                 string // why the pair was shown: ChosenSample, ChosenContested or ChosenNarrow
	Note                   string
	At                     time.Time // of the vote, or when it was undone
	// Changes counts the votes and undoings of the person on this pair: odd after a vote, even after it was undone.
	Changes int
}

// What people can say about a pair.
const (
	SaidFirst  = "first"  // Document1 is better
	SaidSecond = "second" // Document2 is better
	SaidTie    = "tie"
	SaidSkip   = "skip" // no verdict
)

// Why a pair was shown.
const (
	ChosenSample    = "sample"    // it is in a random sample of all pairs
	ChosenContested = "contested" // judges contradict each other or themselves
	ChosenNarrow    = "narrow"    // the order of its candidates is open
)

// VoteTotals counts what people said on the page where they vote.
type VoteTotals struct {
	Votes   int   // verdicts in force, without skipped pairs
	Changes int64 // every vote and every undoing so far; it only grows
}

const (
	pageVoteFields  = "annotator, doc_id_1, doc_id_2, item, candidate_1, candidate_2, said, shown_first, chosen, note, voted_at, changes"
	selectPageVotes = "SELECT " + pageVoteFields + " FROM page_votes WHERE evaluation = ? ORDER BY doc_id_1, doc_id_2, annotator"
	countPageVotes  = `SELECT count(*) FILTER (WHERE said IN ('first', 'second', 'tie')), coalesce(sum(changes), 0)
FROM page_votes WHERE evaluation = ?`
	// A vote is on what the person saw: nothing, or a vote that was undone since. So the same vote that arrives twice, or
	// after it was undone, changes nothing.
	onlyAfter = ` WHERE page_votes.changes = excluded.changes - 1`
	undoVote  = `UPDATE page_votes SET said = '', note = '', voted_at = ?, changes = changes + 1
WHERE evaluation = ? AND doc_id_1 = ? AND doc_id_2 = ? AND annotator = ? AND changes = ?`
)

var putPageVote = upsert(
	"page_votes", "evaluation, doc_id_1, doc_id_2, annotator",
	"item, candidate_1, candidate_2, said, shown_first, chosen, note, voted_at, changes",
) + onlyAfter

// PutVote stores a vote from the page. v.Changes is 1 for a first vote on the pair, or 1 above that of the undone one.
func (s *store) PutVote(ctx context.Context, id eval.ID, v PageVote) (stored bool, err error) {
	switch {
	case v.Document1 >= v.Document2:
		return false, fmt.Errorf("a vote of %q: its documents %q and %q are not in order", v.Annotator, v.Document1, v.Document2)
	case v.Changes%2 != 1:
		return false, fmt.Errorf("a vote of %q: %d changes of the pair, want an odd number", v.Annotator, v.Changes)
	}

	err = s.transact(ctx, fmt.Sprintf("store a vote on %s", id), func(t *transaction) error {
		if err := t.lock(ctx, id); err != nil {
			return err
		}
		changed, err := t.exec(ctx, putPageVote, string(id), v.Document1, v.Document2, v.Annotator, v.Item, v.Candidate1, v.Candidate2,
			v.Said, v.ShownFirst, v.Chosen, v.Note, stamp{v.At}, v.Changes)
		stored = changed == 1
		return err
	})
	return stored, err
}

// UndoVote takes a vote from the page back.
func (s *store) UndoVote(ctx context.Context, id eval.ID, v PageVote) (undone bool, err error) {
	err = s.transact(ctx, fmt.Sprintf("undo a vote on %s", id), func(t *transaction) error {
		if err := t.lock(ctx, id); err != nil {
			return err
		}
		changed, err := t.exec(ctx, undoVote, stamp{v.At}, string(id), v.Document1, v.Document2, v.Annotator, v.Changes)
		undone = changed == 1
		return err
	})
	return undone, err
}

// PageVotes yields what people said on the page, by pair and then by annotator.
func (r *reader) PageVotes(ctx context.Context, id eval.ID) iter.Seq2[PageVote, error] {
	return rows(ctx, &r.access, func(row scanner, v *PageVote) error {
		var at stamp
		err := row.Scan(&v.Annotator, &v.Document1, &v.Document2, &v.Item, &v.Candidate1, &v.Candidate2, &v.Said, &v.ShownFirst,
			&v.Chosen, &v.Note, &at, &v.Changes)
		v.At = at.Time
		return err
	}, selectPageVotes, string(id))
}

// totalVotes counts what people said on the page.
func (r *reader) totalVotes(ctx context.Context, id eval.ID) (of VoteTotals, err error) {
	if err := r.one(ctx, countPageVotes, string(id)).Scan(&of.Votes, &of.Changes); err != nil {
		return of, r.unread(err)
	}
	return of, nil
}
