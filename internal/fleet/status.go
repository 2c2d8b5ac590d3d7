package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view"
)

// StatusReader reads the progress of a source's evaluations, repeatedly if they are watched.
type StatusReader struct {
	source *Source
	looks  *view.Looks
	failed bool // and this was logged
}

// NewStatusReader returns one for a source, which the caller closes.
func NewStatusReader(s *Source) *StatusReader {
	looks := view.NewLooks(s.Log)
	looks.Open = s.reader
	if s.Dir != "" || s.Only != "" { // ranking all evaluations of a fleet takes too long
		looks.Rank = ranked
	}
	return &StatusReader{source: s, looks: looks}
}

// ranked returns the result of what is recorded of an evaluation, as of its end if it has ended.
func ranked(ctx context.Context, reader results.Reader, id eval.ID) (record.Result, error) {
	built, err := report.Build(ctx, reader, id, report.Options{})
	if err != nil {
		return record.Result{}, err
	}
	result := built.Result()
	if at := built.Evaluation.Finished; !at.IsZero() {
		result.At = at
	}
	return result, nil
}

// List reads the progress once. A run that has just ended, or was killed, is read from its folder.
func (s *StatusReader) List(ctx context.Context, now time.Time) ([]view.Evaluation, error) {
	list := []view.Evaluation{}
	var err error
	if redis := s.source.Fleet(ctx); redis != nil {
		list, err = s.inRedis(ctx, redis, now)
	}
	if s.source.Dir != "" && (err != nil || len(list) == 0) {
		list, err = s.inFolder(ctx, now)
	}
	sortOldestFirst(list)
	return list, err
}

func sortOldestFirst(list []view.Evaluation) {
	slices.SortFunc(list, func(a, b view.Evaluation) int { return a.Created.Compare(b.Created) })
}

// StatusReaders are those of several output folders, or one.
type StatusReaders []*StatusReader

// List reads the progress in all of them once. It logs those of several that cannot be read, and leaves them out.
func (all StatusReaders) List(ctx context.Context, now time.Time) ([]view.Evaluation, error) {
	list := []view.Evaluation{}
	for _, one := range all {
		part, err := one.List(ctx, now)
		if err != nil && len(all) == 1 {
			return nil, err
		}
		if err != nil && !one.failed {
			one.failed = true
			one.source.Log.Warn().Err(err).Str("folder", one.source.Dir).Msg("skipping an output folder")
		}
		list = append(list, part...)
	}
	sortOldestFirst(list)
	return list, nil
}

// inRedis reads one evaluation, or all that Redis knows.
func (s *StatusReader) inRedis(ctx context.Context, d *Connection, now time.Time) ([]view.Evaluation, error) {
	ids, err := s.source.evaluations(ctx, d)
	if err != nil {
		return nil, err
	}
	list, err := s.looks.InRedis(ctx, d.View(), ids, now)
	return list, failure.With(failure.Unavailable, err)
}

// inFolder reads the evaluations of an output folder when no Redis is reachable.
func (s *StatusReader) inFolder(ctx context.Context, now time.Time) ([]view.Evaluation, error) {
	url, only, err := s.source.StoreIn()
	if err != nil {
		return nil, err
	}
	reader, _, err := outdir.ReadStore(ctx, url, only)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	list, err := s.looks.InFolder(ctx, reader, only, func(of results.Listed) record.Status { return StatusInFolder(s.source.Dir, of) }, now)
	return list, failure.With(failure.Unavailable, err)
}

// StatusInFolder returns the status of an evaluation in an output folder when no Redis is
// reachable.
func StatusInFolder(dir string, of results.Listed) record.Status {
	switch busy := outdir.InUse(dir); {
	case !of.Cancelled.IsZero() && !busy:
		return record.StatusCancelled
	case !of.Finished.IsZero():
		return record.StatusDone
	case busy:
		return view.StatusRunning
	case of.Stopped != nil:
		return view.StatusStopped
	}
	return view.StatusInterrupted
}
