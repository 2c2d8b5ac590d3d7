package worker

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A probe sees a worker become ready, miss Redis, continue under another ID, and stop; every
// call is reported once.
func TestProbe(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	testrun.Eventually(t, "a probe of a worker that no other outage met", func() bool { return probe(t) })
}

// probe returns false if the machine stood still for so long that the worker lost its session.
func probe(t *testing.T) bool {
	t.Helper()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(4)
	cfg := b.brief()
	var told atomic.Int64
	cfg.Probe, cfg.Observer.Call = &Probe{}, func(record.Call) { told.Add(1) }
	if v := cfg.Probe.Vitals(); !reflect.DeepEqual(v, Vitals{RedisAway: true}) {
		t.Errorf("before the run: got %+v, want that Redis has not answered", v)
	}

	until := func(what string, holds func(Vitals) bool) {
		t.Helper()
		testrun.EventuallyGot(t, what, func() (string, bool) {
			v := cfg.Probe.Vitals()
			return fmt.Sprintf("%+v", v), holds(v)
		})
	}
	stop := b.start(cfg)
	defer stop()
	until("it is ready", func(v Vitals) bool { return v.Ready && v.Sessions >= 1 })
	b.wait()
	if calls, _ := b.provider.count(); int(told.Load()) != calls {
		t.Errorf("told of %d calls, the provider saw %d", told.Load(), calls)
	}
	if v := cfg.Probe.Vitals(); v.Sessions != 1 || v.Outages != 0 {
		return false
	}

	b.server.Kill()
	until("Redis is away", func(v Vitals) bool { return v.RedisAway && !v.Ready && v.Outages == 1 })
	until("the session was fenced", func(v Vitals) bool { return v.Sessions > 1 && !v.Ready && v.Outages > 0 })
	b.server.Start()
	until("it is ready again", func(v Vitals) bool { return v.Ready && v.Sessions > 1 && v.Outages > 0 })
	stop()
	if v := cfg.Probe.Vitals(); v.Ready || v.Sessions < 2 || v.Waiting != 0 {
		t.Errorf("after the run: got %+v, want not ready, and what was counted", v)
	}
	return true
}
