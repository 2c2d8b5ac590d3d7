package trouble

import (
	"errors"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
)

// Kind says what a failed call is evidence of.
type Kind int

// The kinds of failure.
const (
	OfRequest  Kind = iota // the provider answered, about this request or its pace
	OfProvider             // it answered that it cannot serve, or not at all
	OfAccount              // the key or the account was refused
	OfWay                  // the call did not reach the provider
	OfProcess              // this process or machine could not make a connection
	OfNothing              // the call was ended for a reason of this program's
)

// KindOf returns the kind of a failed call.
func KindOf(failed *providers.Error) Kind {
	switch {
	case errors.Is(failed, providers.ErrExhausted):
		return OfProcess
	case errors.Is(failed, providers.ErrUnreached) && failed.Class == providers.Transient:
		return OfWay
	}
	switch failed.Class {
	case providers.Cancelled, providers.Lost:
		return OfNothing
	case providers.Transient:
		if failed.Status/100 == 2 { // an answer that is not understood will not be later, either
			return OfRequest
		}
		return OfProvider
	case providers.Overloaded, providers.Timeout:
		return OfProvider
	case providers.Auth, providers.QuotaBilling:
		return OfAccount
	}
	return OfRequest
}

// saysDown reports whether one answer suffices to show that the provider is down, where none
// has been served lately. An internal error may be the request's.
func saysDown(failed *providers.Error) bool {
	switch failed.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return failed.Class == providers.Overloaded
}
