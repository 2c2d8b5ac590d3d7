package call

import (
	"github.com/evalfleet/evalfleet/providers"
)

// lacking returns an error if an answer lacks the required evidence of a search or of reasoning; nil: it lacks none. A
// refusal by the model needs no evidence.
func (c *Calls) lacking(s Step, result *providers.Result) *providers.Error {
	asked := c.run.Evaluation.Asked
	lacking := func(class providers.Class, message string) *providers.Error {
		return &providers.Error{Class: class, Status: 200, Message: message, RequestID: result.RequestID, MayBeBilled: true}
	}
	switch {
	case result.Finish == providers.FinishRefused:
	case s.Request.Search && asked.Grounded(c.run.Task.Kind) && !result.Grounding.Evident():
		return lacking(providers.Ungrounded, "the answer shows no search, which is required")
	case s.Request.Reason && result.Reasoning == "" && result.Usage.Reasoning == 0:
		return lacking(providers.Unreasoned, "the answer shows no reasoning, which is required")
	}
	return nil
}
