package worker

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

// spoken collects what several workers log.
type spoken struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), what)
}

// neighbours is an evaluation of two providers, p as the test has it and q that
// answers, and two workers with one log.
func neighbours(t *testing.T, p *fakeProvider, documents int, limit int64) (b *bench, q *fakeProvider, log *spoken) {
	t.Helper()
	b, q, log = setup(t, p), &fakeProvider{answer: after(20*time.Millisecond, firstWins)}, &spoken{}
	b.submit(documents, atMost(limit), func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Judges = append(e.Judges, eval.Judge{Name: "q:m", Provider: "q", Model: "m"})
	})
	for range 2 {
		cfg := b.config()
		cfg.Endpoints["q"] = providers.Endpoint{Provider: q, Key: "k"}
		cfg.Log = zerolog.New(zerolog.MultiLevelWriter(zerolog.NewTestWriter(t), log)).Level(zerolog.WarnLevel)
		stop := b.start(cfg)
		t.Cleanup(stop)
	}
	return b, q, log
}

// TestWrongKeyPausesTheProvider: at the first call that the provider refuses for
// its key it is paused for the evaluation, said once; no run fails, the other
// provider's are made, and once the key is right the rest is, nothing twice.
func TestWrongKeyPausesTheProvider(t *testing.T) {
	t.Parallel()
	for _, class := range []providers.Class{providers.Auth, providers.QuotaBilling} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			const limit = 4
			var mended atomic.Bool
			b, q, log := neighbours(t, &fakeProvider{answer: after(50*time.Millisecond, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				if mended.Load() {
					return firstWins(ctx, n, request)
				}
				return nil, &providers.Error{Class: class, Status: 401, Message: "no such key"}
			})}, 8, limit)
			b.waitFor("the other provider's runs have ended", func(s store.Standing) bool {
				return s.Total(eval.StateSucceeded) == b.runs/2
			})
			b.wantQuiet("pause")
			refused, _ := b.provider.count()
			standing := b.waitFor("p is paused", func(s store.Standing) bool { return s.Paused["p"].Class == class })
			if refused > 2*limit || refused == 0 || standing.Total(eval.StateFailed) > 0 {
				t.Errorf("%d calls were refused with %d in flight at most and two workers, %d runs failed", refused, limit, standing.Total(eval.StateFailed))
			}
			if n := log.count("provider p is paused for this evaluation"); n != 1 {
				t.Errorf("the pause is said %d times, want once", n)
			}
			mended.Store(true)
			if _, err := b.enqueuer().Resume(t.Context(), b.id); err != nil {
				t.Fatal(err)
			}
			if s := b.wait(); s.Total(eval.StateSucceeded) != b.runs {
				t.Errorf("%d of %d runs succeeded", s.Total(eval.StateSucceeded), b.runs)
			}
			b.wantEachOnce()
			if calls, most := b.provider.count(); calls != refused+b.runs/2 || most > limit {
				t.Errorf("p was called %d times, want %d refused and one for each of %d runs; %d at once under a limit of %d", calls, refused, b.runs/2, most, limit)
			}
			if calls, _ := q.count(); calls != b.runs/2 {
				t.Errorf("q was called %d times for %d runs", calls, b.runs/2)
			}
			runs, _ := b.outcomes()
			for index, of := range runs {
				if of[0].Attempts != 1 {
					t.Errorf("run %d has %d attempts: a refused key is none of a run's", index, of[0].Attempts)
				}
			}
		})
	}
}

// TestStreakOfFailuresPausesTheProvider: so many runs that fail alike in a row pause
// their provider; those stay failed, and the rest is made once it is resumed.
func TestStreakOfFailuresPausesTheProvider(t *testing.T) {
	t.Parallel()
	const limit = 4
	var mended atomic.Bool
	b, q, log := neighbours(t, &fakeProvider{answer: after(10*time.Millisecond, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if mended.Load() {
			return firstWins(ctx, n, request)
		}
		return nil, &providers.Error{Class: providers.BadRequest, Status: 400, Message: "no such parameter"}
	})}, 9, limit) // 72 runs of each
	b.waitFor("the other provider's runs have ended", func(s store.Standing) bool {
		return s.Total(eval.StateSucceeded) == b.runs/2
	})
	b.wantQuiet("pause")
	refused, _ := b.provider.count()
	standing := b.waitFor("p is paused", func(s store.Standing) bool { return s.Paused["p"].Runs >= record.MaxStreak })
	failed := standing.Total(eval.StateFailed)
	if refused < record.MaxStreak || refused >= 2*record.MaxStreak || failed != refused {
		t.Errorf("%d calls for %d failed runs, want %d and those that were under way", refused, failed, record.MaxStreak)
	}
	if n := log.count("provider p is paused for this evaluation"); n != 1 {
		t.Errorf("the pause is said %d times, want once", n)
	}
	mended.Store(true)
	if _, err := b.enqueuer().Resume(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	b.wait()
	if retried, err := b.enqueuer().Retry(t.Context(), b.id, func(enqueue.Recorded) bool { return true }); err != nil || retried.Runs != failed {
		t.Fatalf("Retry = %+v, %v; want %d runs", retried, err, failed)
	}
	b.waitFor("all have succeeded", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) == b.runs })
	if calls, _ := b.provider.count(); calls != refused+b.runs/2 {
		t.Errorf("p was called %d times, want %d that failed and one for each of %d runs", calls, refused, b.runs/2)
	}
	if calls, _ := q.count(); calls != b.runs/2 {
		t.Errorf("q was called %d times for %d runs", calls, b.runs/2)
	}
}

// TestWaitingCallsOfAPausedProviderAreNotBegun: even if nothing withdraws them, as in a process
// that missed the announcement.
func TestWaitingCallsOfAPausedProviderAreNotBegun(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(2)
	if _, err := b.enqueuer().PauseProvider(t.Context(), b.id, "p", record.Pause{Class: providers.Auth}); err != nil {
		t.Fatal(err)
	}
	limits, err := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}).InForce(t.Context())
	if err != nil || allowedInFlight(limits, ratelimit.Scope{Provider: "p", Model: "m", Evaluation: string(b.id)}) != 0 {
		t.Errorf("limits in force are %v, %v; want none in flight of p", limits, err)
	}
	if n := allowedInFlight(limits, ratelimit.Scope{Provider: "q", Model: "m", Evaluation: string(b.id)}); n == 0 {
		t.Error("q begins no call either")
	}
}

// TestUsedUpDayParksTheProvider: a provider whose day's quota is used up is not
// called until its day ends, which its answer need not say; it costs no attempt.
// Who says of a limit per minute that it lasts a day is asked again sooner.
func TestUsedUpDayParksTheProvider(t *testing.T) {
	t.Parallel()
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().In(pacific)
	midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, pacific)
	for _, tt := range []struct {
		name   string
		failed providers.Error
		lasts  time.Duration // 0: until midnight there
		id     string
		parked bool
	}{
		{"no hint", providers.Error{Class: providers.QuotaDaily, Message: "used up"}, 0, "provider/p/cooldown", true},
		{"a hint", providers.Error{Class: providers.QuotaDaily, Message: "used up", RetryAfter: 3 * time.Hour}, 3 * time.Hour, "provider/p/cooldown", true},
		{"of a model", providers.Error{Class: providers.QuotaDaily, Message: "used up of m"}, 0, "provider/p/model/m/cooldown", true},
		{"a minute that lasts a day", providers.Error{Class: providers.RateLimited, Message: "retry after 86400", RetryAfter: 24 * time.Hour}, call.LongestHint, "provider/p/model/m/cooldown", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.failed.Status = 429
			until := midnight
			if tt.lasts > 0 {
				until = time.Now().Add(tt.lasts)
			}
			b := setup(t, &fakeProvider{answer: func(context.Context, int, *providers.Request) (*providers.Result, error) {
				failed := tt.failed
				return nil, &failed
			}})
			b.submit(4, atMost(1)) // 12 runs
			cfg := b.config()
			cfg.Endpoints["p"] = providers.Endpoint{Provider: b.provider, Zone: pacific}
			defer b.start(cfg)()
			b.reach(1)
			b.wantQuiet("refusal")
			if calls, _ := b.provider.count(); calls != 1 {
				t.Errorf("%d calls were made, want the one that was refused", calls)
			}
			cooldowns, err := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}).Cooldowns(t.Context())
			if err != nil || len(cooldowns) != 1 || cooldowns[0].ID != tt.id || cooldowns[0].Parked != tt.parked {
				t.Fatalf("held back are %+v, %v; want %s, parked %t", cooldowns, err, tt.id, tt.parked)
			}
			if over := time.Now().Add(cooldowns[0].Wait); over.Sub(until).Abs() > time.Minute {
				t.Errorf("held back until %s, want %s", over, until)
			}
			standing := b.waitFor("looked", func(store.Standing) bool { return true })
			checked, err := b.store.Check(t.Context(), record.Task{Evaluation: b.id, Kind: eval.KindPairwise, Model: "p:m"})
			if progress := checked.Progress; err != nil || progress.Attempts != 0 || standing.Total(eval.StateFailed) != 0 {
				t.Errorf("progress %+v, %v, %d failed; want no attempt and no failure", progress, err, standing.Total(eval.StateFailed))
			}
		})
	}
}

// TestHungCallsLoseNoSlot: calls that are never answered end at their timeout, all
// runs end, and every slot is free again.
func TestHungCallsLoseNoSlot(t *testing.T) {
	t.Parallel()
	const limit = 8
	var hung sync.Map // by prompt
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		prompt := request.Messages[len(request.Messages)-1].Content
		if n%10 == 0 {
			if _, again := hung.LoadOrStore(prompt, true); !again { // no run has three calls that hang
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(12, atMost(limit), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { // 132 runs
		s.Timeouts = map[string]time.Duration{"": 300 * time.Millisecond}
	})
	for range 2 {
		defer b.start(b.config())()
	}
	if s := b.wait(); s.Total(eval.StateSucceeded) != b.runs {
		t.Errorf("%d of %d runs succeeded", s.Total(eval.StateSucceeded), b.runs)
	}
	calls, most := b.provider.count()
	if most > limit || calls <= b.runs {
		t.Errorf("%d calls, %d at once under a limit of %d", calls, most, limit)
	}
	b.waitFor("every slot is free", func(store.Standing) bool {
		leases, err := b.store.Client().ZCount(t.Context(), "{ef}:s:provider/p/concurrency", strconv.FormatInt(time.Now().UnixMicro(), 10), "+inf").Result()
		return err == nil && leases == 0
	})
}
