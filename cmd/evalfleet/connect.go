package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// Variables that hold passwords. They have no flags: other users of a machine see
// a process's command line.
const (
	passwordVariable         = "EVALFLEET_REDIS_PASSWORD"
	sentinelPasswordVariable = "EVALFLEET_REDIS_SENTINEL_PASSWORD"
)

// redisFlags are the flags for authentication at the Redis of --redis.
var redisFlags = []string{redisCAFlag, redisCertFlag, redisKeyFlag, redisNameFlag, redisPasswordFlag}

func (p *process) fleetRedis(c *cli.Context) (dial.Settings, error) {
	s := dial.Settings{
		URL: c.String(redisFlag), CA: c.String(redisCAFlag), Cert: c.String(redisCertFlag), Key: c.String(redisKeyFlag),
		ServerName: c.String(redisNameFlag),
	}
	s.Password, _ = p.env(passwordVariable)
	s.SentinelPassword, _ = p.env(sentinelPasswordVariable)
	if path := c.String(redisPasswordFlag); path != "" {
		if _, err := dial.ReadPassword(path); err != nil {
			return s, usageError("--%s: %w", redisPasswordFlag, err)
		}
		s.Password, s.PasswordFile = "", path
	}
	return s, nil
}

// roleOf returns the role in which a command uses Redis. Its Redis user needs no more rights than the role's.
func roleOf(c *cli.Context) dial.Role {
	switch name := c.Command.Name; {
	case name == "worker":
		return dial.Worker
	case name == "enqueue" && !c.Bool(waitFlag), name == "doctor":
		return dial.Submitter
	case name == "status" || name == "limits" || name == "show" || name == "report" || name == "ui" && !c.Bool(allowActionsFlag):
		return dial.Viewer
	}
	return dial.Controller
}

// startTime is how long a service waits for a Redis that has not started yet.
const startTime = time.Minute

// opened is a fleet's Redis that nothing has connected to yet.
type opened struct {
	*store.Store
	address *dial.Address
	role    dial.Role
	within  time.Duration // bounds await
	log     zerolog.Logger
}

// open opens the Redis of a fleet for use in a role. lease is as in dial.Address.Open.
func open(at dial.Settings, namespace string, role dial.Role, lease time.Duration, log zerolog.Logger) (*opened, error) {
	address, err := dial.Parse(at)
	if err != nil {
		return nil, usageError("--%s %s: %w", redisFlag, dial.Redact(at.URL), err)
	}
	if err := dial.CheckNamespace(namespace); err != nil {
		return nil, usageError("--%s: %w", namespaceFlag, err)
	}
	return &opened{
		Store: store.New(address.Open(namespace, lease), namespace), address: address, role: role, within: startTime, log: log,
	}, nil
}

// examine checks that the Redis can be used in its role. stays is true for commands that stay connected, with a lease or
// not: examine warns them about unsuitable settings of the Redis.
func (o *opened) examine(ctx context.Context, stays bool) error {
	unwise, err := dial.Examine(ctx, o.Client(), o.Keys().Namespace, o.role)
	if err != nil {
		return failure.With(failure.Unavailable, fmt.Errorf("redis at %s: %w", o.address, err))
	}

	for _, what := range unwise {
		level := zerolog.DebugLevel
		if stays {
			level = zerolog.WarnLevel
		}
		o.log.WithLevel(level).Str("redis", o.address.String()).Msg(what)
	}
	return nil
}

// await does what examine does, for a service. Services start together with Redis, so it first waits until Redis has
// started.
func (o *opened) await(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, o.within)
	defer cancel()
	waits := outage.Spell{Log: o.log, Fails: fmt.Sprintf("waiting up to %s for Redis", o.within), Works: "Redis answers"}
	for {
		err := o.examine(ctx, true)
		if err != nil && !dial.Starting(err) {
			return err
		}
		waits.Note(ctx, err)
		if err == nil || outage.Pause(bounded, outage.AwayFor) != nil {
			return err
		}
	}
}

// unanswered says that a service was stopped in await.
func (o *opened) unanswered() string {
	return fmt.Sprintf("stopped before Redis at %s answered", o.address)
}

// connect opens the Redis of a fleet, and checks that it can be used now. lease, role and stays are as in open and examine.
func connect(
	ctx context.Context, at dial.Settings, namespace string, role dial.Role, lease time.Duration, stays bool,
	log zerolog.Logger,
) (*store.Store, error) {
	o, err := open(at, namespace, role, lease, log)
	if err != nil {
		return nil, err
	}
	if err := o.examine(ctx, stays); err != nil {
		_ = o.Close()
		return nil, err
	}
	return o.Store, nil
}
