package store

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// refusing is a hook that sends no pipeline and leaves its commands as they are.
type refusing struct{ err error }

func (refusing) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h refusing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return h.err }
}

// TestPipelineThatWasNotSent: an answer that never came is an error, not an empty one.
func TestPipelineThatWasNotSent(t *testing.T) {
	t.Parallel()
	ids := []eval.ID{"ev-aaaaaaaaaaaa"}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		before func(*redis.Client)
	}{
		"context cancelled": {cancelled, func(*redis.Client) {}},
		"client closed":     {t.Context(), func(client *redis.Client) { client.Close() }},
		"refused by a hook": {t.Context(), func(client *redis.Client) { client.AddHook(refusing{errors.New("refused")}) }},
	} {
		client := redistest.New(t).Client()
		c.before(client)
		s := New(client, "")
		if going, err := s.Going(c.ctx, ids); err == nil {
			t.Errorf("%s: Going: got %v, want an error", name, going)
		}
		if standings, err := s.Standings(c.ctx, ids); err == nil {
			t.Errorf("%s: Standings: got %v, want an error", name, standings)
		}
		if backlog, err := s.Backlog(c.ctx, ids[0]); err == nil {
			t.Errorf("%s: Backlog: got %v, want an error", name, backlog)
		}
	}
}
