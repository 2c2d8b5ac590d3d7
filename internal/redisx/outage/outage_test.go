package outage

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestAwayFullAndWrong(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	client := server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	set := func() error { return client.Set(t.Context(), "k", "v", 0).Err() }
	script := func() error {
		return redis.NewScript(`return redis.call("SET", KEYS[1], "v")`).Run(t.Context(), client, []string{"k"}).Err()
	}
	config := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, err error, is, passes bool) {
		t.Helper()
		if err == nil || Is(err) != is || Passes(err) != passes || Is(fmt.Errorf("set: %w", err)) != is || Passes(fmt.Errorf("set: %w", err)) != passes {
			t.Errorf("%s: %v: away %v, passes %v; want %v, %v", what, err, Is(err), Passes(err), is, passes)
		}
	}
	config("maxmemory", "1")
	check("memory full", set(), false, true)
	check("memory full for a script", script(), false, true)
	config("maxmemory", "0")
	if err := set(); err != nil {
		t.Fatal(err)
	}
	check("wrong type", client.LPush(t.Context(), "k", "x").Err(), false, false)
	rule := func(rule string) {
		t.Helper()
		if err := client.Do(t.Context(), "acl", "setuser", "default", rule).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, denied := range []string{"-@write", "resetkeys"} {
		rule(denied)
		check("denied: "+denied, set(), false, true)
		check("denied for a script: "+denied, script(), false, true)
		rule("allcommands")
		rule("allkeys")
	}
	config("save", "1 1")
	config("stop-writes-on-bgsave-error", "yes")
	// A folder in its place, because root may write anywhere.
	if err := os.Mkdir(client.ConfigGet(t.Context(), "dir").Val()["dir"]+"/dump.rdb", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := client.BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	testrun.Eventually(t, "Redis takes no writes because it cannot save", func() bool { return set() != nil })
	check("disk full", set(), false, true)
	check("disk full for a script", script(), false, true)
	config("busy-reply-threshold", "1")
	other := server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	ended := make(chan error)
	go func() { ended <- other.Eval(t.Context(), "while true do end", nil).Err() }()
	var busy error
	testrun.Eventually(t, "Redis is busy", func() bool { busy = client.Get(t.Context(), "k").Err(); return busy != nil })
	check("busy", busy, true, true)
	if err := client.ScriptKill(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the script was not killed")
	}
	server.Kill()
	check("gone", set(), true, false)
}
