package fleet

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Stored returns an evaluation as Redis has it, or else as its results store does; nil: neither does.
func (f *Connection) Stored(ctx context.Context, e *eval.Evaluation) (*eval.Evaluation, error) {
	id := e.ID()
	stored, err := f.Store.Questions(ctx, id)
	switch {
	case err == nil:
		return stored, nil
	case !errors.Is(err, store.ErrNoEvaluation):
		return nil, failure.With(failure.Unavailable, err)
	}
	return StoredAt(ctx, f.ownStore(record.Evaluation{ID: id, Name: e.Name}), id)
}

// ownStore returns the URL of the results store that this process submits an evaluation with.
func (f *Connection) ownStore(r record.Evaluation) string {
	return cmp.Or(f.ResultsURL, filepath.Join(f.FolderOf(r), outdir.ResultsFile))
}

// OpenStore opens the results store at a URL for reading. It returns nil if the store does not exist yet.
func OpenStore(ctx context.Context, url string) (results.Reader, error) {
	reader, err := results.OpenReadOnly(ctx, url)
	if errors.Is(err, results.ErrNoStore) {
		return nil, nil
	}
	return reader, outdir.StoreError(err)
}

// StoredAt returns an evaluation as the results store at a URL has it; nil: it does not, or there is none.
func StoredAt(ctx context.Context, url string, id eval.ID) (*eval.Evaluation, error) {
	reader, err := OpenStore(ctx, url)
	if err != nil || reader == nil {
		return nil, err
	}
	defer reader.Close()
	stored, err := reader.Evaluation(ctx, id)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, nil
	}
	return stored.Plan, outdir.StoreError(err)
}
