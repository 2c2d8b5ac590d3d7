package eventlog

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/worker/observe"
)

// Log writes an event as a line of a log, at level debug; with calls, those of calls at level info.
// Timeouts and failures are logged anyway, as a warning and an error.
func Log(log zerolog.Logger, calls bool, e observe.Event) {
	level := zerolog.DebugLevel
	switch e.Event {
	case observe.EventTimeout, observe.EventFailed:
		return
	case observe.EventQueueing, observe.EventAcquired, observe.EventReleased, observe.EventRetry:
		if calls {
			level = zerolog.InfoLevel
		}
	}
	if line := log.WithLevel(level); line.Enabled() {
		line.EmbedObject(fields(e)).Send()
	}
}

// fields is an event in its JSON form without its time, because the line has its own.
type fields observe.Event

// MarshalZerologObject writes fields one by one: there are three or more events per run, and
// encoding/json with a map took a tenth of a busy worker's CPU.
func (e fields) MarshalZerologObject(line *zerolog.Event) {
	text := func(name, value string) {
		if value != "" {
			line.Str(name, value)
		}
	}

	number := func(name string, value float64) {
		if value != 0 {
			line.Float64(name, value)
		}
	}
	line.Str("event", e.Event).Str("evaluation", string(e.Evaluation)).Str("run_id", e.RunID).
		Str("provider", e.Provider).Str("model", e.Model)
	text("account", e.Account)
	text("agent", e.Agent)
	text("dimension", e.Dimension)
	text("worker", e.Worker)
	number("queue_depth", float64(e.QueueDepth))
	if e.ActiveSlots != nil {
		line.Int64("active_slots", *e.ActiveSlots)
	}
	number("attempt", float64(e.Attempt))
	if e.StatusCode != nil {
		line.Int("status_code", *e.StatusCode)
	}
	number("delay_s", e.DelayS)
	number("timeout_s", e.TimeoutS)
	number("elapsed_s", e.ElapsedS)
	text("class", string(e.Class))
	text("message", e.Message)
	if e.Fell != nil {
		line.Str("original_model", e.Original).Str("fallback_model", e.Fallback)
		text("reason", e.Reason)
		line.Float64("wait_time_exceeded", e.WaitS).Any("max_wait_seconds", e.MaxWaitS).
			Int("retry_count", e.Retries).Str("created_at", e.At.Format(time.RFC3339Nano))
	}
}
