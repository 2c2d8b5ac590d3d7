// Package outage distinguishes a Redis that is unavailable for a while from one that refuses a
// command, waits until it is back, and logs once, not at each try, that something does not work.
package outage

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Is reports whether err, of a command, means that Redis cannot be asked now: it is unreachable,
// loads its data, or runs a script that takes long. A net.Error would not do: a file's failure is
// one, too.
func Is(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || redis.IsLoadingError(err) || isBusy(err)
}

// isBusy reports whether Redis answers only that another client's script takes long.
func isBusy(err error) bool { return redis.HasErrorPrefix(err, "BUSY ") }

// denials begin the answers to a user whose password or rights were changed. Every command
// examines them when it starts, so that they are an operation on Redis under way: a rotation of
// passwords, or a list of users that is loaded.
var denials = []string{"WRONGPASS ", "NOAUTH ", "NOPERM "}

// deniedInScript are parts of the answers to a user who may run a script, but not a command in it:
// of Redis up to 7.0, and since. They begin with ERR, and before 7.0 with the place in the script.
var deniedInScript = []string{"The user executing the script can't ", "ACL failure in script"}

// Denied reports whether Redis refuses the user of a process that has worked before.
func Denied(err error) bool {
	if slices.ContainsFunc(denials, func(begins string) bool { return redis.HasErrorPrefix(err, begins) }) {
		return true
	}
	var answered redis.Error
	return errors.As(err, &answered) &&
		slices.ContainsFunc(deniedInScript, func(part string) bool { return strings.Contains(answered.Error(), part) })
}

// Passes reports whether err is an answer of Redis that may change without a change to the
// command: it starts, is busy, fails over, is full, in memory or on the disk that it saves to, or
// refuses the user for now.
func Passes(err error) bool {
	for _, passing := range []func(error) bool{
		redis.IsLoadingError, redis.IsReadOnlyError, redis.IsClusterDownError, redis.IsTryAgainError,
		redis.IsMasterDownError, redis.IsMaxClientsError, redis.IsNoReplicasError, redis.IsOOMError, isBusy,
	} {
		if passing(err) {
			return true
		}
	}
	return redis.HasErrorPrefix(err, "MISCONF") || Denied(err)
}

// Level is the level at which a failed command is logged by parts that do not log outages: that
// Redis cannot be asked is logged once, elsewhere.
func Level(err error) zerolog.Level {
	if Is(err) {
		return zerolog.DebugLevel
	}
	return zerolog.WarnLevel
}
