package main

import (
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/record"
)

// Names of flags that are read in more than one place.
const (
	redisFlag         = "redis"
	redisCAFlag       = "redis-ca"
	redisCertFlag     = "redis-cert"
	redisKeyFlag      = "redis-key"
	redisNameFlag     = "redis-server-name"
	redisPasswordFlag = "redis-password-file"
	namespaceFlag     = "namespace"
	configFlag        = "config"
	envFileFlag       = "env-file"
	outDirFlag        = "out-dir"
	logLevelFlag      = "log-level"
	logFormatFlag     = "log-format"
)

// commonFlags are understood by every command. Flags never read the process's
// environment themselves (EnvVars): complete does, from the one that was
// injected.
func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: redisFlag, Usage: "`URL` of the Redis that the fleet shares, such as redis://host:6379/0, redis+sentinel://host,host/mymaster or redis+cluster://host,host, with rediss for TLS; by default REDIS_URL"},
		&cli.StringFlag{Name: redisPasswordFlag, Usage: "`FILE` that holds the Redis's password, where the URL has none; by default EVALFLEET_REDIS_PASSWORD"},
		&cli.StringFlag{Name: redisCAFlag, Usage: "`FILE` of the authority, in PEM form, whose certificates of Redis are believed; by default the system's"},
		&cli.StringFlag{Name: redisCertFlag, Usage: "`FILE` of the certificate, in PEM form, that Redis is shown; by default none"},
		&cli.StringFlag{Name: redisKeyFlag, Usage: "`FILE` of the key of --redis-cert; by default none"},
		&cli.StringFlag{Name: redisNameFlag, Usage: "`NAME` wanted in the certificate of Redis; by default its host"},
		&cli.StringFlag{Name: namespaceFlag, Value: record.DefaultNamespace, Usage: "`PREFIX` of every key in that Redis, so that several fleets can share one"},
		&cli.StringFlag{Name: configFlag, Usage: "`FILE` of the fleet's settings: providers, concurrency, retry; by default the built-in providers without limits"},
		&cli.StringFlag{Name: envFileFlag, Aliases: []string{"e"}, Usage: "`FILE` of variables to add to the environment, which wins; by default .env where that exists"},
		&cli.StringSliceFlag{Name: allowSinkFlag, Usage: "`URL` of a results store that evaluations in Redis may name; by default only those of --sink, EVALFLEET_SINK, --config and your own submissions; may be repeated"},
		&cli.StringFlag{Name: outDirFlag, Usage: "`DIR` for results; evalfleet-out/<name>-<id> where nothing is said"},
		&cli.StringFlag{Name: logLevelFlag, Usage: "`LEVEL` from which the log speaks: debug, info, warn or error; by default info, on a terminal warn"},
		&cli.StringFlag{Name: logFormatFlag, Usage: "`FORMAT` of the log: json or console; by default console on a terminal, else json"},
	}
}
