package results

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// The settings in the manifest have durations that people can read, wherever they are.
func TestDurationsOfTheManifestAreReadable(t *testing.T) {
	t.Parallel()
	settings := record.Settings{
		Retry:    record.Retry{MaxAttempts: 3, InitialDelay: time.Second, MaxDelay: time.Minute, Jitter: 500 * time.Millisecond},
		Timeouts: map[string]time.Duration{"": 10 * time.Minute, "openai": 90 * time.Second},
		Limits:   []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Requests, Max: 500, Period: time.Minute}},
		Fallback: &record.Fallback{MaxWait: 5 * time.Minute},
	}
	raw, err := json.Marshal(readable{settings})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Retry struct {
			MaxAttempts  int    `json:"max_attempts"`
			InitialDelay string `json:"initial_delay"`
			MaxDelay     string `json:"max_delay"`
			Jitter       string `json:"jitter"`
		} `json:"retry"`
		Timeouts map[string]string `json:"timeouts"`
		Limits   []map[string]any  `json:"limits"`
		Fallback map[string]any    `json:"fallback"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if r := got.Retry; r.MaxAttempts != 3 || r.InitialDelay != "1s" || r.MaxDelay != "1m0s" || r.Jitter != "500ms" ||
		got.Timeouts[""] != "10m0s" || got.Timeouts["openai"] != "1m30s" {
		t.Errorf("got %s", raw)
	}
	for _, in := range []map[string]any{got.Limits[0], got.Fallback} {
		for name, value := range in {
			if n, ok := value.(float64); ok && n >= 1e6 {
				t.Errorf("%s is %v, as nanoseconds are: %s", name, value, raw)
			}
		}
	}
}
