package worker

import (
	"encoding/json"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// failedRun ends the task of a run that was recorded as failed: asynq archives it
// under this error, where people look for what failed.
type failedRun struct {
	class    providers.Class
	message  string
	attempts int
}

func (f *failedRun) Error() string {
	calls := "calls"
	if f.attempts == 1 {
		calls = "call"
	}
	return fmt.Sprintf("%s: %s (after %d %s)", f.class, f.message, f.attempts, calls)
}

// Unwrap makes asynq archive the task instead of trying it again.
func (*failedRun) Unwrap() error { return asynq.SkipRetry }

// summary is what asynq shows as the result of a task that it keeps.
type summary struct {
	Winner   string         `json:"winner,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Scores   []record.Score `json:"scores,omitempty"`
	Answer   string         `json:"answer,omitempty"`
	Attempts int            `json:"attempts"`
}

// summaryRunes is how much of a reason or an answer a summary contains; the results store has
// it all.
const summaryRunes = 300

// lastAnswer is the answer of a run in prose, or the last of several.
func lastAnswer(of record.Run) string {
	if n := len(of.Answers); n > 0 {
		return of.Answers[n-1]
	}
	return of.Answer
}

// leave ends the task of a run that was recorded, so that people find it in
// asynq: a failed one in the archive, a succeeded one with its verdict as long as
// asynq keeps it. Of a cancelled evaluation no task is kept.
func (r *run) leave(result *asynq.ResultWriter) error {
	if r.cancelled {
		return asynq.RevokeTask
	}
	if r.ended.State == eval.StateFailed.String() {
		return &failedRun{class: r.ended.Class, message: r.ended.Error, attempts: r.ended.Attempts}
	}
	if !r.evaluation.record.Keeps(r.task.Index) {
		return nil
	}
	short := summary{Winner: r.ended.Winner, Reason: shorten(r.ended.Reason), Answer: shorten(lastAnswer(r.ended)), Attempts: r.ended.Attempts}
	for _, score := range r.ended.Scores {
		score.Reason = shorten(score.Reason)
		short.Scores = append(short.Scores, score)
	}
	raw, err := json.Marshal(short)
	if err == nil {
		_, err = result.Write(raw)
	}
	if err != nil {
		r.logger().Debug().Err(err).Msg("cannot store the run's result for asynq")
	}
	return nil
}

// shorten cuts a text to summaryRunes.
func shorten(text string) string { return wording.Clip(text, summaryRunes) }
