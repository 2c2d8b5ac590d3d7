package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// openRest opens the file for results that the results store may have no room for when the embedded
// Redis ends: at least the calls in flight, of a few kilobytes each.
func (j *job) openRest(ctx context.Context, out *outdir.Folder, db results.Store) (*results.Rest, error) {
	rest, err := results.OpenRest(ctx, out.Path(outdir.RestFile), int64(64<<10+4<<10*j.Worker.Slots), db)
	switch {
	case errors.Is(err, results.ErrNoEvaluation):
		return nil, failure.Usagef("%w; they belong to another run in this folder: resume it first, or choose another folder", err)
	case err != nil:
		return nil, failure.With(failure.Unavailable, err)
	}
	return rest, nil
}

// hold keeps what the results store has no room for, and returns a message that says so. With a
// named Redis, which keeps it by itself, rest is nil.
func (j *job) hold(ctx context.Context, rest *results.Rest, s *store.Store) string {
	if rest == nil {
		return ", more are in Redis"
	}
	kept, left, err := rest.Keep(ctx, s.Client(), s.Keys(), j.id)
	if err != nil {
		j.Worker.Log.Error().Err(err).Int("results", left).Msg("results are lost; their runs will be repeated")
	}
	if left > 0 {
		return fmt.Sprintf(" and %d in its %s, and %d will be repeated because the disk is full", kept, outdir.RestFile, left)
	}
	return fmt.Sprintf(" and %d in its %s", kept, outdir.RestFile)
}

// openBegun opens the file of the calls that runs in the folder have begun.
func (j *job) openBegun(ctx context.Context, out *outdir.Folder, reader results.Reader) (*outdir.CallLog, error) {
	daily := func(l ratelimit.Limit) bool { return l.Resets != "" }
	each := slices.ContainsFunc(j.Submission.Settings.Limits, daily) || slices.ContainsFunc(j.Worker.Limits, daily)
	begun, err := outdir.OpenBegun(ctx, out.Path(outdir.BegunFile), each, reader.Recorded)
	return begun, failure.With(failure.Unavailable, err)
}

// remember tells an embedded Redis, which is always new, when the last call was made: what a rate
// or a window had left then counts as used up.
func (j *job) remember(ctx context.Context, reader results.Reader, begun *outdir.CallLog) error {
	last, err := reader.LastCall(ctx)
	if err != nil {
		return outdir.StoreError(err)
	}
	if begun.Last().After(last) {
		last = begun.Last()
	}
	// Times are stored in whole milliseconds. A time in the future was stored before the clock was
	// set back.
	memory := max(0, time.Since(last.Add(time.Millisecond)))
	return ratelimit.NewAdmin(j.Worker.Client, ratelimit.Config{Namespace: j.Worker.Namespace}).Begin(ctx, memory)
}

// embedded starts a Redis for this run alone, and returns a function that ends it.
func (j *job) embedded() (end func(), err error) {
	server, err := embedded.Start(j.Place.Dir)
	if err != nil {
		return nil, failure.With(failure.Unavailable, err)
	}
	address, err := dial.Parse(dial.Settings{URL: server.URL()})
	if err != nil {
		return nil, errors.Join(failure.With(failure.Unavailable, err), server.Close())
	}
	client, ended := address.Open(j.Worker.Namespace, 0), j.alone()
	j.Worker.Client = client
	return func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			j.Worker.Log.Warn().Err(err).Msg("embedded Redis")
		}
		ended()
	}, nil
}

// embeddedLock is held while a run of this user has a Redis of its own.
const embeddedLock = "embedded.lock"

// alone tells the user if another run of this user has a Redis of its own as well: each then has
// its own limits. It returns a function that ends this run's part.
func (j *job) alone() (end func()) {
	end, held, err := j.Owner.TryLock(embeddedLock)
	switch {
	case err != nil:
		j.Worker.Log.Debug().Err(err).Msg("cannot see whether another run is active on this machine")
	case !held:
		fmt.Fprintln(j.Screen, "another `evalfleet run` is active on this machine; to share limits with it, give both the same Redis")
	}
	return end
}
