package call

import (
	"reflect"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// TestKeyHasAllThatIsAsked: a new field of a request must be classified as part of the key or
// not.
func TestKeyHasAllThatIsAsked(t *testing.T) {
	t.Parallel()
	notAsked := []string{
		"Key", "Ready", "Connected", "IdempotencyID", "Prefixes", "CacheKey",
		"LogProbs", // with it, there is no key
	}
	has := reflect.TypeFor[keyed]()
	for field := range fieldsOf(reflect.TypeFor[providers.Request]()) {
		if _, ok := has.FieldByName(field); ok == slices.Contains(notAsked, field) {
			t.Errorf("Request.%s: in the key: %t", field, ok)
		}
	}
}

func fieldsOf(of reflect.Type) map[string]bool {
	fields := map[string]bool{}
	for i := range of.NumField() {
		fields[of.Field(i).Name] = true
	}
	return fields
}
