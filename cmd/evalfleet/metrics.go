package main

import (
	"context"
	"io"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/telemetry/metrics"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

const (
	metricsFlagName = "metrics-addr"
	metricsDefault  = "127.0.0.1:9090"
	metricsOff      = "off"
)

// watched serves a worker's metrics on an address and sets the worker's observers. given means that the user set the
// address. A default address may be in use, because several workers on one machine need no flags.
func watched(ctx context.Context, settings *worker.Config, address string, given bool, log zerolog.Logger) (io.Closer, error) {
	if address == metricsOff {
		return io.NopCloser(nil), nil
	}
	settings.Probe = &worker.Probe{}
	m := metrics.NewWorker(settings.Probe, settings.Slots, settings.Version)
	server, err := metrics.Listen(ctx, address, m.Handler())
	switch {
	case err != nil && given:
		return nil, usageError("--%s %s: %w; choose another address, port 0 for any free port, or %s", metricsFlagName, address, err, metricsOff)
	case err != nil:
		log.Warn().Err(err).Msg("working without metrics; --" + metricsFlagName + " chooses another address")
		return io.NopCloser(nil), nil
	}
	log.Info().Str("address", server.Address()).Msg("serving metrics")
	settings.Observer = observe.Join(settings.Observer, m.Observer())
	return server, nil
}
