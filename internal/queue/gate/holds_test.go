package gate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Refusals lists what holds a whole fleet back, and nothing once that is over.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	client := server.Client()
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(words ...string) {
		t.Helper()
		if got := Refusals(t.Context(), client); !slices.Equal(got, words) {
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

	dir := client.ConfigGet(t.Context(), "dir").Val()["dir"]
	inTheWay := filepath.Join(dir, client.ConfigGet(t.Context(), "dbfilename").Val()["dbfilename"], "file")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	set("save", "3600 1")
	client.BgSave(t.Context())
	testrun.Eventually(t, "Redis notices that it cannot save", func() bool {
		return client.InfoMap(t.Context(), "persistence").Item("Persistence", "rdb_last_bgsave_status") == "err"
	})
	want(holdUnsaved)
	set("save", "")
	want()

	if words, all, err := HoldPaused(t.Context(), client, []string{"p", "q"}); words != nil || all || err != nil {
		t.Errorf("without a pause: got %q, %t, %v", words, all, err)
	}
	client.Set(t.Context(), "asynq:{p}:paused", 1, 0)
	if words, all, err := HoldPaused(t.Context(), client, []string{"p", "q"}); len(words) != 1 || all || err != nil {
		t.Errorf("with one of two queues paused: got %q, %t, %v", words, all, err)
	}
	if _, all, _ := HoldPaused(t.Context(), client, []string{"p"}); !all {
		t.Error("with its only queue paused, not all of an evaluation waits")
	}
}
