package dial

import (
	"os"
	"strings"
	"testing"
)

// The line of rights in docs/redis.md is the one that is asked for.
func TestPageHasTheRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nACL SETUSER evalfleet on >PASSWORD " + Rights("ef") + "\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/redis.md has not the line%s", want)
	}
}
