package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

// What is stored of an entry says that its key has a source, and not which: with it, an entry of another person could have
// a file sent, or a program run.
func TestKeySourcesAreNotStored(t *testing.T) {
	t.Parallel()
	for _, source := range []KeySource{{File: "/secret/file"}, {Command: []string{"secret", "program"}, Dir: "/secret"}} {
		e := Entry{Name: "p", Dialect: Chat, BaseURL: "http://h/v1", KeySource: &source, Accounts: []Account{{Name: "a", KeySource: &source}}}
		raw, err := json.Marshal(e)
		if err != nil || strings.Contains(string(raw), "secret") {
			t.Fatalf("stored as %s, %v; want nothing of the source", raw, err)
		}

		var stored Entry
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		for _, at := range append(stored.Each(), stored) {
			_, err := at.Credentials(func(string) (string, bool) { return "", false })
			if providers.ClassOf(err) != providers.Auth || !strings.Contains(err.Error(), "set --config") {
				t.Errorf("%s: got %v, want that --config says where the key is", at.Name, err)
			}
		}
		if _, err := e.Credentials(func(string) (string, bool) { return "", false }); err != nil {
			t.Errorf("with its source: %v", err)
		}
	}
}
