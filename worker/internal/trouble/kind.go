package trouble

import (
	"errors"
	"net/http"

	"github.com/evalfleet/evalfleet/providers"
)

// Kind is what a failed call is evidence of.
type Kind int

// The kinds of failure.
const (
	OfRequest  Kind = iota // the provider answered, about this request or its pace
	OfProvider             // the provider answered that it cannot serve, or did not answer
	OfAccount              // the key or the account was refused
	OfWay                  // the call did not reach the provider
	OfProcess              // this process or machine could not make a connection
	OfNothing              // this program ended the call for a reason of its own
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
		if failed.Status/100 == 2 { // an unreadable answer will not become readable later
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

// saysDown reports whether one answer suffices to show that the provider is down, if it has served no call lately. An
// internal error may be caused by the request.
func saysDown(failed *providers.Error) bool {
	switch failed.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return failed.Class == providers.Overloaded
}
