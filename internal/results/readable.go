package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// readable encodes a value as JSON in which durations are written as "1m30s" instead of
// nanoseconds.
type readable struct{ value any }

var durationType = reflect.TypeFor[time.Duration]()

func (r readable) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(r.value)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(withDurations(tree, reflect.TypeOf(r.value)))
}

// withDurations replaces the durations in tree, the JSON of a value of the type of.
func withDurations(tree any, of reflect.Type) any {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if number, ok := tree.(json.Number); ok && of == durationType {
		n, err := number.Int64()
		if err != nil {
			panic(fmt.Sprintf("results: duration %s: %v", number, err)) // cannot happen: this package encoded it
		}
		return time.Duration(n).String()
	}

	switch elements := tree.(type) {
	case []any:
		if of.Kind() == reflect.Slice || of.Kind() == reflect.Array {
			for i := range elements {
				elements[i] = withDurations(elements[i], of.Elem())
			}
		}
	case map[string]any:
		for key := range elements {
			switch of.Kind() {
			case reflect.Map:
				elements[key] = withDurations(elements[key], of.Elem())
			case reflect.Struct:
				if field, ok := fieldOf(of, key); ok {
					elements[key] = withDurations(elements[key], field)
				}
			}
		}
	}

	return tree
}

// fieldOf returns the type of a struct's field by the name that it has in JSON.
func fieldOf(of reflect.Type, name string) (reflect.Type, bool) {
	for _, field := range reflect.VisibleFields(of) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && (tag == name || tag == "" && field.Name == name) {
			return field.Type, true
		}
	}
	return nil, false
}
