package ratelimit

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

var threeAccounts = []string{"openai/a", "openai/b", "openai/c"}

// atAny asks for a call that any of some accounts may answer.
func atAny(accounts ...string) Request {
	return Request{ID: newID(), Call: openai, Accounts: accounts}
}

func only(account string) Scope { return Scope{Provider: account} }

// Two processes share three accounts, and one of them loses a tenth of Redis's answers. No account has more calls in flight
// than its own limit, all together have no more than the provider's, and every account is used up.
func TestAccountsKeepTheirLimits(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	most := map[string]int64{"openai/a": 2, "openai/b": 4, "openai/c": 1}
	limits := []Limit{inFlight(Scope{Provider: "openai"}, 6)}
	seen := map[string]*provider{}
	for name, n := range most {
		limits, seen[name] = append(limits, inFlight(only(name), n)), &provider{most: n}
	}
	register(t, server.Client(), "fleet", limits...)
	all := &provider{most: 6}

	client, trouble := faulty(server.Client())
	trouble.set(func() { trouble.lost = 0.1 })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	for _, l := range []*process{start(t, server.Client(), "sound"), start(t, client, "lossy")} {
		for range 8 {
			callers.Go(func() {
				for ctx.Err() == nil {
					lease, err := l.Acquire(ctx, atAny(threeAccounts...))
					if err != nil {
						return
					}
					use(t, lease, time.Millisecond, all, seen[lease.Provider()])
					lease.End()
				}
			})
		}
	}

	testrun.Eventually(t, "every account is used up", func() bool {
		return all.made(400) && all.reached(6) && !slices.ContainsFunc(threeAccounts, func(name string) bool { return !seen[name].reached(most[name]) })
	})
	stop()
	callers.Wait()
	all.verify(t)
	for _, p := range seen {
		p.verify(t)
	}
}

// While an account is in an outage or a cooldown, calls start at the others at once. Limits and cooldowns of one account
// hold back no call that may be made at another.
func TestAccountInTrouble(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(Scope{Provider: "openai"}, 50))
		if err := tools(connect()).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		p := start(t, connect(), "a")
		acquire := func(r Request) *Lease {
			t.Helper()
			lease, err := p.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		used := func() []string {
			t.Helper()
			var names []string
			for range 6 {
				lease := acquire(atAny("openai/a", "openai/b"))
				names = append(names, lease.Provider())
				mustRelease(t, lease)
			}
			slices.Sort(names)
			return slices.Compact(names)
		}
		is := func(when string, want ...string) {
			t.Helper()
			if got := used(); !slices.Equal(got, want) {
				t.Errorf("%s: calls are made at %v, want %v", when, got, want)
			}
		}

		is("at first", "openai/a", "openai/b")
		if err := p.Suspend(t.Context(), only("openai/a")); err != nil {
			t.Fatal(err)
		}
		is("while one has no answers", "openai/b")
		if ended, err := p.Answered(t.Context(), Scope{Provider: "openai/a", Model: "gpt-5"}); err != nil || !ended {
			t.Fatalf("Answered = %t, %v", ended, err)
		}
		is("when it answers again", "openai/a", "openai/b")

		refused := acquire(atAny("openai/b"))
		if err := refused.Cool(t.Context(), Concurrency, time.Hour); err != nil { // all accounts have that limit together
			t.Fatal(err)
		}
		mustRelease(t, refused)
		is("while one refuses calls", "openai/a")
		cooling, err := tools(connect()).Cooldowns(t.Context())
		if err != nil || len(cooling) != 1 || cooling[0].String() != "provider openai/b: cooldown" {
			t.Errorf("Cooldowns = %v, %v; want that of provider openai/b", cooling, err)
		}
	})
}

// A call is refused once every account refuses it, for the shortest of their waits. Its place in the wait queues of the
// others is given up once one admits it.
func TestAccountsRefuseTogether(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		pace := func(name string, every time.Duration) Limit {
			return Limit{Scope: only(name), Kind: Requests, Max: 1, Period: every, Burst: 1}
		}
		register(t, connect(), "fleet", pace("openai/a", 2*time.Hour), pace("openai/b", time.Hour), inFlight(only("openai/c"), 1))
		if err := tools(connect()).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		p := start(t, connect(), "a")
		soon := func(accounts ...string) (*Lease, error) {
			r := atAny(accounts...)
			r.MaxWait = time.Second
			return p.Acquire(t.Context(), r)
		}
		for range 2 {
			if _, err := soon("openai/a", "openai/b"); err != nil {
				t.Fatalf("an account has room: %v", err)
			}
		}
		_, err := soon("openai/a", "openai/b")
		if r := refusal(err); r == nil || r.Limit != pace("openai/b", time.Hour).ID() || r.Wait > time.Hour || r.Wait < 50*time.Minute {
			t.Errorf("both are used up: %v, want the refusal of openai/b", err)
		}

		holds := mustAcquire(t, p, newID(), Scope{Provider: "openai/c", Model: "gpt-5"})
		waits := make(chan *Lease, 1)
		go func() {
			lease, err := soon(threeAccounts...)
			if err != nil {
				t.Error(err)
			}
			waits <- lease
		}()
		mustRelease(t, holds)
		if lease := <-waits; lease != nil && lease.Provider() != "openai/c" {
			t.Errorf("the call is made at %s, want openai/c", lease.Provider())
		} else if lease != nil {
			mustRelease(t, lease)
		}
		for _, limit := range []Limit{pace("openai/a", 2*time.Hour), pace("openai/b", time.Hour), inFlight(only("openai/c"), 1)} {
			testrun.Eventually(t, "the place at "+limit.ID()+" is given up", func() bool {
				n, err := connect().ZCard(t.Context(), newKeys("ef").waiters(limit.ID())).Result()
				return err == nil && n == 0
			})
		}
	})
}

// An account that refused a call for its wait admits it once that is over, if the call still waits for another one.
func TestAccountThatRefusedAdmitsLater(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		register(t, connect(), "fleet", inFlight(only("openai/b"), 1))
		if err := tools(connect()).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		p := start(t, connect(), "a")
		busy := mustAcquire(t, p, newID(), only("openai/b"))
		if err := p.Cool(t.Context(), only("openai/a"), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		for range 3 { // the second one finds its queues as the first has left them
			r := atAny("openai/a", "openai/b")
			r.MaxWait = time.Second
			lease, err := p.Acquire(t.Context(), r)
			if err != nil || lease.Provider() != "openai/a" {
				t.Fatalf("Acquire = %v, want a lease of openai/a", err)
			}
			mustRelease(t, lease)
		}
		mustRelease(t, busy)
	})
}

// A call that may hold a lease at one account, because the answer was lost, gives it back when it is asked for again.
func TestAccountsAfterALostAnswer(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		a, b := inFlight(only("openai/a"), 1), inFlight(only("openai/b"), 1)
		register(t, connect(), "fleet", a, b)
		if err := tools(connect()).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		client, trouble := faulty(connect())
		p, other := start(t, client, "a"), start(t, connect(), "other")
		held := func(limits ...Limit) (n int64) {
			for _, limit := range limits {
				n += connect().ZCard(t.Context(), newKeys("ef").leases(limit.ID())).Val()
			}
			return n
		}
		mustRelease(t, mustAcquire(t, p, newID(), only("openai/a"))) // it has read the limits
		for range 8 {                                                // which of two accounts is asked first is chance
			blocks := mustAcquire(t, other, newID(), only("openai/b"))
			trouble.set(func() { trouble.lost = 1 })
			granted := make(chan *Lease, 1)
			go func() {
				lease, err := p.Acquire(t.Context(), atAny("openai/a", "openai/b"))
				if err != nil {
					t.Error(err)
				}
				granted <- lease
			}()
			testrun.Eventually(t, "the call holds a lease without knowing", func() bool { return held(a) == 1 })
			mustRelease(t, blocks)
			again := trouble.count() + 2
			testrun.Eventually(t, "it is asked for again", func() bool { return trouble.count() >= again })
			trouble.set(func() { trouble.lost = 0 })

			lease := <-granted
			if n := held(a, b); n != 1 {
				t.Fatalf("the call holds %d leases, want 1", n)
			}
			mustRelease(t, lease)
		}
	})
}

// A limit concerns the calls of a provider if it is that of one of its accounts, and no calls of another provider.
func TestLimitsThatConcernAProvider(t *testing.T) {
	t.Parallel()
	for scope, want := range map[Scope]bool{
		{}: true, {Provider: "openai"}: true, {Provider: "openai/a"}: true, {Provider: "openai/a", Model: "gpt-5"}: true,
		{Provider: "openai/a", Model: "other"}: false, {Provider: "openai2"}: false, {Provider: "openai2/a"}: false, {Provider: "open"}: false,
	} {
		if got := inFlight(scope, 1).Concerns(openai); got != want {
			t.Errorf("a limit of %s concerns a call of %s: %t, want %t", scope, openai, got, want)
		}
		if got := scope.Concerns(openai); got != want {
			t.Errorf("a cooldown of %s concerns a call of %s: %t, want %t", scope, openai, got, want)
		}
	}
}
