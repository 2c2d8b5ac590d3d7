package eventlog

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// TestLoggedEventHasTheFieldsOfItsJSON compares the line of a log with the event as JSON, for
// an event that has every field and for one that has as few as possible.
func TestLoggedEventHasTheFieldsOfItsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	slots, status, most := int64(7), 429, 1.5
	all := observe.Event{
		Time: at, Event: observe.EventAcquired, Evaluation: "ev-abcdefghijkl", RunID: "0.12", Provider: "p", Account: "p/a", Model: "m",
		Agent: "critic", Dimension: "style", Worker: "w", QueueDepth: 3, ActiveSlots: &slots, Attempt: 2, StatusCode: &status,
		DelayS: .25, TimeoutS: 30, ElapsedS: 1.75, Class: "rate_limited", Message: "why",
		Fell: &record.Fell{Original: "p:m", Fallback: "p:n", Reason: "wait", WaitS: 2.5, MaxWaitS: &most, Retries: 4, At: at},
	}
	var none int64
	for name, event := range map[string]observe.Event{
		"all fields": all,
		"no bounds":  {Event: observe.EventFailed + "_", ActiveSlots: &none, Fell: &record.Fell{}},
		"few fields": {Event: observe.EventReleased},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			Log(zerolog.New(&out), true, event)
			got := decoded(t, out.Bytes())
			raw, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			want := decoded(t, raw)
			delete(want, "time") // the logger adds its own
			delete(got, "level")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields (-JSON +log):\n%s", diff)
			}
			fields := 0
			for _, field := range reflect.VisibleFields(reflect.TypeFor[observe.Event]()) {
				if !field.Anonymous && field.Name != "Time" {
					fields++
				}
			}
			if name == "all fields" && len(got) != fields {
				t.Errorf("%d fields are logged, want all %d of an event: set new ones in this test, and log them", len(got), fields)
			}
		})
	}
}

func decoded(t *testing.T, raw []byte) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return fields
}
