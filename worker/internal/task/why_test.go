package task

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/worker/internal/run"
)

func TestWhyATaskWasLetGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		why   string
		delay time.Duration
	}{
		{nil, "recorded before", 0},
		{asynq.RevokeTask, "dropped", 0},
		{&run.PutBack{Delay: time.Second, Cause: errors.New("no route")}, "interrupted", time.Second},
		{&run.PutBack{Why: "the worker stops"}, "the worker stops", 0},
		{fmt.Errorf("save the count of faults: %w", asynq.SkipRetry), "archived", 0},
	} {
		if why, delay := whyOf(c.err); why != c.why || delay != c.delay {
			t.Errorf("%v: %q, %s; want %q, %s", c.err, why, delay, c.why, c.delay)
		}
	}
}
