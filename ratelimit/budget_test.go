package ratelimit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

const costly = 1000 // nano-USD that a call of these tests may cost

var evaluated = Scope{Provider: "openai", Model: "gpt-5", Evaluation: "ev-a"}

func acquireCosting(t testing.TB, p *process, cost int64) (*Lease, error) {
	return p.Acquire(t.Context(), Request{ID: newID(), Call: evaluated, Cost: cost})
}

// spends has callers call until the budget cannot cover the call, and returns what the
// provider charged. Most calls cost less than they might.
func spends(t testing.TB, callers int, processes ...*process) (charged int64) {
	t.Helper()
	var sum atomic.Int64
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for {
				lease, err := acquireCosting(t, processes[i%len(processes)], costly)
				if r := refusal(err); r != nil && r.Exhausted {
					return
				}
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
				cost := rand.Int64N(costly + 1)
				if sum.Add(cost) > 200*costly {
					t.Error("the budget never leaves no room")
					return
				}
				lease.Settle(Settlement{Used: &Used{Cost: cost}})
				mustRelease(t, lease)
			}
		})
	}
	group.Wait()
	return sum.Load()
}

// The amount spent never exceeds a budget, and comes nearer to it than one call may cost; a
// higher budget admits more.
func TestBudget(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		var charged int64
		for _, most := range []int64{37 * costly, 90 * costly} {
			register(t, client, "ev-a", Budget("ev-a", most), inFlight(Scope{Provider: "openai"}, 10))
			if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
				t.Fatal(err)
			}
			charged += spends(t, 16, a, b)
			if charged > most || charged <= most-costly {
				t.Errorf("charged %d of a budget of %d, want more than %d", charged, most, most-costly)
			}
		}
		usage, err := tools(client).Usage(t.Context())
		if err != nil || len(usage) != 2 || usage[0].Spent != charged || usage[0].Closed || usage[0].InUse != 0 {
			t.Errorf("Usage = %+v, %v; want %d spent", usage, err, charged)
		}
	})
}

// The amount spent before Redis began to count is unknown: nothing is admitted until it is
// told, once.
func TestBudgetIsClosedUntilItIsTold(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		p := start(t, connect(), "a")
		register(t, client, "ev-a", Budget("ev-a", 10*costly))
		admitted := make(chan *Lease, 1)
		go func() {
			lease, err := acquireCosting(t, p, costly)
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			admitted <- lease
		}()
		select {
		case <-admitted:
			t.Error("a call was admitted before anybody told what was spent")
		case <-time.After(300 * time.Millisecond):
		}
		for range 2 { // told again, it has been counted
			if err := tools(client).TellSpent(t.Context(), "ev-a", "", 8*costly); err != nil {
				t.Fatal(err)
			}
		}
		mustRelease(t, <-admitted) // not settled: it has cost what it may
		lease, err := acquireCosting(t, p, costly)
		if err != nil {
			t.Fatal(err)
		}
		lease.Settle(Settlement{Used: &Used{Cost: costly}})
		mustRelease(t, lease)
		if _, err := acquireCosting(t, p, 1); refusal(err) == nil || !refusal(err).Exhausted {
			t.Errorf("Acquire beyond the budget = %v, want a refusal for good", err)
		}
		if _, err := acquireCosting(t, p, 0); err != nil {
			t.Errorf("Acquire of a free call: %v", err)
		}
	})
}

// A call that does not fit waits while calls in flight may leave it room.
func TestBudgetWaitsForCallsInFlight(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		a, b := start(t, connect(), "a"), start(t, connect(), "b")
		register(t, client, "ev-a", Budget("ev-a", costly))
		if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
			t.Fatal(err)
		}
		first, err := acquireCosting(t, a, costly)
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for _, p := range []*process{a, b} {
			group.Go(func() {
				lease, err := acquireCosting(t, p, costly/4)
				if err != nil {
					t.Errorf("Acquire behind a call that cost little: %v", err)
					return
				}
				mustRelease(t, lease)
			})
		}
		testrun.Eventually(t, "both wait", func() bool {
			usage, err := tools(client).Usage(t.Context())
			return err == nil && usage[0].Waiting == 2
		})
		began := time.Now()
		first.Settle(Settlement{Used: &Used{Cost: costly / 2}})
		mustRelease(t, first)
		group.Wait()
		if took := time.Since(began); exact(t) && took > patience-100*time.Millisecond {
			t.Errorf("admitted after %s, want to be called at once", took)
		}
	})
}

// Calls in flight across a loss of memory are reserved for again.
func TestBudgetAcrossAFlush(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		p := start(t, connect(), "a")
		register(t, client, "ev-a", Budget("ev-a", 10*costly))
		if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
			t.Fatal(err)
		}
		lease, err := acquireCosting(t, p, costly)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		register(t, client, "ev-a", Budget("ev-a", 10*costly))
		for range 2 {
			if err := p.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := tools(client).TellSpent(t.Context(), "ev-a", "", 2*costly); err != nil {
			t.Fatal(err)
		}
		spent := func(want int64) {
			t.Helper()
			usage, err := tools(client).Usage(t.Context())
			if err != nil || len(usage) != 1 || usage[0].Spent != want {
				t.Errorf("Usage = %+v, %v; want %d spent", usage, err, want)
			}
		}
		spent(3 * costly)
		lease.Settle(Settlement{Used: &Used{Cost: costly / 2}})
		mustRelease(t, lease)
		spent(5 * costly / 2)
		if done, err := tools(client).ForgetSpent(t.Context(), "ev-a"); !done || err != nil {
			t.Errorf("ForgetSpent = %t, %v", done, err)
		}
		spent(0)
	})
}

// A call whose end is the first that Redis hears of it after a loss of memory has been
// paid for: its cost is spent, whether the budget is told before or after, and once
// however often its end arrives.
func TestBudgetCountsCallsThatEndAfterALoss(t *testing.T) {
	const before, cost = 2 * costly, costly / 4
	ends := map[string]struct {
		end   func(testing.TB, *process, *Lease)
		spent int64
		kept  bool // in use still, if Redis learned of the lease again before its end
	}{
		"settled": {func(t testing.TB, _ *process, l *Lease) {
			l.Settle(Settlement{Used: &Used{Cost: cost}})
			mustRelease(t, l)
		}, cost, false},
		"unknown":  {func(t testing.TB, _ *process, l *Lease) { mustRelease(t, l) }, costly, false},
		"given up": {func(_ testing.TB, _ *process, l *Lease) { l.GiveUp(time.Minute, false) }, costly, true},
		"of a process that has stopped": {func(t testing.TB, p *process, l *Lease) {
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			l.Settle(Settlement{Used: &Used{Cost: cost}})
			mustRelease(t, l)
		}, cost, false},
		"never sent": {func(t testing.TB, _ *process, l *Lease) {
			l.abandon()
			mustRelease(t, l)
		}, 0, false},
	}
	for name, end := range ends {
		for _, told := range []string{"before", "after"} {
			t.Run(name+", told "+told, func(t *testing.T) {
				everywhere(t, func(t testing.TB, connect func() *redis.Client) {
					client := connect()
					p := start(t, connect(), "a")
					register(t, client, "ev-a", Budget("ev-a", 10*costly))
					tell := func(nano int64) {
						if err := tools(client).TellSpent(t.Context(), "ev-a", "", nano); err != nil {
							t.Fatal(err)
						}
					}
					tell(0)
					lease, err := acquireCosting(t, p, costly)
					if err != nil {
						t.Fatal(err)
					}
					if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
						t.Fatal(err)
					}
					register(t, client, "ev-a", Budget("ev-a", 10*costly))
					if told == "before" {
						tell(before)
					}
					end.end(t, p, lease)
					mustRelease(t, lease)
					var again batch
					again.end([]*release{lease.release})
					mustAdmit(t, p.Limiter, &again) // its first answer may be lost
					if told == "after" {
						tell(before)
					}
					usage, err := tools(client).Usage(t.Context())
					// The limiter reports its leases as soon as it notices the loss, which may be
					// before this one ends.
					if err != nil || len(usage) != 1 || usage[0].Spent != before+end.spent || usage[0].InUse > 1 || usage[0].InUse == 1 && !end.kept {
						t.Errorf("Usage = %+v, %v; want %d spent and nothing in use, or a lease that is kept", usage, err, before+end.spent)
					}
				})
			})
		}
	}
}

// Another server takes over that remembers a part of what was spent. The budget is closed until
// a results store tells what it has of it, and counts what Redis remembers if that is more. A
// call in flight counts beside what is told, once, also if it ends before.
func TestBudgetThatRedisRemembersInPart(t *testing.T) {
	for name, test := range map[string]struct {
		lost, stored, want int64
		ends               bool
	}{
		"nothing is lost":             {0, 3, 4, false},
		"the last writes are lost":    {2, 3, 4, false},
		"the store lacks a call":      {0, 2, 4, false},
		"the call in flight ends":     {2, 3, 4, true},
		"calls of others are unknown": {0, 0, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t testing.TB, connect func() *redis.Client) {
				client := connect()
				budget := Budget("ev-a", 10*costly)
				limits := tools(client)
				register(t, client, "ev-a", budget)
				if err := limits.TellSpent(t.Context(), "ev-a", "", 0); err != nil {
					t.Fatal(err)
				}
				p := start(t, connect(), "a")
				acquire := func() *Lease {
					lease, err := acquireCosting(t, p, costly)
					if err != nil {
						t.Fatal(err)
					}
					return lease
				}
				for range 3 {
					mustRelease(t, acquire()) // not settled: it has cost what it may
				}
				flying := acquire()
				rule := newRule(limits.keys, budget.ID(), budget)
				if err := client.HIncrBy(t.Context(), rule.money, "used", -test.lost*costly).Err(); err != nil {
					t.Fatal(err)
				}
				if err := limits.beginWith(t.Context(), client, laterEpoch, "another server", 0, time.Second, "", rule); err != nil {
					t.Fatal(err)
				}
				if err := p.renew(t.Context()); err != nil {
					t.Fatal(err)
				}
				if test.ends {
					mustRelease(t, flying)
				}
				if usage, err := limits.Usage(t.Context()); err != nil || !usage[0].Closed {
					t.Fatalf("Usage = %+v, %v; want it closed", usage, err)
				}
				untold, counted, err := limits.Untold(t.Context(), "ev-a")
				if err != nil || !untold || len(counted) != 1 || counted[0] != flying.ID() {
					t.Errorf("Untold = %t, %v, %v; want %s to be counted", untold, counted, err, flying.ID())
				}
				for range 2 {
					if err := limits.TellSpent(t.Context(), "ev-a", "", test.stored*costly); err != nil {
						t.Fatal(err)
					}
				}
				if !test.ends {
					mustRelease(t, flying)
				}
				usage, err := limits.Usage(t.Context())
				if err != nil || usage[0].Closed || usage[0].Spent != test.want*costly || usage[0].InUse != 0 {
					t.Errorf("Usage = %+v, %v; want %d spent", usage, err, test.want*costly)
				}
				mustRelease(t, acquire())
			})
		})
	}
}
