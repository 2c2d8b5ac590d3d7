package results

import (
	"context"
	"iter"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// PromptRow is a prompt whose run has ended.
type PromptRow struct {
	record.Run
	Sent time.Time // when its last call began; zero: none was made
}

const fromPrompts = ` FROM runs r WHERE r.evaluation = ? AND r.kind = ? AND r.state IN (?, ?) ORDER BY r.ended_at, r.index_`

var selectPrompts = "SELECT r.phase, r.index_, " + qualified("r", runFields) + `,
  (SELECT max(c.started_at) FROM calls c
   WHERE c.evaluation = r.evaluation AND c.phase = r.phase AND c.index_ = r.index_)` + answerOfRun + fromPrompts

// PromptRows yields the prompts that were answered or failed, in the order in which they ended.
func (r *reader) PromptRows(ctx context.Context, id eval.ID) iter.Seq2[PromptRow, error] {
	return rows(ctx, &r.access, func(row scanner, out *PromptRow) error {
		var sent stamp
		err := scanAnswer(row, &out.Run, &sent)
		out.Sent = sent.Time
		return err
	}, selectPrompts, string(id), string(eval.KindPrompts), eval.StateSucceeded.String(), eval.StateFailed.String())
}
