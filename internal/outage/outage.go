// Package outage tells a Redis that cannot be asked now, which waiting may mend,
// from one that answers that it will not do what it was asked; and says once, not at
// each try, that something does not work.
package outage

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/redis/go-redis/v9"
)

// Is reports whether err, of a command, means that Redis cannot be asked now. A
// net.Error would not do: a file's failure is one, too.
func Is(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || redis.IsLoadingError(err)
}

// Passes reports whether err is an answer of Redis that another one may follow
// without anybody changing what is asked: it starts, fails over, or is full, in
// memory or on the disk that it saves to.
func Passes(err error) bool {
	for _, passing := range []func(error) bool{
		redis.IsLoadingError, redis.IsReadOnlyError, redis.IsClusterDownError, redis.IsTryAgainError,
		redis.IsMasterDownError, redis.IsMaxClientsError, redis.IsNoReplicasError, redis.IsOOMError,
	} {
		if passing(err) {
			return true
		}
	}
	return redis.HasErrorPrefix(err, "MISCONF")
}
