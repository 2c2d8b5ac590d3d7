package call

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// said are warnings that were logged, to log each once.
type said struct {
	dropped sync.Map // notSent
	absurd  sync.Map // models
	away    sync.Map // IDs of jobs
}

// Keep forgets all evaluations that are not active.
func (c *Caller) Keep(active map[eval.ID]bool) {
	c.said.dropped.Range(func(key, _ any) bool {
		if !active[key.(notSent).evaluation] {
			c.said.dropped.Delete(key)
		}
		return true
	})
	c.Prefixes.Keep(active)
}

// NoteDropped notes fields that a model of an evaluation does not support, and reports whether
// they were not known before.
func (c *Caller) NoteDropped(id eval.ID, model, fields string) bool {
	_, before := c.said.dropped.LoadOrStore(notSent{id, model, fields}, true)
	return !before
}

// notSent are fields that a model of an evaluation does not support.
type notSent struct {
	evaluation    eval.ID
	model, fields string
}

// sayDropped warns, once for each model of an evaluation and set of dropped parameters, that
// the results do not describe the judge as configured.
func (c *Calls) sayDropped(call *record.Call) {
	if len(call.Dropped) == 0 {
		return
	}
	fields := strings.Join(call.Dropped, ", ")
	if c.by.NoteDropped(c.run.Task.Evaluation, call.Model, fields) {
		c.by.Worker.Log.Warn().Str("evaluation", string(c.run.Task.Evaluation)).Str("model", call.Model).Str("fields", fields).
			Msg("the model does not support these fields; omitting them")
	}
}

// longestNamed is how many characters of a provider's name of a model are recorded.
const longestNamed = 200

// note keeps a call's record and counts it: as an attempt, a refusal, or a call that
// was cut off.
func (c *Calls) note(ctx context.Context, s Step, call *record.Call, result *providers.Result, err error, timeout time.Duration) error {
	if err == nil {
		c.run.Progress.Attempts++
		call.Status, call.RequestID, call.Usage = 200, result.RequestID, result.Usage
		call.Named = wording.Clip(harmless.OneLine(result.Model), longestNamed)
		call.Text, call.Finish, call.Dropped = result.Text, string(result.Finish), result.Dropped
		c.sayDropped(call)
		if len(result.Others) > 0 {
			call.Key = "" // of several answers one is kept here, which is not what such a call is answered
		}
		if c.run.Task.Kind != eval.KindPrompts {
			result.Grounding.Safety = nil // only what experiments write has it
		}
		call.Evidence(result)
		if lacking := c.lacking(s, result); lacking != nil {
			c.run.Progress.Lacked = lacking.Class
			call.Class, call.Error, call.MaybeBill = lacking.Class, lacking.Message, true
			c.keep(*call)
			return lacking
		}
		c.run.Progress.Answers++
		c.keep(*call)
		return nil
	}

	if errors.Is(err, providers.ErrAgain) {
		c.run.Log().Info().Err(err).Msg("the provider refuses a part of the request, or its key; sending it in another form")
		return err
	}
	if errors.Is(err, providers.ErrNoJSON) { // nothing was sent
		return err
	}

	call.Class, call.Error = providers.ClassOf(err), err.Error()
	var failed *providers.Error
	switch errors.As(err, &failed); {
	case errors.Is(err, ratelimit.ErrLost), call.Class == providers.Cancelled && ctx.Err() != nil: // not ended by the provider
		c.run.Progress.Cut++
	case c.alone, failed != nil && c.StopsAll(s, failed): // the failure does not concern the run
	case failed != nil && c.Excused():
		c.run.Progress.Excused++
	case failed != nil && c.costsNothing(failed):
		c.run.Progress.Cooled++
	default:
		c.run.Progress.Attempts++
	}

	if failed != nil {
		call.Status, call.RequestID, call.MaybeBill = failed.Status, failed.RequestID, failed.MayBeBilled
		call.Usage = failed.Used
		if failed.Status/100 == 2 { // which nothing but the body explains
			call.Text = bodyOf(failed.Raw)
		}
	}

	c.keep(*call)
	if call.Class == providers.Timeout {
		e := s.Event(observe.EventTimeout)
		e.TimeoutS = timeout.Seconds()
		c.run.Emit(e)
		c.run.Log().Warn().Str("event", observe.EventTimeout).Str("provider", s.Target.Provider).Str("model", s.Target.Model).
			Float64("timeout_s", timeout.Seconds()).Msg("call timed out")
	}

	return err
}

// maxBody bounds how much of an unusable answer is kept.
const maxBody = 4 << 10

// bodyOf returns the beginning of an answer's body as text.
func bodyOf(raw []byte) string {
	if len(raw) > maxBody {
		return strings.ToValidUTF8(string(raw[:maxBody]), "") + "…"
	}
	return strings.ToValidUTF8(string(raw), "")
}

// keep notes a call that has ended.
func (c *Calls) keep(call record.Call) {
	inOrder(&call)
	c.flight = nil
	c.run.Keep(call)
}

// inOrder corrects the times of a call that ended before it began, because Redis's clock was set back meanwhile.
func inOrder(call *record.Call) {
	if call.Started.IsZero() { // it was answered from the cache
		return
	}
	if call.Started.After(call.Ended) {
		call.Started = call.Ended
	}
	if call.Asked.After(call.Started) {
		call.Asked = call.Started
	}
}
