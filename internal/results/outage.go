package results

import (
	"errors"
	"io"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// redisError is a failure of Redis, as opposed to one of the results store.
type redisError struct {
	operation string
	err       error
}

func (e redisError) Error() string { return e.operation + ": " + e.err.Error() }
func (e redisError) Unwrap() error { return e.err }

// passes reports whether waiting can help: the results store is locked or unreachable, or Redis is
// unreachable. An error that Redis itself returns is final, unless it says that the server is
// starting, failing over or full.
func passes(err error) bool {
	var answer redis.Error
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, ErrAway):
		return true
	case errors.Is(err, redis.ErrClosed):
		return false
	case errors.As(err, &answer):
		return outage.Passes(err)
	}
	var ours redisError
	var network net.Error
	return errors.As(err, &ours) || errors.As(err, &network) || errors.Is(err, io.EOF)
}
