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

// connect opens the Redis of a fleet and checks that it can be used in a role. lease is as in dial.Address.Open. stays
// is true for commands that stay connected, with a lease or not: connect warns them about unsuitable settings of the
// Redis.
func connect(
	ctx context.Context, at dial.Settings, namespace string, role dial.Role, lease time.Duration, stays bool,
	log zerolog.Logger,
) (*store.Store, error) {
	address, err := dial.Parse(at)
	if err != nil {
		return nil, usageError("--%s %s: %w", redisFlag, dial.Redact(at.URL), err)
	}
	if err := dial.CheckNamespace(namespace); err != nil {
		return nil, usageError("--%s: %w", namespaceFlag, err)
	}

	client := address.Open(namespace, lease)
	unwise, err := dial.Examine(ctx, client, namespace, role)
	if err != nil {
		_ = client.Close()
		return nil, failure.With(failure.Unavailable, fmt.Errorf("redis at %s: %w", address, err))
	}

	for _, what := range unwise {
		level := zerolog.DebugLevel
		if stays {
			level = zerolog.WarnLevel
		}
		log.WithLevel(level).Str("redis", address.String()).Msg(what)
	}
	return store.New(client, namespace), nil
}
