package ratelimit

import (
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// A limit that a newer program has pinned and this one does not understand is not passed
// over: no call is admitted beside it.
func TestLimitsOfANewerProgramFailClosed(t *testing.T) {
	t.Parallel()
	for name, pinned := range map[string]string{
		"an unknown kind":  `[{"kind":"watts","max":5}]`,
		"an unknown field": `[{"kind":"concurrency","max":5,"region":"eu"}]`,
		"an unknown shape": `[{"kind":"tokens","max":5,"window":{"shape":"spiral","length":60000000000}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.New(t).Client()
			register(t, client, "fleet", inFlight(Scope{}, 4))
			if err := client.HSet(t.Context(), newKeys("ef").registry(), "newer", pinned).Err(); err != nil {
				t.Fatal(err)
			}
			l := New(client, Config{Worker: "w", Lease: 10 * time.Second})
			if _, err := l.load(t.Context()); err == nil || !strings.Contains(err.Error(), "limits of newer") {
				t.Errorf("load = %v, want an error that names the holder", err)
			}
		})
	}
}
