package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/internal/controller"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/telemetry/metrics"
)

// scalePath is where the controller reports how many concurrent calls the fleet could use.
const scalePath = "/scale"

const (
	drainFlag     = "drain"
	maxUploadFlag = "max-upload-mib"
)

func controllerCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "controller",
		Usage: "Keep queues moving, drain results, and report the desired number of workers",
		Description: "Runs beside a fleet; a second one is safe. It refills queues, pushes runs whose retry is due and those of dead " +
			"workers even if no worker is up, drains evaluations into their results stores, and serves the pages of " +
			"`evalfleet ui` on --listen. --metrics-addr serves /metrics for the whole fleet, /healthz, /readyz, and /scale " +
			"with desired_concurrency for autoscalers. It makes no calls and needs no keys.",
		Flags: append(pageFlags("`ADDRESS` of the pages, or off; port 0 takes a free one"),
			&cli.StringFlag{Name: metricsFlagName, Value: metricsDefault, Usage: "`ADDRESS` for /metrics, /healthz, /readyz and /scale, or off"},
			&cli.DurationFlag{Name: latencyFlag, Value: controller.DefaultLatency, Usage: "assumed `TIME` per call until a model has completed one"},
			&cli.IntFlag{
				Name: maxUploadFlag, Value: 64,
				Usage: "with --" + allowActionsFlag + ", accept evaluations of up to `N` MiB over HTTP (enqueue --server)",
			},
			&cli.BoolFlag{Name: drainFlag, Value: true, Usage: "drain results; use --drain=false if another process does it"},
		),

		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if c.Duration(latencyFlag) <= 0 {
				return usageError("--%s must be more than 0, got %s", latencyFlag, c.Duration(latencyFlag))
			}
			if mib := c.Int(maxUploadFlag); mib < 1 || mib > 1024 {
				return usageError("--%s must be from 1 to 1024, got %d", maxUploadFlag, mib)
			}
			return p.control(c)
		},
	}
}

// control runs a controller and its servers until the context ends.
func (p *process) control(c *cli.Context) error {
	at, err := p.namedRedis(c)
	if err != nil {
		return err
	}
	d, redis, err := p.unconnected(c, at, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	pages, err := pageSettings(c, d.Log)
	if err != nil {
		return err
	}

	configured, err := p.fleet(c.String(configFlag))
	if err != nil {
		return err
	}
	config := controller.Config{Store: d.Store, Latency: c.Duration(latencyFlag), Log: d.Log}
	if c.Bool(drainFlag) {
		secret, _ := p.keys(configured.Notify.SecretEnv)
		ends, err := fleet.NewEndings(d, configured.Notify, secret)
		if err != nil {
			return err
		}
		config.Collect = d.Collector()
		config.Collect.Conclude = ends.Conclude
		config.Collect.Watch = nil // there may be a thousand; status and the pages show their progress
	}

	keeper := controller.New(config)
	told := "no metrics"
	if address := c.String(metricsFlagName); address != metricsOff {
		served, err := metrics.Listen(c.Context, address, controllerHandler(d, keeper))
		if err != nil {
			return usageError("--%s %s: %w; choose another address, port 0 for any free port, or %s", metricsFlagName, address, err, metricsOff)
		}
		defer served.Close()
		told = "metrics and " + scalePath + " on " + served.Address()
	}

	switch err := redis.await(c.Context); {
	case err != nil && c.Err() != nil:
		return p.stopped(c.Context, redis.unanswered())
	case err != nil:
		return err
	}

	fmt.Fprintf(d.Screen, "serving the fleet of %s; %s\n", dial.Redact(c.String(redisFlag)), told)
	parts, ctx := errgroup.WithContext(c.Context)
	parts.Go(func() error { return keeper.Run(ctx) })
	if address := c.String(listenFlag); address != metricsOff {
		pages.ShowFleet(d)
		pages.Accept(d, configured, int64(c.Int(maxUploadFlag))<<20)
		parts.Go(func() error { return p.serve(ctx, address, &pages) })
	}

	if err := parts.Wait(); err != nil && c.Err() == nil {
		return err
	}
	return p.stopped(c.Context, "stopped; workers continue, and results wait in Redis for: "+p.again(c))
}

// controllerHandler answers /metrics, the health checks and /scale.
func controllerHandler(d *fleet.Connection, keeper *controller.Controller) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(keeper, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := metrics.Handler(registry, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, healthcheckTime)
		defer cancel()
		if d.Store.Client().Ping(ctx).Err() != nil {
			return metrics.ErrRedisAway
		}
		return nil
	})
	mux.HandleFunc("GET "+scalePath, keeper.ServeScale)
	return mux
}
