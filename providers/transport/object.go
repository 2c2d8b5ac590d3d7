package transport

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
)

// Unbilled corrects the error of a request that no call of a model can follow from.
func Unbilled(err error) error {
	var failed *providers.Error
	if errors.As(err, &failed) {
		failed.MayBeBilled = false
	}
	return err
}

// AboutObject corrects the error of a request about an object that the provider keeps. If the provider does not know it,
// the class is Lost. A web page says nothing about the object.
func AboutObject(err error) error {
	var failed *providers.Error
	if errors.As(err, &failed) && failed.Status == http.StatusNotFound {
		failed.Class = providers.Lost
		if bytes.HasPrefix(bytes.TrimSpace(failed.Raw), []byte("<")) {
			failed.Class = providers.Transient
		}
	}
	return Unbilled(err)
}

// Ended returns the error of a request to cancel a batch. If the provider refused it, the batch is polled once: one that
// is being cancelled, has ended, or is unknown, counts as cancelled.
func Ended(err error, poll func() (providers.BatchState, error)) error {
	var failed *providers.Error
	if errors.As(err, &failed) && failed.Status/100 == 4 {
		state, unknown := poll()
		if unknown == nil && (state.Ended || state.Cancelling) || unknown != nil && providers.ClassOf(unknown) == providers.Lost {
			return nil
		}
	}
	return err
}
