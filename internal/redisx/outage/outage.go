// Package outage distinguishes a Redis that is unavailable for a while from one that refuses a
// command. It waits until Redis is back, and logs a failure once, not at each attempt.
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

// Is reports whether err, of a command, means that Redis is unavailable: it is unreachable, loads
// its data, or runs a script that takes long. Checking for a net.Error would not do, because a
// file's failure is one, too.
func Is(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) ||
		redis.IsLoadingError(err) || isBusy(err)
}

// isBusy reports whether Redis replies only that another client's script takes long.
func isBusy(err error) bool { return redis.HasErrorPrefix(err, "BUSY ") }

// denials are the beginnings of the replies to a user whose password or rights were changed. Every
// command checks the user's rights when it starts, so such a reply later means that an operator is
// changing Redis: rotating passwords, or loading a list of users.
var denials = []string{"WRONGPASS ", "NOAUTH ", "NOPERM "}

// deniedInScript are parts of the replies to a user who may run a script, but not a command in it:
// the first is that of Redis up to 7.0, the second that of later versions. Such replies begin with
// ERR, before 7.0 with the place in the script.
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

// Passes reports whether err is a reply of Redis that may change without a change to the command.
// Redis starts, is busy, fails over, has no memory or disk space left, or refuses the user for now.
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

// Temporary reports whether a command that failed with err may succeed later: Redis is unavailable, or
// refuses the command for now.
func Temporary(err error) bool { return Is(err) || Passes(err) }

// Final reports whether err is an answer of Redis that stays the same however often the command is sent.
func Final(err error) bool {
	var answered redis.Error
	return errors.As(err, &answered) && !Passes(err)
}

// Refused reports whether Redis refuses a command in itself, such as one for another type of key. It
// is false for an outage, and for a key that does not exist.
func Refused(err error) bool { return Final(err) && !Is(err) && !errors.Is(err, redis.Nil) }

// WrongType reports whether Redis refuses a command because a key holds another type of value: it
// belongs to another program, or is damaged.
func WrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// Words describes a Temporary failure to a person.
func Words(err error) string {
	switch {
	case redis.IsOOMError(err):
		return "the memory of Redis is full"
	case redis.HasErrorPrefix(err, "MISCONF"):
		return "Redis accepts no writes, because it cannot save its data"
	case redis.IsNoReplicasError(err):
		return "Redis accepts no writes, because too few replicas are connected"
	case isBusy(err):
		return "Redis is busy with the script of another client"
	case Denied(err):
		return "Redis refuses this user"
	}
	return "Redis does not answer"
}

// Level returns the level at which to log a failed command, for parts that do not log outages. It
// is debug if Redis is unavailable, because another part logs that once; else warning.
func Level(err error) zerolog.Level {
	if Is(err) {
		return zerolog.DebugLevel
	}
	return zerolog.WarnLevel
}
