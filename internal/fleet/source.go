package fleet

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Source is where evaluations are read from: a Redis, and the results stores that this machine can
// read. For an output folder, it is the Redis of the active run there, if any, and the folder's
// results store. A Source must not be used by several goroutines at once.
type Source struct {
	Dir  string  // the folder; empty: none was named
	Only eval.ID // the evaluation; empty: all
	// Redis is the connection to the fleet; nil for a folder.
	Redis *Connection
	// StoreIn finds the folder's results store.
	StoreIn outdir.StoreIn
	// Connect opens the embedded Redis of the run in the folder.
	Connect func(ctx context.Context, url string) (*store.Store, error)
	Log     zerolog.Logger

	address string // of the embedded Redis that Redis is connected to
}

// Close ends the connection.
func (s *Source) Close() {
	if s.Redis != nil {
		_ = s.Redis.Close()
	}
}

// Fleet returns the connection to read from now. It is nil if no run is active in the folder, or
// its Redis is unreachable: then its results store is the only source.
func (s *Source) Fleet(ctx context.Context) *Connection {
	if s.Dir == "" {
		return s.Redis
	}
	address, err := embedded.Address(s.Dir)
	if err == nil {
		err = listens(ctx, address)
	}
	if err == nil && s.Redis != nil && address == s.address && s.Redis.Store.Client().Ping(ctx).Err() == nil {
		return s.Redis
	}
	s.Close()
	s.Redis = nil
	if err != nil {
		return nil
	}
	evaluations, err := s.Connect(ctx, address) // a file that a killed run left refuses
	if err != nil {
		return nil
	}
	s.Redis = &Connection{Store: evaluations, Dir: s.Dir, Log: s.Log}
	s.address = address
	return s.Redis
}

// listens reports whether a server listens at an address, which a killed run may have left behind.
// A client would retry repeatedly.
func listens(ctx context.Context, address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return err
	}
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", parsed.Host)
	if err != nil {
		return err
	}
	return connection.Close()
}

// reader opens the results store of an evaluation for reading; nil if this machine cannot read it.
func (s *Source) reader(ctx context.Context, r record.Evaluation) results.Reader {
	var url string
	var err error
	if s.Dir != "" {
		url, _, err = s.StoreIn()
	} else {
		url, err = s.Redis.storeOf(r)
	}
	if errors.Is(err, ErrForeignStore) {
		s.Log.Warn().Err(err).Msg("skipping the results")
		return nil
	}
	var reader results.Reader
	if err == nil {
		reader, err = results.OpenReadOnly(ctx, url)
	}
	if err != nil {
		s.Log.Debug().Err(err).Msg("cannot read the results from here")
		return nil
	}

	listed, err := reader.Evaluations(ctx)
	if err != nil || !slices.ContainsFunc(listed, func(l results.Listed) bool { return l.ID == r.ID }) {
		_ = reader.Close()
		return nil
	}
	return reader
}

// evaluations lists the evaluations of the source in Redis. It turns ErrNoEvaluation into a message
// for the user.
func (s *Source) evaluations(ctx context.Context, redis *Connection) ([]eval.ID, error) {
	if s.Only == "" {
		ids, err := redis.Store.Evaluations(ctx)
		return ids, failure.With(failure.Unavailable, err)
	}
	switch _, err := redis.Store.Evaluation(ctx, s.Only); {
	case errors.Is(err, store.ErrNoEvaluation):
		return nil, redis.Unknown(ctx, s.Only)
	case err != nil:
		return nil, failure.With(failure.Unavailable, err)
	}
	return []eval.ID{s.Only}, nil
}
