package transport

import (
	"cmp"
	"errors"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

func refusedFormat() error {
	return &providers.Error{Class: providers.BadRequest, Message: "This response_format type is unavailable now"}
}

func TestFormatsAreLearntStepByStep(t *testing.T) {
	t.Parallel()
	var formats formats
	for _, step := range []struct{ asked, next providers.JSON }{
		{providers.JSONSchema, providers.JSONObject},
		{providers.JSONSchema, providers.JSONObject}, // an older call, refused late
		{providers.JSONObject, providers.JSONNone},
		{providers.JSONSchema, providers.JSONNone}, // older still
	} {
		if err := formats.learn("m1", providers.JSONAuto, step.asked, refusedFormat()); !errors.Is(err, providers.ErrAgain) {
			t.Errorf("%q refused: got %v, want ErrAgain", step.asked, err)
		}
		if got := formats.of("m1", providers.JSONAuto); got != step.next {
			t.Errorf("after %q was refused: got %q, want %q", step.asked, got, step.next)
		}
	}
	if got := formats.of("m2", providers.JSONAuto); got != providers.JSONSchema {
		t.Errorf("another model: got %q, want %q", got, providers.JSONSchema)
	}
	if got := formats.of("m2", providers.JSONObject); got != providers.JSONObject {
		t.Errorf("a way that is known: got %q, want %q", got, providers.JSONObject)
	}
}

func TestManyCallsLearnOneStepTogether(t *testing.T) {
	t.Parallel()
	var formats formats
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := formats.learn("m1", providers.JSONAuto, providers.JSONSchema, refusedFormat()); !errors.Is(err, providers.ErrAgain) {
				t.Errorf("got %v, want ErrAgain", err)
			}
		})
	}
	wg.Wait()
	if got := formats.of("m1", providers.JSONAuto); got != providers.JSONObject {
		t.Errorf("got %q, want %q", got, providers.JSONObject)
	}
}

func TestWhatTeachesAFormat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		known, asked providers.JSON
		err          error
		again        bool
	}{
		// DeepSeek's words, vLLM's, and those of the Responses API.
		{"no json_schema", providers.JSONAuto, providers.JSONSchema, refusedFormat(), true},
		{"no grammar", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.BadRequest, Message: "Grammar error: unimplemented keys"}, true},
		{"no text.format", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.BadRequest, Message: "Invalid parameter: not supported with this model. (text.format)"}, true},
		// https://github.com/anthropics/anthropic-sdk-csharp/issues/132
		{"no output_config", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.BadRequest, Message: "output_config: Extra inputs are not permitted"}, true},
		{"another part of output_config", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.BadRequest, Message: "output_config.effort: this model does not support it"}, false},
		// https://openrouter.ai/docs/guides/routing/provider-selection
		{"no upstream", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.ModelUnavailable, Message: "No endpoints found that can handle the requested parameters."}, true},
		{"no model", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.ModelUnavailable, Message: "No endpoints found for json-object-7b."}, false},
		{"another field", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.BadRequest, Message: "temperature must be at most 2"}, false},
		{"another class", providers.JSONAuto, providers.JSONSchema, &providers.Error{Class: providers.Overloaded, Message: "json_schema queue is full"}, false},
		{"no schema was sent", providers.JSONAuto, providers.JSONNone, refusedFormat(), false},
		// https://github.com/agentjido/req_llm/issues/302
		{"what is known was wrong", providers.JSONSchema, providers.JSONSchema, &providers.Error{Class: providers.BadRequest, Message: "output_format.schema: For 'integer' type, property 'minimum' is not supported"}, true},
		{"a known object was wrong", providers.JSONObject, providers.JSONObject, refusedFormat(), true},
		{"known to have none", providers.JSONNone, providers.JSONNone, refusedFormat(), false},
		{"not a provider's error", providers.JSONAuto, providers.JSONSchema, errors.New("json_schema"), false},
	} {
		var formats formats
		err := formats.learn("m1", test.known, test.asked, test.err)
		if got := errors.Is(err, providers.ErrAgain); got != test.again {
			t.Errorf("%s: got %v, want ErrAgain: %v", test.name, err, test.again)
		}
		if got := formats.of("m1", test.known) != cmp.Or(test.known, providers.JSONSchema); got != test.again {
			t.Errorf("%s: learnt: got %v, want %v", test.name, got, test.again)
		}
	}
}
