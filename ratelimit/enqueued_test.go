package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// someBatch is the scope of a batch.
var someBatch = Scope{Provider: "openai", Model: "gpt-5", Evaluation: "ev-a", Tier: TierBatch}

func enqueued(scope Scope, most int64) Limit {
	return Limit{Scope: scope, Kind: EnqueuedTokens, Max: most}
}

func acquireBatch(t testing.TB, p *process, id string, input int64) *Lease {
	t.Helper()
	lease, err := p.Acquire(testrun.Context(t), Request{ID: id, Call: someBatch, Input: input})
	if err != nil {
		t.Fatalf("Acquire of a batch of %d tokens: %v", input, err)
	}
	return lease
}

// tokensInUse returns how many tokens the only limit of enqueued tokens counts.
func tokensInUse(t testing.TB, client redis.Cmdable) int {
	t.Helper()
	usage, err := tools(client).Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range usage {
		if u.Limit.Kind == EnqueuedTokens {
			return u.InUse
		}
	}
	t.Fatalf("Usage = %+v, want a limit of enqueued tokens", usage)
	return 0
}

func TestLimitsOfBatches(t *testing.T) {
	account := Scope{Provider: "openai"}
	for _, c := range []struct {
		limit       Limit
		call, batch bool
	}{
		{limit: inFlight(account, 1), call: true},
		{limit: inFlight(Scope{Evaluation: "ev-a"}, 0), call: true, batch: true},
		{limit: rate(1, time.Second, 1), call: true},
		{limit: tokens(1, time.Minute, 0), call: true},
		{limit: Limit{Scope: account, Kind: InputTokens, Max: 1, Period: time.Minute}, call: true},
		{limit: Limit{Scope: account, Kind: OutputTokens, Max: 1, Period: time.Minute}, call: true},
		{limit: Limit{Scope: account, Kind: Requests, Max: 1, Resets: "UTC"}, call: true},
		{limit: Budget("ev-a", Dollar), call: true, batch: true},
		{limit: enqueued(account, 1), batch: true},
		{limit: enqueued(Scope{Provider: "openai", Model: "gpt-5"}, 1), batch: true},
		{limit: enqueued(Scope{Provider: "google"}, 1)},
		{limit: enqueued(Scope{Provider: "openai", Model: "gpt-4"}, 1)},
	} {
		call := someBatch
		for tier, want := range map[string]bool{"": c.call, "flex": c.call, TierBatch: c.batch} {
			call.Tier = tier
			if got := c.limit.Matches(call); got != want {
				t.Errorf("%s applies to a call of tier %q: %t, want %t", c.limit, tier, got, want)
			}
		}
	}
}

// Limits that are used up by calls hold back no batch, and batches hold back no calls, except by
// budgets and closures.
func TestBatchesAndCallsCountApart(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		account := Scope{Provider: "openai"}
		register(t, client, "fleet", inFlight(account, 1), enqueued(account, 100),
			Limit{Scope: account, Kind: Requests, Max: 1, Period: time.Hour, Burst: 1},
			Limit{Scope: account, Kind: Requests, Max: 1, Resets: "UTC"})
		if err := tools(client).Begin(t.Context(), longAgo); err != nil {
			t.Fatal(err)
		}
		register(t, client, "ev-a", Budget("ev-a", Dollar))
		if err := tools(client).TellSpent(t.Context(), "ev-a", "", 0); err != nil {
			t.Fatal(err)
		}

		p := start(t, connect(), "w")
		ask := func(tier string, input, cost int64) error {
			scope := someBatch
			scope.Tier = tier
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := p.Acquire(ctx, Request{ID: newID(), Call: scope, Input: input, Cost: cost, MaxWait: time.Millisecond})
			return err
		}
		for range 2 {
			if err := ask(TierBatch, 50, 0); err != nil {
				t.Fatalf("a batch: %v", err)
			}
		}
		if err := ask("", 1000, Dollar/2); err != nil {
			t.Fatalf("a call while all tokens are enqueued: %v", err)
		}
		if r := refusal(ask("", 0, 0)); r == nil {
			t.Error("a second call starts, want one a day")
		}
		if err := ask(TierBatch, 0, Dollar/2); err != nil {
			t.Errorf("a batch while calls have used up their limits: %v", err)
		}

		if err := tools(client).Close(t.Context(), Scope{Evaluation: "ev-a"}); err != nil {
			t.Fatal(err)
		}
		admitted := make(chan *Lease, 1)
		go func() { admitted <- acquireBatch(t, p, newID(), 0) }()
		testrun.Eventually(t, "a batch waits", func() bool { return p.Waiting() == 1 || len(admitted) == 1 })
		select {
		case <-admitted:
			t.Fatal("a batch of a closed evaluation starts")
		case <-time.After(2 * patience):
		}
		if err := openAll(t.Context(), tools(client), Scope{Evaluation: "ev-a"}); err != nil {
			t.Fatal(err)
		}
		<-admitted
	})
}

// enqueuedAt counts the tokens of batches that have not ended, as a provider would.
type enqueuedAt struct {
	mu        sync.Mutex
	now, peak int64
	batches   int
}

func (e *enqueuedAt) add(tokens int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now += tokens
	e.peak = max(e.peak, e.now)
	if tokens > 0 {
		e.batches++
	}
}

// Batches of any size of several processes never have more tokens in all than the limit, and each is admitted, also
// those of a process whose scripts arrive twice, and of one that loses answers.
func TestEnqueuedTokensAreNeverOver(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		const most, each = 1000, 12
		register(t, client, "fleet", enqueued(Scope{Provider: "openai"}, most))
		var seen enqueuedAt
		var callers sync.WaitGroup
		for name, breaks := range map[string]func(*fault){
			"a": func(*fault) {}, "twice": func(f *fault) { f.twice = true }, "lossy": func(f *fault) { f.lost = 0.2 },
		} {
			way, wire := faulty(connect())
			breaks(wire)
			// A long lease, so that no leak heals within the test.
			p := start(t, way, name, func(c *Config) { c.Lease = time.Minute })
			for range 4 {
				callers.Go(func() {
					for range each {
						input := 1 + rand.Int64N(most)
						lease := acquireBatch(t, p, newID(), input)
						seen.add(input)
						time.Sleep(time.Millisecond)
						seen.add(-input)
						lease.Settle(Settlement{Used: &Used{Input: rand.Int64N(2 * most)}})
						mustRelease(t, lease)
					}
				})
			}
		}
		callers.Wait()
		if seen.peak > most || seen.batches != 3*4*each {
			t.Errorf("%d batches with up to %d tokens enqueued, want %d with at most %d", seen.batches, seen.peak, 3*4*each, most)
		}
		if left := tokensInUse(t, client); left != 0 {
			t.Errorf("%d tokens are enqueued when all batches have ended, want none", left)
		}
	})
}

// A batch that never fits is refused at once, with what to do; one that waits is, when its limit falls below it.
func TestBatchLargerThanItsLimit(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		account := Scope{Provider: "openai"}
		register(t, client, "fleet", enqueued(account, 2_000_000))
		p := start(t, connect(), "w")
		held := acquireBatch(t, p, newID(), 1_500_000)
		ask := func(input int64) chan error {
			answered := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := p.Acquire(ctx, Request{ID: newID(), Call: someBatch, Input: input})
				answered <- err
			}()
			return answered
		}

		r := refusal(<-ask(3_000_000))
		if r == nil || !r.TooLarge || r.Exhausted || r.Limit != "provider/openai/enqueued_tokens" {
			t.Fatalf("a batch of 3 M tokens: %+v, want that it is too large", r)
		}
		const want = "a batch of 3 M input tokens is larger than limit provider/openai/enqueued_tokens, which allows 2 M: " +
			"make the batch smaller, or raise the limit"
		if r.Error() != want {
			t.Errorf("the refusal says %q, want %q", r, want)
		}
		waits := ask(1_000_000)
		testrun.Eventually(t, "a batch waits", func() bool { return p.Waiting() == 1 })
		register(t, client, "fleet", enqueued(account, 900_000))
		if r := refusal(<-waits); r == nil || !r.TooLarge {
			t.Errorf("a batch that waits when its limit falls below it: %v, want that it is too large", r)
		}
		mustRelease(t, held)
		if err := <-ask(900_000); err != nil {
			t.Errorf("a batch as large as its limit: %v", err)
		}
	})
}

// The tokens of a batch are counted until it ends, however its process does, and come back once.
func TestEnqueuedTokensComeBackOnce(t *testing.T) {
	timed(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", enqueued(Scope{}, 1000))
		want := func(what string, tokens int) {
			t.Helper()
			testrun.EventuallyGot(t, what, func() (string, bool) {
				got := tokensInUse(t, client)
				return strconv.Itoa(got) + " tokens", got == tokens
			})
		}
		handOver := func(p *process, call string, input int64, latest time.Duration) {
			t.Helper()
			lease := acquireBatch(t, p, newID(), input)
			for range 2 {
				if err := lease.Background(t.Context(), call, latest); err != nil && !errors.Is(err, ErrLost) {
					t.Fatal(err)
				}
			}
		}

		cut, wire := faulty(connect())
		a, b := start(t, cut, "a", short), start(t, connect(), "b", short)
		acquireBatch(t, a, newID(), 1)
		handOver(a, "batch_1", 200, time.Hour)
		given := acquireBatch(t, b, newID(), 20)
		want("all are counted", 221)
		given.GiveUp(shortLease/10, true)
		want("a batch that was given up has expired", 201)
		wire.set(func() { wire.cut = true })
		want("the batch of a process that is cut off has expired", 200)
		handOver(b, "batch_2", 300, shortLease/10)
		if exact(t) {
			want("both background calls are counted", 500)
		}
		want("one is past its latest end", 200)
		for range 2 {
			if err := tools(b.client).EndBackground(t.Context(), "batch_1", &Used{Input: 5}); err != nil {
				t.Fatal(err)
			}
			want("the other has ended", 0)
		}
		if err := a.stop(); err == nil {
			t.Error("Run of the cut process = nil, want ErrFenced")
		}
	})
}

// Whoever knows of a batch makes Redis count its tokens again after a loss, once: the process that began it, or any
// other after the batch was handed over.
func TestEnqueuedTokensSurviveAFlush(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", enqueued(Scope{}, 1000))
		p := start(t, connect(), "w")
		lease, handed := acquireBatch(t, p, newID(), 30), acquireBatch(t, p, newID(), 500)
		known := handed.Known()
		if err := handed.Background(t.Context(), "batch_1", time.Hour); err != nil {
			t.Fatal(err)
		}
		assert := func() {
			t.Helper()
			for range 2 {
				if err := tools(client).AssertBackground(t.Context(), "batch_1", known, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if got := tokensInUse(t, client); got != 530 {
				t.Errorf("%d tokens are enqueued, want 530", got)
			}
		}
		assert()
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := p.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		register(t, client, "fleet", enqueued(Scope{}, 1000))
		assert()
		if err := lease.Check(); err != nil {
			t.Errorf("Check after a renewal: %v", err)
		}
		mustRelease(t, lease)
		if err := tools(client).EndBackground(t.Context(), "batch_1", nil); err != nil {
			t.Fatal(err)
		}
		if got := tokensInUse(t, client); got != 0 {
			t.Errorf("%d tokens are enqueued when both batches have ended, want none", got)
		}
	})
}

// A renewal that tells a new epoch of a batch, and arrives after the batch has ended, does not count it for ever.
func TestBatchIsRenewedAfterItsRelease(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", enqueued(Scope{}, 1000))
		p := start(t, connect(), "w")
		lease := acquireBatch(t, p, newID(), 30)
		p.mu.Lock()
		before := p.epoch
		p.mu.Unlock()
		mustRelease(t, lease)
		blind := time.Now().Add(time.Minute).UnixMicro()
		if err := client.HSet(t.Context(), "{ef}:limits", "epoch", "another", "blind", blind).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.renewSome(t.Context(), before, false, []*Lease{lease}, nil); err != nil {
			t.Fatal(err)
		}
		testrun.Eventually(t, "the batch has ended again", func() bool {
			return client.ZCard(t.Context(), "{ef}:s:fleet/enqueued_tokens").Val() == 0
		})
	})
}

// asksBatches sends one script that ends leases and asks for batches of so many tokens, and returns how many are
// admitted.
func (w *worker) asksBatches(end map[string]int64, inputs ...int64) (admitted []string) {
	w.t.Helper()
	rules, _ := w.rules.match(someBatch)
	b := &batch{version: w.rules.version}
	for id, input := range end {
		b.end(append(b.releases, &release{id: id, rules: rules, reserved: Used{Input: input}}))
	}
	var calls []*call
	for _, input := range inputs {
		calls = append(calls, &call{Request: Request{ID: newID(), Call: someBatch, Input: input}})
	}
	if len(calls) > 0 {
		b.ask(newQueue(rules), calls)
		b.groups[0].aged = false
	}
	o := mustAdmit(w.t, w.Limiter, b)
	if len(calls) > 0 {
		for i := range o.groups[0].grants {
			admitted = append(admitted, calls[i].ID)
		}
	}
	return admitted
}

// Room that comes back wakes the first waiter, which passes on what it leaves; and small batches do not pass a large one
// for ever.
func TestBatchesTakeTurns(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", enqueued(Scope{}, 100))
		all := workers(t, client, "a", "b", "c")
		a, b, c := all[0], all[1], all[2]
		want := func(w *worker, end map[string]int64, most int, inputs ...int64) []string {
			t.Helper()
			got := w.asksBatches(end, inputs...)
			if len(got) != most {
				t.Fatalf("worker %s asks for %d: %d admitted, want %d", w.cfg.Worker, inputs, len(got), most)
			}
			return got
		}

		first := want(a, nil, 2, 50, 40)
		want(b, nil, 0, 60)
		want(c, nil, 1, 5) // it fits, and b has not waited long
		b.called()
		age := func(worker string) { // it has waited long
			since := time.Now().Add(-time.Minute).UnixMicro()
			if err := client.ZAdd(t.Context(), "{ef}:w:fleet/enqueued_tokens", redis.Z{Member: worker, Score: float64(since)}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		age("b")
		want(c, nil, 0, 5)
		want(a, map[string]int64{first[0]: 50}, 0)
		b.called()
		large := want(b, nil, 0, 60) // 45 are enqueued, and 60 do not fit
		want(a, map[string]int64{first[1]: 40}, 0)
		b.called()
		large = append(large, want(b, nil, 1, 60)...)
		c.called() // 35 are left
		want(c, nil, 2, 5, 30)
		want(a, nil, 0, 10)
		want(b, map[string]int64{large[0]: 60}, 0)
		a.called()
		want(a, nil, 1, 10)
	})
}

// A refused batch holds back batches of its model alone, whatever limit the provider names.
func TestRefusedBatchHoldsBackBatches(t *testing.T) {
	everywhere(t, func(t testing.TB, connect func() *redis.Client) {
		client := connect()
		register(t, client, "fleet", enqueued(Scope{Provider: "openai"}, 1000))
		p := start(t, connect(), "w")
		for _, kind := range []Kind{"", EnqueuedTokens, Requests} {
			scope := someBatch
			scope.Model = "model-" + string(kind)
			lease, err := p.Acquire(testrun.Context(t), Request{ID: newID(), Call: scope})
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Cool(t.Context(), kind, time.Hour); err != nil {
				t.Fatal(err)
			}
			mustRelease(t, lease)
			for tier, held := range map[string]bool{TierBatch: true, "": false, "flex": false} {
				scope.Tier = tier
				_, err := p.Acquire(testrun.Context(t), Request{ID: newID(), Call: scope, MaxWait: time.Second})
				if r := refusal(err); (r != nil) != held || r != nil && !strings.HasSuffix(r.Limit, "//tier/batch/cooldown") {
					t.Errorf("after a refusal for %q, a call of tier %q: %v; held back: want %t", kind, tier, err, held)
				}
			}
		}
	})
}

// An account may have more tokens enqueued than any other limit allows.
func TestBoundsOfEnqueuedTokens(t *testing.T) {
	for most, valid := range map[int64]bool{0: false, 1: true, 15_000_000_000: true, 2_000_000_000_000: false} {
		if err := enqueued(Scope{}, most).Validate(); (err == nil) != valid {
			t.Errorf("Validate of %d enqueued tokens = %v, want that it is valid: %t", most, err, valid)
		}
	}
	tight := tightest([]Limit{enqueued(Scope{}, 15_000_000_000), enqueued(Scope{}, 3), enqueued(Scope{}, 5)})
	if tight.Max != 3 {
		t.Errorf("the tightest of three limits allows %d, want 3", tight.Max)
	}
	if got := enqueued(Scope{Provider: "openai"}, 2_000_000).String(); got != "provider openai: 2 M tokens enqueued in batches" {
		t.Errorf("the limit is called %q", got)
	}
}
