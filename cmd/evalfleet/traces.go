package main

import (
	"io"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/config/endpoints"
	"github.com/evalfleet/evalfleet/internal/telemetry/tracing"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// traced makes settings trace runs, if the environment names a collector of traces.
func traced(settings *worker.Config, env config.Lookup, callable *endpoints.Endpoints, log zerolog.Logger) (io.Closer, error) {
	how, on, err := tracing.Read(env)
	switch {
	case err != nil:
		return nil, usageError("%w", err)
	case !on:
		return io.NopCloser(nil), nil
	}
	if how.Proxy, err = config.Proxy(env); err != nil {
		return nil, err
	}
	models := map[string]tracing.Model{}
	for name, entry := range callable.Entries {
		models[name] = tracing.ModelOf(entry)
	}
	tracer, err := tracing.Open(how, ownVersion(), models, log)
	if err != nil {
		return nil, usageError("%w", err)
	}
	settings.Observer = observe.Join(settings.Observer, observe.Observer{Handled: tracer.Handled})
	return tracer, nil
}
