package enqueue

import (
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// JudgeQueues returns the queue of each judge of a kind: runs that share a set of limits share a
// queue. A model with limits of its own has its own queue; a group has one for all its models. An
// evaluation with tighter limits than its provider or group has separate queues, so that its runs
// do not block others.
func JudgeQueues(id eval.ID, e *eval.Evaluation, kind eval.Kind, settings record.Settings) []string {
	judges := e.JudgesOf(kind)
	queues := make([]string, len(judges))
	for i, judge := range judges {
		call := ratelimit.Scope{Provider: judge.Provider, Model: judge.Model, Group: settings.Group(kind, i)}
		var ownModel bool
		account, own := int64(-1), int64(-1)
		for _, limit := range settings.Limits {
			switch {
			case limit.Evaluation != "":
				if limit.Kind == ratelimit.Concurrency {
					own = tightest(own, limit.Max)
				}
			case !limit.Matches(call):
			default:
				ownModel = ownModel || limit.Model != ""
				if limit.Kind == ratelimit.Concurrency {
					account = tightest(account, limit.Max)
				}
			}
		}
		model, evaluation := "", eval.ID("")
		if ownModel {
			model = judge.Model
		}
		if own >= 0 && (account < 0 || own < account) {
			evaluation = id
		}
		queues[i] = record.QueueName(judge.Provider, model, call.Group, evaluation)
	}

	return queues
}

func tightest(a, b int64) int64 {
	if a < 0 {
		return b
	}
	return min(a, b)
}
