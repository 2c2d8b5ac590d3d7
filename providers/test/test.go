// Package test is the API "test" of experiment files: it answers every request with the same sentence, or fails,
// without a network, a key or a cost.
//
// It judges nothing, so as a judge it gives no verdicts; package simulator has judges. Unlike its model in the tool
// that the files come from, it takes no time to answer.
package test

import (
	"context"
	"math/rand/v2"

	"github.com/evalfleet/evalfleet/providers"
)

// Its output, word for word as the tool that the files come from.
const (
	Response = "This is a test response"
	Failure  = "This is a test error which we should handle and return"
)

// The request's parameters that decide whether a call fails, and with which kind of failure.
const (
	raiseError     = "raise_error"
	raiseErrorType = "raise_error_type"
)

// Provider answers without an endpoint. It is safe for concurrent use.
type Provider struct{}

// Call answers or fails according to the parameter raise_error: "True" or "yes", "False" or "no". Without it, one call
// in five fails, at random. The class of a failure is BadRequest, which is not retried, or Transient, which is, if the
// parameter raise_error_type is "Exception". Requested search or reasoning appears in the result.
func (Provider) Call(ctx context.Context, req *providers.Request) (*providers.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, &providers.Error{Class: providers.ClassOf(err), Message: err.Error(), Err: err}
	}
	if fails(req.Extra[raiseError]) {
		failure := &providers.Error{Class: providers.BadRequest, Message: Failure}
		if req.Extra[raiseErrorType] == "Exception" {
			failure.Class = providers.Transient
		}
		return nil, failure
	}
	result := &providers.Result{
		Text: Response, Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, CostUSD: new(float64)}, Model: req.Model,
	}
	if req.Search {
		result.Grounding.Queries = []string{Response}
	}
	if req.Reason {
		result.Reasoning = Response
	}
	return result, nil
}

func fails(asked any) bool {
	switch asked {
	case "True", "yes", true:
		return true
	case "False", "no", false:
		return false
	}
	return rand.IntN(5) == 0
}
