package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/evalfleet/evalfleet/eval"
)

// mostSteps bounds how often parts of a schema are applied to one text. A schema of a few lines could otherwise take
// years, because each of its parts may refer to the next one twice.
const mostSteps = 100_000

// conforms returns the test for JSON that conforms to a schema. References to other files and addresses are refused.
func conforms(schema string) (Test, error) {
	if len(schema) > MaxSchema {
		return nil, fmt.Errorf("the schema has %d bytes: at most %d are allowed", len(schema), MaxSchema)
	}
	parsed, err := readJSON(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	const name = "schema.json"
	count := &steps{}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nothing{})
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "urn:evalfleet:steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return count, nil },
	})
	compiler.AssertVocabs()
	if err := compiler.AddResource(name, parsed); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return nil, err
	}

	return func(text string, _ eval.Item) (why string, passed bool) {
		value, err := readJSON(text)
		if err != nil {
			return "it is not JSON: " + err.Error(), false
		}
		defer func() {
			switch fault := recover(); fault {
			case nil:
			case errSteps:
				why, passed = errSteps.Error(), false
			default:
				panic(fault)
			}
		}()
		count.n = 0
		var invalid *jsonschema.ValidationError
		if errors.As(compiled.Validate(value), &invalid) {
			return shortest(invalid), false
		}
		return "", true
	}, nil
}

// readJSON reads a text that is one JSON value. Numbers are floating-point: those of any size would take as much
// memory as they say.
func readJSON(text string) (value any, err error) {
	err = json.Unmarshal([]byte(text), &value)
	return value, err
}

var errSteps = errors.New("the schema takes too long")

// steps counts how often parts of a schema are applied.
type steps struct{ n int }

// Validate implements jsonschema.SchemaExt.
func (s *steps) Validate(*jsonschema.ValidatorContext, any) {
	if s.n++; s.n > mostSteps {
		panic(errSteps)
	}
}

// nothing loads no schema.
type nothing struct{}

// Load implements jsonschema.URLLoader.
func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another file: put everything into one schema", url)
}

// shortest returns the first of the deepest reasons why a value is not valid, in one line.
func shortest(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	e = &jsonschema.ValidationError{SchemaURL: e.SchemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind}
	_, reason, _ := strings.Cut(e.Error(), "\n- ")
	if reason == "" {
		reason = e.Error()
	}
	return strings.Join(strings.Fields(reason), " ")
}
