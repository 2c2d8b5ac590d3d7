// Package fleet gives commands and pages access to evaluations in the Redis of a fleet: it submits,
// collects, steers and reads them. Package local runs an evaluation in one process instead.
//
// It does not read command lines: connections, folders and results stores that this user may open
// are passed in.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/plain"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Connection is a connection to a fleet's Redis, with the places for the results of its
// evaluations.
type Connection struct {
	Store *store.Store
	// Again is the command that submits the evaluation again.
	Again string
	// Dir is the output folder; empty: each evaluation's default one.
	Dir string
	// Place says where files outside the output folder are written.
	Place results.Place
	// ResultsURL is the results store as the user named it, with its password; empty: the one in the
	// record.
	ResultsURL string
	Allowed    Stores
	// Ended receives the report of each evaluation that Collect has collected to its end, its output folder, and the files
	// written there. nil: no calls.
	Ended  func(built *report.Report, dir string, files []string) error
	Screen plain.Screen // shows progress
	Log    zerolog.Logger
}

// Close ends the connection.
func (f *Connection) Close() error { return f.Store.Close() }

// Collector collects evaluations, each into the results store of its output folder.
func (f *Connection) Collector() *collect.Collector {
	return &collect.Collector{
		Store: f.Store, Log: f.Log, Open: f.Open, Watch: f.watch,
		Allow:   func(r record.Evaluation) error { _, err := f.Allowed.Of(r); return failure.With(failure.Usage, err) },
		Refused: concernsOne,
	}
}

// concernsOne reports whether an error of opening a results store concerns one evaluation alone, so that the others can
// be collected.
func concernsOne(err error) bool {
	for _, alone := range []error{ErrForeignStore, outdir.ErrInUse, results.ErrOtherStore} {
		if errors.Is(err, alone) {
			return true
		}
	}
	return false
}

// Enqueuer submits and steers evaluations.
func (f *Connection) Enqueuer() *enqueue.Enqueuer { return f.Collector().Enqueuer() }

// Limits administers the limits of evaluations.
func (f *Connection) Limits() *ratelimit.Admin { return f.Collector().Limits() }

// View returns the fleet for use by package view.
func (f *Connection) View() view.Redis { return view.Redis{Store: f.Store, Limits: f.Limits()} }

// FolderOf returns the output folder of an evaluation.
func (f *Connection) FolderOf(r record.Evaluation) string {
	return cmp.Or(f.Dir, outdir.Default(r.Name, r.ID))
}

// Open opens the results store of an evaluation and holds its output folder.
func (f *Connection) Open(ctx context.Context, r record.Evaluation) (results.Store, error) {
	named, err := f.Allowed.Of(r)
	if err != nil {
		return nil, failure.With(failure.Usage, err)
	}
	out, err := outdir.Open(f.FolderOf(r))
	if err != nil {
		return nil, err
	}
	url := cmp.Or(f.ResultsURL, named)
	if _, err := os.Stat(out.Path(outdir.ResultsFile)); url == "" && r.ResultsID != "" && errors.Is(err, fs.ErrNotExist) {
		out.Undo()
		_ = out.Close()
		return nil, elsewhere(r)
	}
	db, err := out.OpenStore(ctx, url)
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	return outdir.HeldStore{Store: db, Folder: out}, nil
}

// ErrElsewhere means that the results of an evaluation are in an output folder that was not named.
var ErrElsewhere = fmt.Errorf("%w, in the folder of the command that collects it", results.ErrOtherStore)

// elsewhere returns the error for an evaluation whose results are in another results store.
func elsewhere(r record.Evaluation) error { return failure.Usagef("%s: %w", r.ID, ErrElsewhere) }

// watch shows an evaluation's progress until the function that it returns is called.
func (f *Connection) watch(r record.Evaluation) (collect.Observer, func()) {
	watch := plain.NewProgress(f.Screen, r)
	ctx, stop := context.WithCancel(context.Background())
	var shown sync.WaitGroup
	shown.Go(func() { watch.Show(ctx) })
	return watch, func() {
		stop()
		shown.Wait()
	}
}

// Reader opens the results store of an evaluation in Redis for reading.
func (f *Connection) Reader(ctx context.Context, id eval.ID) (results.Reader, eval.ID, string, error) {
	r, err := f.Store.Evaluation(ctx, id)
	if err != nil {
		return nil, "", "", failure.With(failure.Usage, err)
	}
	url, err := f.storeOf(r)
	if err != nil {
		return nil, "", "", err
	}
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, "", "", failure.With(failure.Unavailable, fmt.Errorf("%w; run `evalfleet collect %s` to get its results here", err, id))
	}
	return reader, id, f.FolderOf(r), nil
}

// OpenStore opens the results store of an evaluation for writing, if it exists and has the evaluation.
func (f *Connection) OpenStore(ctx context.Context, id eval.ID) (results.Store, error) {
	reader, _, _, err := f.Reader(ctx, id)
	if err != nil {
		return nil, err
	}
	_, err = reader.Evaluation(ctx, id)
	_ = reader.Close()
	if err != nil {
		return nil, outdir.StoreError(err)
	}
	r, err := f.Store.Evaluation(ctx, id)
	if err != nil {
		return nil, err
	}
	url, err := f.storeOf(r)
	if err != nil {
		return nil, err
	}
	return results.Open(ctx, url)
}

// storeOf returns the results store of an evaluation: the one that its record names, or else the one
// in its output folder.
func (f *Connection) storeOf(r record.Evaluation) (url string, err error) {
	if url, err = f.Allowed.Of(r); err != nil || url != "" {
		return url, failure.With(failure.Usage, err)
	}
	url = filepath.Join(f.FolderOf(r), outdir.ResultsFile)
	if _, err := os.Stat(url); r.ResultsID != "" && errors.Is(err, fs.ErrNotExist) {
		return "", elsewhere(r)
	}
	return url, nil
}

// ErrForeignStore means that an evaluation in Redis names a results store that the local user
// has not named. Anyone who may enqueue can write that name, and opening the store would give
// it this user's password.
var ErrForeignStore = errors.New("its results store is not allowed here")

// Stores lists the results stores that evaluations in Redis may name, in the form of
// outdir.SavedURL.
type Stores []string

// Of returns the results store that an evaluation's record names; empty: none. The error is
// ErrForeignStore if the store is not in a.
func (a Stores) Of(r record.Evaluation) (string, error) {
	if r.ResultsURL == "" {
		return "", nil
	}
	if saved, err := outdir.SavedURL(r.ResultsURL); err == nil && slices.Contains(a, saved) {
		return r.ResultsURL, nil
	}
	return "", fmt.Errorf("%s: %w: %q", r.ID, ErrForeignStore, outdir.PublicURL(r.ResultsURL))
}
