package task

import (
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// failedRun is the error that ends the task of a run recorded as failed. asynq archives the task under this error,
// where people look for failures.
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

// Unwrap makes asynq archive the task instead of retrying it.
func (*failedRun) Unwrap() error { return asynq.SkipRetry }

// lastAnswer returns the answer of a run in prose, or the last of several answers.
func lastAnswer(of record.Run) string {
	if n := len(of.Answers); n > 0 {
		return of.Answers[n-1]
	}
	return of.Answer
}

// leave ends the task of a recorded run so that people find it in asynq: a failed one in the archive, a succeeded one
// with its verdict in words as long as asynq keeps it. Tasks of cancelled evaluations are not kept.
func (p *pull) leave(result *asynq.ResultWriter) error {
	ended, cancelled := p.run.Ended()
	if cancelled {
		return asynq.RevokeTask
	}
	if ended.State == eval.StateFailed.String() {
		return &failedRun{class: ended.Class, message: ended.Error, attempts: ended.Attempts}
	}
	if !p.run.Evaluation.Record.Keeps(p.run.Task.Index) {
		return nil
	}
	short := record.Summary{Winner: ended.Winner, Reason: run.Shorten(ended.Reason),
		Answer: run.Shorten(lastAnswer(ended)), Attempts: ended.Attempts}
	for _, score := range ended.Scores {
		score.Reason = run.Shorten(score.Reason)
		short.Scores = append(short.Scores, score)
	}

	// asynqmon shows no result that contains line feeds or other characters that do not print.
	if _, err := result.Write([]byte(harmless.OneLine(short.Words()))); err != nil {
		p.run.Log().Debug().Err(err).Msg("cannot store the run's result for asynq")
	}
	return nil
}
