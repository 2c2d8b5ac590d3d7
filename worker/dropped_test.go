package worker

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/providers"
)

// TestWhatIsDroppedIsRecordedAndSaidOnce: results say that their judge was not asked
// as its file has it, and one warning does, not one for every call.
func TestWhatIsDroppedIsRecordedAndSaidOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		result, err := firstWins(ctx, n, request)
		result.Dropped = []string{"temperature"}
		return result, err
	}})
	b.submit(3)
	var log bytes.Buffer
	cfg := b.config()
	cfg.Log = zerolog.New(zerolog.SyncWriter(&log))
	stop := b.start(cfg)
	b.wait()
	stop()
	_, calls := b.outcomes()
	for _, call := range calls {
		if !slices.Equal(call.Dropped, []string{"temperature"}) {
			t.Errorf("call %s: dropped %q, want temperature", call.ID, call.Dropped)
		}
	}
	if n := strings.Count(log.String(), "does not support these fields"); n != 1 || len(calls) < 2 {
		t.Errorf("%d calls led to %d warnings, want 1", len(calls), n)
	}
}
