package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log of events can have a line without end, which is skipped, and calls without end, which
// are refused.
func TestEventsOfAReceivedFolderAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	call := func(run int) string {
		return fmt.Sprintf(`{"event":"acquired","time":"2026-01-01T00:00:00Z","run_id":"%d"}`+"\n", run)
	}
	long := strings.Repeat("x", 1<<20) + `"acquired"` + "\n"
	if err := os.WriteFile(path, []byte(call(1)+long+call(2)), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := OpenOwn(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if n := strings.Count(string(text), `"released"`); err != nil || n != 2 {
		t.Errorf("%d calls are released, %v; want 2", n, err)
	}
	var calls strings.Builder
	for run := range mostAcquired + 1 {
		calls.WriteString(call(run))
	}
	if err := os.WriteFile(path, []byte(calls.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOwn(path); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Errorf("of %d calls in flight: got %v, want an error", mostAcquired+1, err)
	}
}
