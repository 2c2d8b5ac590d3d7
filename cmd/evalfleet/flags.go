package main

import (
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/record"
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

// commonFlags returns the flags of every command. Flags never read the process's environment themselves (EnvVars):
// complete does, from the injected environment.
func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: redisFlag,
			Usage: "`URL` of the fleet's Redis: redis://host:6379/0, redis+sentinel://host,host/mymaster or " +
				"redis+cluster://host,host; rediss for TLS (default REDIS_URL)",
		},
		&cli.StringFlag{Name: redisPasswordFlag, Usage: "`FILE` with the Redis password, if not in the URL (default EVALFLEET_REDIS_PASSWORD)"},
		&cli.StringFlag{Name: redisCAFlag, Usage: "`FILE` with the CA certificate that verifies Redis, PEM (default the system's)"},
		&cli.StringFlag{Name: redisCertFlag, Usage: "`FILE` with the client certificate for Redis, PEM (default none)"},
		&cli.StringFlag{Name: redisKeyFlag, Usage: "`FILE` with the private key of --redis-cert, PEM (default none)"},
		&cli.StringFlag{Name: redisNameFlag, Usage: "server `NAME` in the certificate of Redis (default its host)"},
		&cli.StringFlag{
			Name: namespaceFlag, Value: record.DefaultNamespace,
			Usage: "`PREFIX` of all keys in Redis; separates several fleets in one Redis",
		},

		&cli.StringFlag{Name: configFlag, Usage: "fleet `FILE` with providers, limits and retries (default built-in providers, no limits)"},
		&cli.StringFlag{
			Name: envFileFlag, Aliases: []string{"e"},
			Usage: "`FILE` with environment variables; the environment overrides it (default .env, if it exists, for keys only)",
		},
		&cli.StringSliceFlag{
			Name: allowSinkFlag,
			Usage: "`URL` of a results store that evaluations in Redis may use; repeatable (default only those in --sink, " +
				"EVALFLEET_SINK, --config and your own submissions)",
		},
		&cli.StringFlag{Name: outDirFlag, Usage: "output folder `DIR` (default evalfleet-out/<name>-<id>)"},
		&cli.StringFlag{Name: logLevelFlag, Usage: "minimum log `LEVEL`: debug, info, warn or error (default info in JSON " +
			"and for services; otherwise, and on a terminal, warn)"},
		&cli.StringFlag{Name: logFormatFlag, Usage: "`FORMAT` of stderr: json or console (default console; json for services)"},
	}
}
