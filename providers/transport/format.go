package transport

import (
	"cmp"
	"errors"
	"regexp"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

// formats remembers in which way each model of an endpoint accepts a schema; models differ behind a gateway. The zero
// value knows nothing yet. It is safe for concurrent use.
type formats struct {
	mu      sync.Mutex
	learned map[string]providers.JSON // by model; absent: the known way, or providers.JSONSchema
}

// of returns the way in which model is asked now. known is the way known from elsewhere; it applies until the endpoint
// refuses it.
func (f *formats) of(model string, known providers.JSON) providers.JSON {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current(model, known)
}

func (f *formats) current(model string, known providers.JSON) providers.JSON {
	if format, ok := f.learned[model]; ok && known != providers.JSONNone {
		return format
	}
	return cmp.Or(known, providers.JSONSchema)
}

// learn learns from err, the failure of a call that asked for its schema in the given way, and returns the error for
// the caller. If many calls fail together, one moves the model to the next way and all must repeat.
func (f *formats) learn(model string, known, asked providers.JSON, err error) error {
	var failed *providers.Error
	if asked == providers.JSONNone || !errors.As(err, &failed) || !refusesFormat(failed) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current(model, known) == asked {
		if f.learned == nil {
			f.learned = map[string]providers.JSON{}
		}
		f.learned[model] = map[providers.JSON]providers.JSON{
			providers.JSONSchema: providers.JSONObject, providers.JSONObject: providers.JSONNone,
		}[asked]
	}
	failed.Err = providers.ErrAgain
	return failed
}

var (
	aboutFormat = regexp.MustCompile(`(?i)response[_ ]format|text\.format|output_format|output_config(?:\.format|: ` +
		`extra)|json[_ ](?:schema|object|mode)|structured[_ ]outputs?|guided[_ ](?:json|decoding)|grammar`)
	// A gateway's message when no upstream of the model accepts all parameters.
	unrouted = regexp.MustCompile(`(?i)no endpoints found that can handle the requested parameters`)
)

// refusesFormat reports whether the request was rejected with a message about structured output.
func refusesFormat(err *providers.Error) bool {
	switch err.Class {
	case providers.BadRequest:
		return aboutFormat.MatchString(err.Code + " " + err.Message)
	case providers.ModelUnavailable:
		return unrouted.MatchString(err.Message)
	}
	return false
}
