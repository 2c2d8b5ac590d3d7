package chat

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

// JSON is a way of asking for structured output.
type JSON string

// The ways. What the schema asks must stand in the prompt for all but JSONSchema,
// and does no harm there.
const (
	JSONAuto   JSON = ""       // JSONSchema until the endpoint refuses it, then JSONObject, then JSONNone
	JSONSchema JSON = "schema" // response_format json_schema, strict
	JSONObject JSON = "object" // response_format json_object
	JSONNone   JSON = "none"   // the prompt alone
)

func (j JSON) validate() error {
	switch j {
	case JSONAuto, JSONSchema, JSONObject, JSONNone:
		return nil
	}
	return fmt.Errorf("json: %q: want schema, object or none", string(j))
}

// responseFormat is the body's response_format; nil: none.
func (j JSON) responseFormat(schema *providers.Schema) any {
	switch {
	case schema == nil:
		return nil
	case j == JSONSchema:
		return map[string]any{
			"type":        "json_schema",
			"json_schema": map[string]any{"name": schema.Name, "schema": schema.Schema, "strict": true},
		}
	case j == JSONObject:
		return map[string]any{"type": "json_object"}
	}
	return nil
}

// formats knows which way each model of the endpoint takes; models differ behind
// a gateway.
type formats struct {
	fixed JSON // JSONAuto: found out

	mu      sync.Mutex
	learned map[string]JSON // by model; absent: JSONSchema
}

// of is the way in which req is asked now.
func (f *formats) of(req *providers.Request) JSON {
	switch {
	case req.Schema == nil:
		return JSONNone
	case f.fixed != JSONAuto:
		return f.fixed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current(req.Model)
}

func (f *formats) current(model string) JSON {
	if format, ok := f.learned[model]; ok {
		return format
	}
	return JSONSchema
}

// learn takes err, the failure of a call that was asked in the given way, and
// returns what the caller is told. Of many calls that fail together one moves the
// model on and all are told to repeat.
func (f *formats) learn(model string, asked JSON, err error) error {
	var failed *providers.Error
	if f.fixed != JSONAuto || asked == JSONNone || !errors.As(err, &failed) || !refusesFormat(failed) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current(model) == asked {
		if f.learned == nil {
			f.learned = map[string]JSON{}
		}
		f.learned[model] = map[JSON]JSON{JSONSchema: JSONObject, JSONObject: JSONNone}[asked]
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
