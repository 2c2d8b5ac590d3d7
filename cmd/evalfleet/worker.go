package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/config/endpoints"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

const cacheFlag = "cache"

func workerCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "Execute runs from a fleet's queues until stopped",
		Description: "Serves all queues for which it has the provider, using addresses and keys from its own --config and " +
			"environment. All workers share the limits. On SIGTERM or Ctrl-C it pulls no more runs, lets calls in flight " +
			"finish for up to --grace, and returns the others to the queue. A second signal stops it at once.",
		Flags: append(workFlags(metricsDefault), &cli.StringFlag{Name: cacheFlag,
			Usage: "`URL` of the results store that caches answers for evaluations with cache: true, sqlite:PATH or " +
				"postgres://… (default no cache)"}),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return p.work(c)
		},
	}
}

func (p *process) work(c *cli.Context) (err error) {
	how, err := workOf(c)
	if err != nil {
		return err
	}
	how.logsCalls = true
	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return err
	}
	at, err := p.namedRedis(c)
	if err != nil {
		return err
	}
	d, redis, err := p.unconnected(c, at, fleet.Lease)
	if err != nil {
		return err
	}
	defer d.Close()
	callable, err := endpoints.Open(c.Context, fleet.Providers, p.env, p.keys, how.slots, endpoints.Servable)
	if err != nil {
		return err
	}
	defer callable.Close()
	settings := worker.Config{
		Client: store.Universal(d.Store), Namespace: c.String(namespaceFlag), Endpoints: callable.ByName,
		Limits: fleet.Limits, Lease: fleet.Lease, AtOnce: p.atOnce, Log: d.Log,
		Observer: observe.Observer{
			Stopping: func(inFlight int, grace time.Duration) { sayStopping(d.Screen, inFlight, grace) },
		},
	}
	outputs, err := how.open(c.Context, &settings, p.env, callable, d.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, outputs.Close()) }()

	switch err := redis.await(c.Context); {
	case err != nil && c.Err() != nil:
		return p.stopped(c.Context, redis.unanswered())
	case err != nil:
		return err
	}
	if url := c.String(cacheFlag); url != "" {
		cache, err := results.OpenReadOnly(c.Context, url)
		if err != nil {
			return outdir.StoreError(fmt.Errorf("--%s: %w", cacheFlag, err))
		}
		defer cache.Close()
		settings.Cache = cache
	}
	names := slices.Sorted(maps.Keys(callable.ByName))
	fmt.Fprintf(d.Screen, "serving %s with %d slots; providers: %s\n", dial.Redact(c.String(redisFlag)), how.slots, strings.Join(names, ", "))
	if len(callable.Keyless) > 0 {
		fmt.Fprintf(d.Screen, "not serving providers without keys: %s\n", strings.Join(callable.Keyless, ", "))
	}
	admin := ratelimit.NewAdmin(settings.Client, ratelimit.Config{Namespace: settings.Namespace, Lease: settings.Lease})
	if err := admin.CheckLease(c.Context); err != nil {
		if path := c.String(configFlag); path != "" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return failure.With(failure.Usage, err)
	}

	if err := worker.Run(c.Context, settings); err != nil {
		return failure.With(failure.Unavailable, err)
	}
	return p.stopped(c.Context, "stopped; unfinished runs wait in Redis for other workers, or for: "+p.again(c))
}
