package conformance

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// faithful fails for every difference between an answer and its SDK's specification: a required field that is missing,
// a field of another type, or one that the SDK does not know. decoded is a type of the OpenAI or the Anthropic SDK,
// which report the JSON received for each field. except has the reasons why some fields may differ.
func faithful(t *testing.T, decoded any, except reasons) {
	t.Helper()
	for _, p := range unfaithful("answer", reflect.ValueOf(decoded)) {
		if !except.about(p.place) {
			t.Errorf("%s %s", p.place, p.is)
		}
	}
}

// problem is what is wrong in a place of an answer.
type problem struct{ place, is string }

func unfaithful(place string, v reflect.Value) (problems []problem) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return []problem{{place, "is of a kind that the SDK does not know"}}
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			problems = append(problems, unfaithful(fmt.Sprintf("%s.%d", place, i), v.Index(i))...)
		}
		return problems
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	if variant := v.MethodByName("AsAny"); variant.IsValid() { // one of several types
		return unfaithful(place, variant.Call(nil)[0])
	}
	came := v.FieldByName("JSON")
	if !came.IsValid() {
		return nil
	}
	if extra := came.FieldByName("ExtraFields"); extra.IsValid() {
		for _, name := range extra.MapKeys() {
			problems = append(problems, problem{fmt.Sprintf("%s.%s", place, name), "is not known"})
		}
	}
	for i := range v.NumField() {
		problems = append(problems, unfaithfulField(place, v.Type().Field(i), v.Field(i), came)...)
	}
	return problems
}

func unfaithfulField(place string, field reflect.StructField, value, came reflect.Value) []problem {
	meta := came.FieldByName(field.Name)
	if !meta.IsValid() {
		return nil
	}
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	place += "." + name
	constant, fixed := field.Tag.Lookup("default")
	what := meta.Interface().(interface {
		Raw() string
		Valid() bool
	})
	switch raw := what.Raw(); {
	case raw == "":
		if fixed || strings.Contains(field.Tag.Get("api"), "required") {
			return []problem{{place, "is missing"}}
		}
		return nil
	case raw == "null":
		return nil
	case !what.Valid() || !fits(field.Type.Kind(), raw): // the SDKs read "1" as a number
		return []problem{{place, fmt.Sprintf("is %s, which is not a %s", raw, field.Type)}}
	case fixed && value.String() != constant:
		return []problem{{place, fmt.Sprintf("is %q, want %q", value, constant)}}
	}
	return unfaithful(place, value)
}

// fits reports whether raw JSON is of a field's kind.
func fits(kind reflect.Kind, raw string) bool {
	switch kind {
	case reflect.String:
		return raw[0] == '"'
	case reflect.Bool:
		return raw == "true" || raw == "false"
	case reflect.Int64, reflect.Float64:
		return strings.Trim(raw, "-+.eE0123456789") == ""
	case reflect.Slice:
		return raw[0] == '['
	}
	return true
}
