package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// Both forms of the block, in both places of both files: what the evaluation's own
// retry says is strongest, then its concurrency.retry, then the fleet's in turn.
func TestRetry(t *testing.T) {
	t.Parallel()
	const seconds = time.Second
	for name, c := range map[string]struct {
		fleet, evaluation string
		want              record.Retry
	}{
		"nothing": {"", "", record.DefaultRetry},
		"file runs": {"", "concurrency: {retry: {max_retries: 5, base_delay_ms: 500, max_delay_ms: 60000, jitter: full}}",
			record.Retry{MaxAttempts: 5, InitialDelay: seconds / 2, MaxDelay: 60 * seconds, FullJitter: true}},
		"no jitter": {"", "concurrency: {retry: {jitter: none}}",
			record.Retry{MaxAttempts: 3, InitialDelay: seconds, MaxDelay: 60 * seconds}},
		"bounded": {"", "retry: {max_attempts: 4, initial_delay: 2s, max_delay: 9s, jitter: 0s}",
			record.Retry{MaxAttempts: 4, InitialDelay: 2 * seconds, MaxDelay: 9 * seconds}},
		"both, the weaker last": {"", "retry: {max_attempts: 4, jitter: 1s}\nconcurrency: {retry: {max_retries: 5, base_delay_ms: 250, jitter: full}}",
			record.Retry{MaxAttempts: 4, InitialDelay: seconds / 4, MaxDelay: 60 * seconds, Jitter: seconds}},
		"full over a time": {"", "concurrency: {retry: {jitter: 1s}}\nretry: {jitter: full}",
			record.Retry{MaxAttempts: 3, InitialDelay: seconds, MaxDelay: 60 * seconds, FullJitter: true}},
		"the fleet's below": {"concurrency: {retry: {max_retries: 7, base_delay_ms: 1, jitter: full}}\nretry: {max_attempts: 8}",
			"concurrency: {retry: {base_delay_ms: 2}}",
			record.Retry{MaxAttempts: 8, InitialDelay: 2 * time.Millisecond, MaxDelay: 60 * seconds, FullJitter: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{}
			if c.fleet != "" {
				o.Fleet = fleet(t, c.fleet+"\n")
			}
			got := load(t, with(two, "eval.yaml", minimal+c.evaluation+"\n"), o).Settings.Retry
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
