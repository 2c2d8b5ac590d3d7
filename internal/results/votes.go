package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// VoteRow is a person's verdict on two documents of one item.
type VoteRow struct {
	Annotator              string
	Document1, Document2   string // sorted by id
	Winner                 string // a document's id, or eval.Tie
	Item                   string
	Candidate1, Candidate2 string
	// What is known of a vote that was given on the page where people vote; empty: it is from a file.
	Chosen     string // why the pair was shown: ChosenSample, ChosenContested or ChosenNarrow
	ShownFirst string // the document that was shown first, or on the left
	Note       string
	At         time.Time
}

const (
	voteFields = "annotator, doc_id_1, doc_id_2, winner_doc_id, item, candidate_1, candidate_2"
	clearVotes = "DELETE FROM votes WHERE evaluation = ?"
	// What a person said on the page replaces what the file says about the same pair: files are written from the page's votes.
	selectVotes = `
SELECT annotator, doc_id_1, doc_id_2, winner_doc_id, item, candidate_1, candidate_2, '', '', '', NULL
FROM votes v WHERE evaluation = ? AND NOT EXISTS (
  SELECT 1 FROM page_votes p WHERE p.evaluation = v.evaluation AND p.doc_id_1 = v.doc_id_1 AND p.doc_id_2 = v.doc_id_2
    AND p.annotator = v.annotator)
UNION ALL
SELECT annotator, doc_id_1, doc_id_2, CASE said WHEN 'first' THEN doc_id_1 WHEN 'second' THEN doc_id_2 ELSE 'tie' END, item,
  candidate_1, candidate_2, chosen, shown_first, note, voted_at
FROM page_votes WHERE evaluation = ? AND said IN ('first', 'second', 'tie')
ORDER BY 2, 3, 1`
)

var putVote = insert("votes", "evaluation, index_, "+voteFields)

// votesOf returns the hash of the votes in the evaluation's rows; empty if there are none.
func (t *transaction) votesOf(ctx context.Context, id eval.ID) (string, error) {
	var raw string
	err := t.one(ctx, "SELECT settings FROM evaluations WHERE id = ?"+t.locked(), string(id)).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var settings record.Settings
	err = json.Unmarshal([]byte(raw), &settings)
	return settings.Votes, err
}

// putVotes replaces the rows of votes by those in text, if the settings name votes.
func (t *transaction) putVotes(ctx context.Context, e Evaluation, text string) error {
	if text == "" && e.Settings.Votes != "" {
		return fmt.Errorf("the votes (hash %s) are missing", e.Settings.Votes)
	}
	votes, err := eval.DecodeVotes(text)
	if err != nil {
		return fmt.Errorf("votes of %s: %w", e.ID, err)
	}

	documents := map[string]eval.Document{}
	for _, document := range e.Plan.Documents {
		documents[document.ID] = document
	}
	statements := []statement{{clearVotes, []any{string(e.ID)}}}
	for i, vote := range votes {
		first, known := documents[vote.First]
		second, alsoKnown := documents[vote.Second]
		if !known || !alsoKnown {
			return fmt.Errorf("a vote of %q is on %q and %q, which are not both in the plan", vote.Annotator, vote.First, vote.Second)
		}
		statements = append(statements, statement{putVote, []any{
			string(e.ID), i, vote.Annotator, vote.First, vote.Second, vote.Winner,
			e.Plan.Items[first.Item].ID, first.Candidate, second.Candidate,
		}})
	}

	_, err = t.send(ctx, t, statements)
	return err
}

// Votes yields people's verdicts, from a file and from the page, by pair and then by annotator.
func (r *reader) Votes(ctx context.Context, id eval.ID) iter.Seq2[VoteRow, error] {
	return rows(ctx, &r.access, func(row scanner, v *VoteRow) error {
		var at stamp
		err := row.Scan(&v.Annotator, &v.Document1, &v.Document2, &v.Winner, &v.Item, &v.Candidate1, &v.Candidate2,
			&v.Chosen, &v.ShownFirst, &v.Note, &at)
		v.At = at.Time
		return err
	}, selectVotes, string(id), string(id))
}
