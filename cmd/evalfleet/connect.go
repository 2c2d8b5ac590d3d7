package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// oldestRedis is the first version with everything that the scripts use.
const oldestRedis = "6.2"

// connect opens a client to the Redis at address and makes sure that it can be
// used: it answers, is new enough, and does not throw keys away. What cannot be
// asked, as on managed and embedded servers, is not held against it. change, if
// any, alters the options before.
func connect(ctx context.Context, address string, log zerolog.Logger, change ...func(*redis.Options)) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, usageError("--redis %s: %w; want redis://[:password@]host:port[/db], rediss://… or unix://path", redact(address), err)
	}
	options.ClientName = "evalfleet"
	for _, f := range change {
		f(options)
	}
	redis.SetLogger(quietRedis{}) // whoever waits for Redis says so itself, once
	client := redis.NewClient(options)
	if err := examine(ctx, client, log); err != nil {
		_ = client.Close()
		return nil, withCode(exitUnreachable, fmt.Errorf("redis at %s: %w", options.Addr, err))
	}
	return client, nil
}

// forCalls is for the clients of those who make calls under leases: each
// connection notices when another server answers than before, which may lack
// leases. Who only looks in does not know how long leases last, and leaves it to
// them.
func forCalls(namespace string, lease time.Duration) func(*redis.Options) {
	return func(o *redis.Options) { o.OnConnect = ratelimit.OnConnect(namespace, lease) }
}

func examine(ctx context.Context, client redis.UniversalClient, log zerolog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		return explainRedis(err)
	}
	if info, err := client.Info(ctx, "server").Result(); err == nil {
		if version := infoField(info, "redis_version"); version != "" && olderThan(version, oldestRedis) {
			return fmt.Errorf("version %s is too old: evalfleet needs %s or newer", version, oldestRedis)
		}
	}
	policy, err := client.ConfigGet(ctx, "maxmemory-policy").Result()
	switch got := policy["maxmemory-policy"]; {
	case err != nil:
		log.Debug().Msg("maxmemory-policy cannot be asked; it must be noeviction")
	case got != "" && got != "noeviction":
		return fmt.Errorf("its maxmemory-policy is %s, which throws away queues and limits when memory is short: set `maxmemory-policy noeviction`", got)
	}
	return nil
}

// explainRedis adds what to do to the failures that people meet first.
func explainRedis(err error) error {
	message := err.Error()
	switch {
	case strings.Contains(message, "connection refused"), strings.Contains(message, "no such host"),
		strings.Contains(message, "no such file"), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot be reached: %w; start it, or name another with --redis (`evalfleet run` without --redis brings its own)", err)
	case strings.HasPrefix(message, "NOAUTH"), strings.HasPrefix(message, "WRONGPASS"):
		return fmt.Errorf("refuses the password: %w; give it as redis://:password@host:port", err)
	}
	return err
}

func infoField(info, field string) string {
	for line := range strings.SplitSeq(info, "\n") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

func olderThan(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range b {
		if i >= len(a) {
			return true
		}
		x, err := strconv.Atoi(a[i])
		if err != nil {
			return false // a version of another kind says nothing
		}
		if y, _ := strconv.Atoi(b[i]); x != y {
			return x < y
		}
	}
	return false
}

// redact hides the password of an address.
func redact(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "(not a URL)"
	}
	return parsed.Redacted()
}

// quietRedis drops what go-redis would print about every failed dial.
type quietRedis struct{}

func (quietRedis) Printf(context.Context, string, ...any) {}
