package chat

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

func validate(j providers.JSON) error {
	switch j {
	case providers.JSONAuto, providers.JSONSchema, providers.JSONObject, providers.JSONNone:
		return nil
	}
	return fmt.Errorf("json: %q: want schema, object or none", string(j))
}

// responseFormat is the body's response_format; nil: none.
func responseFormat(j providers.JSON, schema *providers.Schema) any {
	switch {
	case schema == nil:
		return nil
	case j == providers.JSONSchema:
		return map[string]any{
			"type":        "json_schema",
			"json_schema": map[string]any{"name": schema.Name, "schema": schema.Schema, "strict": true},
		}
	case j == providers.JSONObject:
		return map[string]any{"type": "json_object"}
	}
	return nil
}

// formats knows which way each model of the endpoint takes; models differ behind
// a gateway.
type formats struct {
	fixed providers.JSON // providers.JSONAuto: found out

	mu      sync.Mutex
	learned map[string]providers.JSON // by model; absent: providers.JSONSchema
}

// of is the way in which req is asked now.
func (f *formats) of(req *providers.Request) providers.JSON {
	switch {
	case req.Schema == nil:
		return providers.JSONNone
	case f.fixed != providers.JSONAuto:
		return f.fixed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current(req.Model)
}

func (f *formats) current(model string) providers.JSON {
	if format, ok := f.learned[model]; ok {
		return format
	}
	return providers.JSONSchema
}

// learn takes err, the failure of a call that was asked in the given way, and
// returns what the caller is told. Of many calls that fail together one moves the
// model on and all are told to repeat.
func (f *formats) learn(model string, asked providers.JSON, err error) error {
	var failed *providers.Error
	if f.fixed != providers.JSONAuto || asked == providers.JSONNone || !errors.As(err, &failed) || !refusesFormat(failed) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current(model) == asked {
		if f.learned == nil {
			f.learned = map[string]providers.JSON{}
		}
		f.learned[model] = map[providers.JSON]providers.JSON{providers.JSONSchema: providers.JSONObject, providers.JSONObject: providers.JSONNone}[asked]
	}
	failed.Err = providers.ErrAgain
	return failed
}

var aboutFormat = regexp.MustCompile(`(?i)response[_ ]format|json[_ ](?:schema|object|mode)|structured[_ ]outputs?|guided[_ ](?:json|decoding)|grammar`)

// refusesFormat: the request was rejected, and what the endpoint says of it is
// about structured output.
func refusesFormat(err *providers.Error) bool {
	return err.Class == providers.BadRequest && aboutFormat.MatchString(err.Code+" "+err.Message)
}
