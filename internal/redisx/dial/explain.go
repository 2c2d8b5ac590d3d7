package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// startingError is an error that passes once Redis has started.
type startingError struct{ error }

func (e startingError) Unwrap() error { return e.error }

// Starting reports whether err, of Examine, may mean that Redis has not started yet: nothing answers at its address, it
// loads its data, or its Cluster is incomplete. Other errors stay until someone changes a setting.
func Starting(err error) bool { return errors.As(err, new(startingError)) }

// explain adds advice to the failures that people meet first.
func explain(err error) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     tls.AlertError
		lookup    *net.DNSError
	)
	text := err.Error()
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("presents a certificate of an unknown authority: %w; set the CA certificate with --redis-ca", err)
	case errors.As(err, &name):
		return fmt.Errorf("presents a certificate for another name: %w; use that name, or set it with --redis-server-name", err)
	case errors.As(err, &invalid):
		return fmt.Errorf("presents an invalid certificate: %w", err)
	case errors.As(err, &alert), strings.Contains(text, "remote error: tls"):
		return fmt.Errorf("refuses the TLS connection: %w; if it requires a client certificate, set --redis-cert and --redis-key", err)
	case errors.Is(err, redis.Nil) && strings.Contains(text, "sentinels"):
		return fmt.Errorf(
			"the Sentinels know no master of this name: %w; `redis-cli -p 26379 sentinel masters` lists the masters they watch",
			err,
		)
	case strings.Contains(text, "sentinels") && strings.Contains(text, "unknown command"):
		return fmt.Errorf("this is not a Sentinel: %w; for a single server, write redis://host:port", err)
	case redis.IsMaxClientsError(err):
		return fmt.Errorf("has no connection left: %w; raise maxclients, or give each process fewer with ?pool_size=N in the URL", err)
	case redis.HasErrorPrefix(err, "MISCONF"):
		return fmt.Errorf("accepts no writes, because it cannot save its data: %w; see its log, and make room on its disk", err)
	case strings.Contains(text, "unsupported command"), strings.Contains(text, "Invalid backend"):
		return fmt.Errorf("this is a proxy that lacks commands evalfleet needs: %w; connect to Redis itself, without twemproxy or Envoy", err)
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return fmt.Errorf(
			"refuses the password: %w; set it as redis://:password@host:port or redis://user:password@host:port, with "+
				"--redis-password-file, or as EVALFLEET_REDIS_PASSWORD",
			err,
		)
	case strings.Contains(text, "cluster support disabled"):
		return fmt.Errorf("this is not a Cluster: %w; write redis://host:port", err)
	case redis.HasErrorPrefix(err, "MOVED"):
		return fmt.Errorf("this is one server of a Cluster: %w; write redis+cluster://host:port,…", err)
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("its user lacks rights: %w; docs/redis.md lists the rights that evalfleet needs", err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf(
			"closes the connection: %w; if this port uses TLS, write rediss:// instead of redis://; if Redis is restarting, "+
				"try again; if it requires a client certificate, set --redis-cert and --redis-key; if this is a proxy such as twemproxy, "+
				"connect to Redis itself",
			err,
		)
	case redis.IsLoadingError(err):
		return startingError{fmt.Errorf("loads its data: %w; try again when it has", err)}
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &lookup), errors.Is(err, syscall.ENOENT),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, context.DeadlineExceeded):
		return startingError{fmt.Errorf(
			"is unreachable: %w; start it, or set another with --redis (`evalfleet run` without --redis starts its own)", err,
		)}
	}

	return err
}
