package results

import (
	"testing"
	"testing/synctest"
	"time"
)

// A collector that is woken looks less and less often where there is nothing, and at
// once when it is woken. One that is not woken goes on looking as often as before.
func TestWokenCollectorRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan struct{}, 1)
		many, alone := &Collector{options: Options{Woken: woken}}, &Collector{}
		rest := func(c *Collector) time.Duration {
			t.Helper()
			began := time.Now()
			if err := c.rest(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		for range 20 {
			rest(many)
			rest(alone)
		}
		if got := rest(many); got != pausesWoken.Longest {
			t.Errorf("one that is woken looks again after %s, want %s", got, pausesWoken.Longest)
		}
		if got := rest(alone); got != pauses.First {
			t.Errorf("one that is not woken looks again after %s, want %s", got, pauses.First)
		}
		woken <- struct{}{}
		if got := rest(many); got != 0 || many.pause() != pausesWoken.First {
			t.Errorf("it was woken after %s and then looks every %s, want at once and %s", got, many.pause(), pausesWoken.First)
		}
	})
}
