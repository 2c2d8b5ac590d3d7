package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/config/endpoints"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/telemetry/eventlog"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Flags of the commands that execute runs.
const (
	slotsFlag     = "slots"
	graceFlag     = "grace"
	maxAnswerFlag = "max-answer-mib"
	queuesFlag    = "queues"
	eventsFlag    = "events"
)

// workFlags returns the flags of `worker` and of commands that execute runs themselves.
// metricsAt is the default address for metrics.
func workFlags(metricsAt string) []cli.Flag {
	metrics := "`ADDRESS` for /metrics, /healthz and /readyz, or off"
	if metricsAt != metricsOff {
		metrics += "; if the default port is in use, for example by another worker, the worker runs without it"
	}
	return []cli.Flag{
		slotsOption(),
		&cli.IntFlag{Name: maxAnswerFlag, Value: 1, Usage: "fail answers larger than `N` MiB"},
		&cli.DurationFlag{
			Name:  graceFlag,
			Usage: "`TIME` for calls in flight to finish after a stop, such as 90s (default the longest call timeout plus 15s)",
		},
		&cli.StringSliceFlag{Name: queuesFlag, Usage: "serve only these `QUEUES`, comma-separated (default all possible)"},
		&cli.StringFlag{Name: metricsFlagName, Value: metricsAt, Usage: metrics},
		&cli.StringFlag{
			Name: eventsFlag,
			Usage: "`FILE` to which all events of all runs are appended as JSON lines (default events.jsonl in the output " +
				"folder; a fleet's worker logs them instead: calls at level info, the rest at debug)",
		},
	}
}

func slotsOption() cli.Flag {
	return &cli.IntFlag{Name: slotsFlag, Value: 100, Usage: "at most `N` calls in flight in this process"}
}

func slotsOf(c *cli.Context) (int, error) {
	if n := c.Int(slotsFlag); n >= 1 {
		return n, nil
	}
	return 0, usageError("--%s must be at least 1, got %d", slotsFlag, c.Int(slotsFlag))
}

// work holds how a process executes runs, as set by the command line.
type work struct {
	slots        int
	maxAnswer    int // bytes
	grace        time.Duration
	queues       []string // the only queues served; none: all
	events       string   // path; empty: no events file
	logsCalls    bool     // without an events file: events of calls are logged from level info up
	metrics      string   // address
	metricsGiven bool
}

func workOf(c *cli.Context) (work, error) {
	slots, err := slotsOf(c)
	if c.Duration(graceFlag) < 0 {
		err = errors.Join(err, usageError("--%s must be 0 or more, got %s", graceFlag, c.Duration(graceFlag)))
	}
	if n := c.Int(maxAnswerFlag); n < 1 || n > 64 {
		err = errors.Join(err, usageError("--%s must be from 1 to 64, got %d", maxAnswerFlag, n))
	}
	return work{
		slots: slots, maxAnswer: c.Int(maxAnswerFlag) << 20,
		grace: c.Duration(graceFlag), queues: c.StringSlice(queuesFlag), events: c.String(eventsFlag),
		metrics: c.String(metricsFlagName), metricsGiven: c.IsSet(metricsFlagName),
	}, err
}

// open copies the command line's values to settings, and opens the outputs for the worker's events, metrics and traces.
// Closing the result reports the first event that could not be written.
func (w work) open(
	ctx context.Context, settings *worker.Config, env config.Lookup, callable *endpoints.Endpoints, log zerolog.Logger,
) (io.Closer, error) {
	settings.Slots, settings.MaxAnswer, settings.Grace = w.slots, w.maxAnswer, w.grace
	settings.Queues, settings.Version = w.queues, ownVersion()
	var open closers
	if w.events != "" {
		events, err := eventlog.Open(w.events)
		if err != nil {
			return nil, outdir.Failed(fmt.Errorf("--%s: %w", eventsFlag, err))
		}
		open = append(open, events)
		settings.Observer = observe.Join(settings.Observer, observe.Observer{Event: events.Write})
	} else if lowest := log.GetLevel(); lowest <= zerolog.DebugLevel || w.logsCalls && lowest <= zerolog.InfoLevel {
		settings.Observer = observe.Join(settings.Observer, observe.Observer{Event: func(e observe.Event) { eventlog.Log(log, w.logsCalls, e) }})
	}

	served, err := watched(ctx, settings, w.metrics, w.metricsGiven, log)
	if err != nil {
		_ = open.Close()
		return nil, err
	}

	open = append(open, served)
	traces, err := traced(settings, env, callable, log)
	if err != nil {
		_ = open.Close()
		return nil, err
	}
	return append(open, traces), nil
}

// closers closes several closers, the last one first.
type closers []io.Closer

func (all closers) Close() error {
	var err error
	for _, c := range slices.Backward(all) {
		err = errors.Join(err, c.Close())
	}
	return err
}
