package store

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// A document that Redis refuses for its size is named with the setting that bounds it, whichever
// part of the refusal the client sees.
func TestDocumentLargerThanRedisTakes(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--proto-max-bulk-len", "1mb")
	s := New(server.Client(func(o *redis.Options) { o.MaxRetries = -1 }), "")
	var text strings.Builder
	for x := uint64(88172645463325252); text.Len() < 8<<20; { // noise, which no compression makes small
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		text.WriteByte(byte(33 + x%90))
	}
	err := s.putPlan(t.Context(), "ev-large", &eval.Evaluation{}, map[string]string{"hash": text.String()})
	if err == nil || !strings.Contains(err.Error(), "raise its proto-max-bulk-len") {
		t.Errorf("got %v, want the bound and what to do", err)
	}
}
