package outdir

import (
	"cmp"
	"context"
	"errors"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/results"
)

// ReadStore opens a results store and finds an evaluation in it: only, or the last one if only is
// empty.
func ReadStore(ctx context.Context, url string, only eval.ID) (results.Reader, eval.ID, error) {
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, "", StoreError(err)
	}
	listed, err := reader.Evaluations(ctx)
	if err == nil && len(listed) == 0 {
		err = failure.Usagef("%s contains no evaluation yet", url)
	}
	if err != nil {
		_ = reader.Close()
		return nil, "", err
	}
	return reader, cmp.Or(only, listed[len(listed)-1].ID), nil
}

// StoreIn finds the results store of an output folder. only is the folder's evaluation, if the store
// has others, too.
type StoreIn func() (url string, only eval.ID, err error)

// Read opens the results store that find returns, and finds its evaluation as ReadStore does.
func (find StoreIn) Read(ctx context.Context) (results.Reader, eval.ID, error) {
	url, only, err := find()
	if err != nil {
		return nil, "", err
	}
	return ReadStore(ctx, url, only)
}

// PublicURL returns the URL of a results store in a form that may be shown, without a password.
func PublicURL(url string) string {
	public, err := results.Public(url)
	if err != nil {
		return "(a URL with a password)"
	}
	return public
}

// StoreError gives an error its exit code: failure.Usage if the user has to name another results
// store, failure.Unavailable if this one cannot be used now.
func StoreError(err error) error {
	if errors.Is(err, results.ErrUnfit) || errors.Is(err, results.ErrOtherStore) {
		return failure.With(failure.Usage, err)
	}
	return failure.With(failure.Unavailable, err)
}

// OpenStore opens the results store of an evaluation, results.db in the folder if url is empty.
// After a failure, it removes what it has created, and the folder if that is new.
func (f *Folder) OpenStore(ctx context.Context, url string) (results.Store, error) {
	db, err := results.Open(ctx, cmp.Or(url, f.Path(ResultsFile)))
	if err != nil {
		f.Undo()
		return nil, StoreError(err)
	}
	return db, nil
}

// HeldStore is a results store and the output folder that is held for it.
type HeldStore struct {
	results.Store
	Folder *Folder
}

// Close closes both.
func (s HeldStore) Close() error { return errors.Join(s.Store.Close(), s.Folder.Close()) }
