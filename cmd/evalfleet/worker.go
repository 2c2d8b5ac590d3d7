package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/worker"
)

const (
	queuesFlag = "queues"
	eventsFlag = "events"
)

func workerCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "pull runs from a fleet's queues and carry them out until stopped",
		Description: "Serves every queue whose provider it has, with the base URLs and keys of its own --config and environment. " +
			"Any number of workers share the limits. A stop (SIGTERM, Ctrl-C) pulls nothing more, lets calls in flight finish " +
			"for --grace and gives the rest back; a second one stops at once.",
		Flags: append(workFlags(), metricsFlag(),
			&cli.StringSliceFlag{Name: queuesFlag, Usage: "only these `QUEUES`, separated by commas; all it can serve where nothing is said"},
			&cli.StringFlag{Name: eventsFlag, Usage: "`FILE` to which every event of every run is appended, one JSON line each"}),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return p.work(c)
		},
	}
}

func (p *process) work(c *cli.Context) (err error) {
	slots, err := slotsOf(c)
	if err != nil {
		return err
	}
	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return err
	}
	d, err := p.openDrain(c)
	if err != nil {
		return err
	}
	defer d.client.Close()
	callable, err := openEndpoints(fleet.Providers, p.env, slots, withKey)
	if err != nil {
		return err
	}
	defer callable.Close()
	settings := worker.Config{
		Client: d.client, Namespace: c.String(namespaceFlag), Slots: slots, Queues: c.StringSlice(queuesFlag),
		Endpoints: callable.byName, Grace: c.Duration(graceFlag), Lease: fleet.Lease, Log: d.log,
	}
	if path := c.String(eventsFlag); path != "" {
		events, err := openEvents(path)
		if err != nil {
			return withCode(exitUsage, err)
		}
		defer func() { err = errors.Join(err, events.Close()) }()
		settings.Events = events.write
	}
	served, err := watched(c.Context, &settings, c.String(metricsFlagName), c.IsSet(metricsFlagName), d.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, served.Close()) }()
	names := make([]string, 0, len(callable.byName))
	for name := range callable.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	settings.Stopping = func(inFlight int, grace time.Duration) { sayStopping(d.console, inFlight, grace) }
	fmt.Fprintf(d.console, "working for %s with %d slots; providers: %s\n", redact(c.String(redisFlag)), slots, strings.Join(names, ", "))
	if err := worker.Run(c.Context, settings); err != nil {
		return withCode(exitUnreachable, err)
	}
	fmt.Fprintln(d.console, "stopped; what is not done waits in Redis for other workers, or for: "+p.again(c))
	return nil
}
