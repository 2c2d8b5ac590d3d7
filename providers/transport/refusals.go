package transport

import (
	"errors"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

// Refusals remembers the models of an endpoint that refused a part of a request, which later requests leave out. The zero
// value knows none. It is safe for concurrent use.
type Refusals struct {
	mu     sync.Mutex
	models map[string]bool
}

// Has reports whether a model has refused the part.
func (r *Refusals) Has(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[model]
}

// Learn learns from err, the failure of a call of a model whose request had the part. If refused reports that the failure
// is a refusal of the part, providers.ErrAgain is in the chain of the returned error, and Has is true from then on.
func (r *Refusals) Learn(model string, err error, refused func(*providers.Error) bool) error {
	var failed *providers.Error
	if !errors.As(err, &failed) || !refused(failed) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.models == nil {
		r.models = map[string]bool{}
	}
	r.models[model] = true
	failed.Err = providers.ErrAgain
	return failed
}
