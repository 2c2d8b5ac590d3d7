package view

import (
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/internal/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/store"
)

// Holds lists what holds a whole fleet back, and nothing once that is over.
func TestHolds(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	client := server.Client()
	f := Fleet{Store: store.New(client, ""), Limits: ratelimit.NewAdmin(client, ratelimit.Config{})}
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(words ...string) {
		t.Helper()
		if got := f.holds(t.Context()); !slices.Equal(got, words) {
			t.Errorf("got %q, want %q", got, words)
		}
	}
	want()
	set("maxmemory", "1")
	want(holdFull)
	set("maxmemory", "0")
	set("min-replicas-to-write", "1")
	want(holdReplicas)
	set("min-replicas-to-write", "0")
	want()

	if words, all, err := f.holdPaused(t.Context(), []string{"p", "q"}); words != nil || all || err != nil {
		t.Errorf("without a pause: got %q, %t, %v", words, all, err)
	}
	client.Set(t.Context(), "asynq:{p}:paused", 1, 0)
	if words, all, err := f.holdPaused(t.Context(), []string{"p", "q"}); len(words) != 1 || all || err != nil {
		t.Errorf("with one of two queues paused: got %q, %t, %v", words, all, err)
	}
	if _, all, _ := f.holdPaused(t.Context(), []string{"p"}); !all {
		t.Error("with its only queue paused, not all of an evaluation waits")
	}
}
