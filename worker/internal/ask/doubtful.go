package ask

import (
	"context"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

// noSuchModel pauses the provider if its answer to the first call of a model says that it has no such model, and there
// is no fallback. The run loses no attempt. Runs of a list fail one by one instead: each has an answer of its own, if
// only an error.
func (a *Asker) noSuchModel(ctx context.Context, s call.Step, failed *providers.Error) bool {
	if failed.Class != providers.ModelUnavailable || failed.Status/100 != 4 || a.chain.In() || a.on.Doubts.HasAnswered(s.Target) {
		return false
	}
	if kind := a.run.Plan().Kind(); kind == eval.KindRuns || kind == eval.KindPrompts {
		return false
	}

	a.run.Progress.Attempts--
	a.run.PauseProvider(ctx, record.Pause{Class: failed.Class, Message: s.Target.Target() + ": " + failed.Message})
	return true
}
