package worker

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

// Redis loses everything while a job runs that no collector knows. The worker gives the job
// back to its run, and no second one is submitted, nor another beside it.
func TestFlushKeepsAJob(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	var s *simulated
	testrun.Eventually(t, "a flush while a job goes on", func() bool {
		s = research(t, latency(20*time.Second), 2)
		s.cfg.Lease = 30 * time.Second // after the flush no call starts for as long
		stop := s.start(s.cfg)
		t.Cleanup(stop)
		s.jobs("a job goes on", func(c simulator.Counts) bool { return c.Polled > 0 })
		s.store.Client().FlushAll(t.Context())
		if s.server.Stats().Models[researcher].InFlight != 1 {
			stop()
			return false // the machine stood still
		}
		return true
	})
	s.resubmit(func(again *enqueue.Submission) { again.Settle = s.settle() })
	s.wait()
	s.wantEachOnce()
	if got := s.server.Stats().Models[researcher]; got.Submitted != int64(s.runs) || got.MaxInFlight != 1 {
		t.Errorf("%d jobs submitted for %d runs, %d at once; want 1 at once", got.Submitted, s.runs, got.MaxInFlight)
	}
	s.wantFree()
}

// No worker is left that knows a job when Redis forgets it. A submission that reads
// the results store gives it back to its run, and the limits count it at once.
func TestJobComesBackFromAResultsStore(t *testing.T) {
	t.Parallel()
	s := research(t, latency(3*time.Second), 2, func(settings *record.Settings) { settings.Limit = 1 })
	s.cfg.Lease = 10 * time.Second
	stop := s.start(s.cfg)
	testrun.Eventually(t, "the stream tells of a job", func() bool { return len(s.submitted()) == 1 })
	jobs := s.submitted() // which a collector has drained
	stop()
	s.store.Client().FlushAll(t.Context())
	s.resubmit(func(s *enqueue.Submission) { s.Jobs = jobs })
	if n := s.store.Client().ZCard(t.Context(), "{ef}:s:provider/openaidp/concurrency").Val(); n != 1 {
		t.Errorf("%d leases once it is submitted again, want 1", n)
	}
	defer s.start(s.cfg)()
	s.wait()
	s.wantEachOnce()
	if got := s.server.Stats().Models[researcher]; got.Submitted != 1 || got.Answered != 1 {
		t.Errorf("%d jobs submitted and %d answered, want 1", got.Submitted, got.Answered)
	}
	s.wantFree()
}

// A worker is cut off from Redis while it submits a job. The next one waits for it;
// once the first says how the provider calls the job, it is fetched.
func TestJobOfAWorkerThatWasCutOff(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	s := research(t, latency(time.Second), 2, func(settings *record.Settings) { settings.Limit = 1 })
	frozen, endpoint := s.cfg, s.cfg.Endpoints["openaidp"]
	frozen.Lease = 2 * time.Second
	var away atomic.Bool
	frozen.Client = s.server2(&away)
	held := &heldSubmission{Provider: endpoint.Provider, Background: endpoint.Provider.(providers.Background), submitted: make(chan struct{}), release: make(chan struct{})}
	frozen.Endpoints = map[string]providers.Endpoint{"openai": s.cfg.Endpoints["openai"], "openaidp": {Provider: held, Key: endpoint.Key, Capabilities: endpoint.Capabilities}}
	frozen.Probe = &Probe{}
	defer s.start(frozen)()
	<-held.submitted
	away.Store(true)
	testrun.Eventually(t, "the worker is fenced", func() bool { return frozen.Probe.Vitals().Sessions > 1 })
	defer s.start(s.cfg)()
	testrun.Eventually(t, "another worker had the run", func() bool {
		return s.store.Client().HGet(t.Context(), s.store.Keys().ProgressOf(s.id, "0.0"), record.ProgressDeaths).Val() == "1"
	})
	away.Store(false)
	close(held.release)
	s.wait()
	s.wantEachOnce()
	if got := s.server.Stats().Models[researcher]; got.Submitted != 1 || got.Answered != 1 {
		t.Errorf("%d jobs submitted, %d answered; want 1", got.Submitted, got.Answered)
	}
	s.wantFree()
}

// A worker dies between the provider's answer and the moment at which it would have
// saved how the provider calls the job. The run waits for it, and then submits another
// one; the first is recorded as a call that was lost, with what it may have cost.
func TestJobOfAWorkerThatDied(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	s := research(t, latency(time.Second), 2, func(settings *record.Settings) {
		settings.Limit, settings.Limits[0].Max = 1, 2
		settings.Prices = map[string]providers.Price{"openaidp:" + researcher: {Rates: providers.Rates{Input: 10, Output: 40}}}
	})
	dying, endpoint := s.cfg, s.cfg.Endpoints["openaidp"]
	dying.Lease = 2 * time.Second
	var away atomic.Bool
	dying.Client = s.server2(&away)
	held := &heldSubmission{Provider: endpoint.Provider, Background: endpoint.Provider.(providers.Background), submitted: make(chan struct{}), release: make(chan struct{})}
	dying.Endpoints = map[string]providers.Endpoint{"openai": s.cfg.Endpoints["openai"], "openaidp": {Provider: held, Key: endpoint.Key, Capabilities: endpoint.Capabilities}}
	defer s.start(dying)()
	<-held.submitted
	away.Store(true)
	defer func() { // it would come back; nothing is judged by then
		away.Store(false)
		close(held.release)
	}()
	before, progress := time.Now().Add(-call.AskTime-call.AskTime/2), s.store.Keys().ProgressOf(s.id, "0.0")
	if err := s.store.Client().HSet(t.Context(), progress, record.ProgressSubmitting, before.UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	defer s.start(s.cfg)()
	s.wait()
	s.wantEachOnce()
	_, calls := s.outcomes()
	var lost []record.Call
	for _, call := range calls {
		if call.Class == providers.Lost {
			lost = append(lost, call)
		}
	}
	if len(lost) != 1 || !lost[0].MaybeBill || lost[0].MostUSD == nil || *lost[0].MostUSD <= 0 || lost[0].Started.UnixMilli() != before.UnixMilli() {
		t.Errorf("lost calls are %+v; want one that began at %s, with what it may have cost", lost, before)
	}
	if got := s.server.Stats().Models[researcher]; got.Submitted != 2 {
		t.Errorf("%d jobs submitted, want one that was lost and one that was fetched", got.Submitted)
	}
}

// A worker that comes back when its run has another job cancels its own.
func TestJobOfARunThatAnotherHas(t *testing.T) {
	t.Parallel()
	s := research(t, latency(time.Hour), 2, func(settings *record.Settings) { settings.Limit = 1 })
	endpoint := s.cfg.Endpoints["openaidp"]
	held := &heldSubmission{Provider: endpoint.Provider, Background: endpoint.Provider.(providers.Background), submitted: make(chan struct{}), release: make(chan struct{})}
	endpoint.Provider = held
	s.cfg.Endpoints["openaidp"] = endpoint
	stop := s.start(s.cfg)
	defer stop()
	<-held.submitted
	task := record.Task{Evaluation: s.id, Model: "openaidp:" + researcher}
	checked, err := s.store.Check(t.Context(), task)
	p := checked.Progress
	if err != nil || p.Submitting.IsZero() || p.Found == "" {
		t.Fatalf("progress is %+v, %v; want it to say that a job is being submitted", p, err)
	}
	p.Writer, p.Submitting, p.NotBefore = "another-1", time.Time{}, time.Now().Add(time.Hour)
	if _, err := s.store.SaveProgress(t.Context(), task, p, nil); err != nil {
		t.Fatal(err)
	}
	close(held.release)
	s.wantCancelled()
	checked, err = s.store.Check(t.Context(), task)
	if after := checked.Progress; err != nil || after.Found != "another-1" || after.Job != nil {
		t.Errorf("progress is %+v, %v; want what the other saved", after, err)
	}
}

// Redis lost a run's job, and gets it back while another pull is submitting one in its place: the other job is cancelled,
// even if its provider cannot be reached at first, and counts once under the budget.
func TestJobThatComesBackWhileAnotherIsSubmitted(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]int64{"provider reachable": 0, "provider not reachable at first": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, slow := models(nil), latency(time.Hour)
			all[researcher] = simulator.Model{Behaviour: &slow}
			s := simulate(t, all)
			s.submit(2, asks("openaidp:"+researcher, eval.JSONAuto, "", ""), func(e *eval.Evaluation, _ map[string]string, settings *record.Settings) {
				e.Normalize()
				settings.Limit = 1
				settings.Limits = []ratelimit.Limit{
					{Scope: ratelimit.Scope{Provider: "openaidp"}, Kind: ratelimit.Concurrency, Max: 1},
					ratelimit.Budget(string(e.ID()), 1000*ratelimit.Dollar),
				}
				settings.Prices = map[string]providers.Price{"openaidp:" + researcher: {Rates: providers.Rates{Input: 10, Output: 40}}}
			})
			endpoint := s.cfg.Endpoints["openaidp"]
			held := &heldSubmission{Provider: endpoint.Provider, Background: endpoint.Provider.(providers.Background), submitted: make(chan struct{}), release: make(chan struct{})}
			held.refused.Store(refused)
			limits := ratelimit.NewAdmin(s.store.Client(), ratelimit.Config{})
			if err := limits.TellSpent(t.Context(), string(s.id), "", 0); err != nil {
				t.Fatal(err)
			}
			spent := func() (nano int64) {
				t.Helper()
				usage, err := limits.Usage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, u := range usage {
					if u.Limit.Kind == ratelimit.Cost {
						nano += u.Spent
					}
				}
				return nano
			}
			endpoint.Provider = held
			s.cfg.Endpoints["openaidp"] = endpoint
			defer s.start(s.cfg)()
			<-held.submitted
			reserved := spent()

			task := record.Task{Evaluation: s.id, Model: "openaidp:" + researcher}
			earlier := record.Job{ID: "earlier", Ends: time.Now().Add(time.Hour), Call: record.Call{
				ID: "earlier", Model: task.Model, Attempt: 1, Asked: time.Now(), Started: time.Now(),
			}}
			_, progress := store.WithJob(s.id, earlier)
			progress.NotBefore, progress.Delay = time.Now().Add(time.Hour), time.Hour // so that nothing polls it
			if done, err := s.store.RestoreProgress(t.Context(), task, progress); err != nil || !done.Restored {
				t.Fatalf("restored: %+v, %v", done, err)
			}
			close(held.release)

			s.wantCancelled()
			checked, err := s.store.Check(t.Context(), task)
			if after := checked.Progress; err != nil || after.Job == nil || after.Job.ID != earlier.ID {
				t.Errorf("progress is %+v, %v; want the job that came back", after, err)
			}
			if got := spent(); got != reserved || reserved == 0 { // it may be billed
				t.Errorf("the budget has spent %d nano-USD, want the %d that it may have cost, once", got, reserved)
			}
		})
	}
}

// heldSubmission is a provider that has submitted its first job and does not say so
// before release.
type heldSubmission struct {
	providers.Provider
	providers.Background
	once               sync.Once
	submitted, release chan struct{}
	refused            atomic.Int64 // number of cancellations that fail
}

func (h *heldSubmission) Cancel(ctx context.Context, key, id string) error {
	if h.refused.Add(-1) >= 0 {
		return errors.New("connection refused")
	}
	return h.Background.Cancel(ctx, key, id)
}

func (h *heldSubmission) Submit(ctx context.Context, request *providers.Request) (string, error) {
	id, err := h.Background.Submit(ctx, request)
	h.once.Do(func() {
		close(h.submitted)
		<-h.release
	})
	return id, err
}

// server2 is a client of the bench's Redis that reaches it unless it is away.
func (b *bench) server2(away *atomic.Bool) *redis.Client {
	client := b.server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	client.AddHook(cutOffHook{away: away})
	return client
}

// cutOffHook fails commands while Redis is away: all of them, or only those of one name.
type cutOffHook struct {
	away *atomic.Bool
	only string
}

var errAway = errors.New("cut off: i/o timeout")

func (h cutOffHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if h.only == "" && h.away.Load() {
			return nil, errAway
		}
		return next(ctx, network, address)
	}
}

func (h cutOffHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if (h.only == "" || h.only == cmd.Name()) && h.away.Load() {
			cmd.SetErr(errAway)
			return errAway
		}
		return next(ctx, cmd)
	}
}

func (h cutOffHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.only == "" && h.away.Load() {
			return errAway
		}
		return next(ctx, cmds)
	}
}

// submitted are the jobs that the results stream tells of.
func (b *bench) submitted() (jobs []record.Job) {
	b.t.Helper()
	messages, err := b.store.Client().XRange(b.t.Context(), b.store.Keys().Results(b.id), "-", "+").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range messages {
		entry, err := record.DecodeEntry(m.Values)
		if err != nil {
			b.t.Fatal(err)
		}
		if entry.Job != nil {
			jobs = append(jobs, *entry.Job)
		}
	}
	return jobs
}

// created is when the evaluation's record was made.
func (b *bench) created() time.Time {
	b.t.Helper()
	r, err := b.store.Evaluation(b.t.Context(), b.id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Created
}
