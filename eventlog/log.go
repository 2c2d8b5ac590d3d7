package eventlog

import (
	"encoding/json"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/worker/observe"
)

// Log writes an event as a line of a log, from level debug; those of calls from info where
// calls is set. Timeouts and failures are there anyway, as a warning and an error.
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
	line := log.WithLevel(level)
	if !line.Enabled() {
		return
	}
	var fields map[string]any
	raw, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	if err != nil {
		log.Warn().Err(err).Msg("event not logged")
		return
	}
	delete(fields, "time") // the line has its own
	line.Fields(fields).Send()
}
