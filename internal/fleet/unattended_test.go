package fleet

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

// TestStatusNamesAMissingController: status says that no controller collects results when some have waited for more than a
// minute and no controller has run since.
func TestStatusNamesAMissingController(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	client := redistest.New(t).Client()
	d := &Connection{
		Store: store.New(client, ""), Dir: filepath.Join(dir, "out"),
		Screen: terminal.New(io.Discard), Log: zerolog.Nop(),
	}
	receipt, err := d.Submit(ctx, submission(t, dir), Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys := d.Store.Keys()
	waited := func(age time.Duration) {
		t.Helper()
		id := fmt.Sprintf("%d-0", time.Now().Add(-age).UnixMilli())
		client.Del(ctx, keys.Results(receipt.ID))
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(receipt.ID), ID: id, Values: []string{"v", "1"}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wantSaid := func(want bool, when string) {
		t.Helper()
		list, err := view.NewLooks(zerolog.Nop()).InRedis(ctx, d.View(), []eval.ID{receipt.ID}, time.Now())
		if err != nil || len(list) != 1 {
			t.Fatalf("%d evaluations, %v", len(list), err)
		}
		said := "no controller collects them: start one, or run `evalfleet collect " + string(receipt.ID) + "`"
		if text := plain.Status(list, time.Now(), 100); strings.Contains(text, said) != want {
			t.Errorf("%s, status says\n%s\nwant %q: %t", when, text, said, want)
		}
	}

	wantSaid(false, "without results")
	waited(time.Second)
	wantSaid(false, "after a second")
	waited(2 * time.Minute)
	wantSaid(true, "after two minutes")
	client.Set(ctx, keys.SweepLock(), "a controller", time.Minute)
	wantSaid(false, "beside a controller")
}
