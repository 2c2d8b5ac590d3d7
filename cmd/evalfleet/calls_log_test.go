package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The log of a worker says when each call was admitted and ended, so
// that the calls in flight can be counted from it; with --events or from level warn up, it
// does not.
func TestWorkersLogTheirCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		logs bool
	}{
		"at the default level": {[]string{"--log-level", "info"}, true},
		"to a file":            {[]string{"--log-level", "info", "--events", "events.jsonl"}, false},
		"only warnings":        {[]string{"--log-level", "warn"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleetLimited(t, 3, calm)
			f.documents(3)
			f.file = f.evaluation("calls", "simulator:careful", 3, 3)
			worker := f.program(append([]string{"worker", "--config", "fleet.yaml"}, c.args...)...)
			if code := f.enqueueAndWait().wait(); code != 0 {
				t.Fatalf("it ended with %d", code)
			}
			worker.signal(syscall.SIGTERM)
			worker.wait()
			inFlight, most, events := 0, 0, map[string]int{}
			for line := range strings.Lines(worker.stderr.String()) {
				var e struct{ Event, Level string }
				if json.Unmarshal([]byte(line), &e) != nil || e.Event == "" {
					continue
				}
				events[e.Event+" "+e.Level]++
				switch e.Event {
				case "acquired":
					inFlight++
				case "released":
					inFlight--
				}
				most = max(most, inFlight)
			}
			calls := f.stats().All.Answered
			want := map[string]int{}
			if c.logs {
				want = map[string]int{"queueing info": calls, "acquired info": calls, "released info": calls}
			}
			if diff := cmp.Diff(want, events); diff != "" || c.logs && (inFlight != 0 || most < 1 || most > 3) {
				t.Errorf("%d calls; events (-want +got):\n%s%d at most and %d at last in flight, want 1 to 3, and 0", calls, diff, most, inFlight)
			}
		})
	}
}
