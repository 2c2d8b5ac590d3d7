package dial

import (
	"os"
	"strings"
	"testing"
)

// TestPageHasTheRights checks that the lines of rights in docs/redis.md are those that
// are asked for.
func TestPageHasTheRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for user, role := range map[string]Role{"evalfleet": Controller, "worker": Worker, "submitter": Submitter, "viewer": Viewer} {
		if want := "\nACL SETUSER " + user + " on >PASSWORD " + Rights("ef", role) + "\n"; !strings.Contains(string(page), want) {
			t.Errorf("docs/redis.md has not the line%s", want)
		}
	}
}
