// Package outage tells a Redis that cannot be asked now, which waiting may mend,
// from one that answers that it will not do what it was asked.
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
