package redistest

import (
	"testing"
)

func TestServersShareNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b := New(t).Client(), New(t).Client()
	if err := a.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Fatalf("Exists on the other server = %d, %v; want 0", n, err)
	}
}

func TestKilledServerStartsEmptyOnTheSameSocket(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := New(t)
	client := s.Client()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Start()
	if n, err := client.Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Fatalf("Exists after restart = %d, %v; want 0", n, err)
	}
}
