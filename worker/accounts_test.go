package worker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// served is a simulated account, with limits of its own that its server enforces.
type served struct {
	t      testing.TB
	name   string
	cfg    simulator.Config
	server *simulator.Server
	before simulator.Counts // of servers that ended
}

func serve(t testing.TB, name string, cfg simulator.Config) *served {
	t.Helper()
	a := &served{t: t, name: name, cfg: cfg}
	a.listen("127.0.0.1:0")
	t.Cleanup(a.close)
	return a
}

func (a *served) listen(address string) {
	a.t.Helper()
	var err error
	if a.server, err = simulator.Listen(address, a.cfg); err != nil {
		a.t.Fatal(err)
	}
}

// close ends the server, and keeps what it has counted.
func (a *served) close() {
	if a.server == nil {
		return
	}
	a.before = a.counts()
	if err := a.server.Close(); err != nil {
		a.t.Error(err)
	}
	a.server = nil
}

// counts is what all servers of the account have seen.
func (a *served) counts() simulator.Counts {
	all := a.before
	if a.server != nil {
		now := a.server.Stats().Models["careful"]
		all.Arrived, all.Answered, all.Rejected = all.Arrived+now.Arrived, all.Answered+now.Answered, all.Rejected+now.Rejected
	}
	return all
}

// pool makes accounts those of the provider p, for workers of the bench.
func (b *bench) pool(cfg *Config, accounts ...*served) {
	b.t.Helper()
	client := transport.NewClient(transport.Connections{Slots: 50})
	b.t.Cleanup(client.CloseIdleConnections)
	var names []string
	for _, a := range accounts {
		entry := catalog.Entry{Name: "p/" + a.name, Dialect: catalog.Simulator, BaseURL: a.server.URL + "/v1"}
		provider, err := entry.Open(client, catalog.Credentials{})
		if err != nil {
			b.t.Fatal(err)
		}
		cfg.Endpoints[entry.Name] = providers.Endpoint{Provider: provider, Key: "key-of-" + a.name, Capabilities: entry.Capabilities}
		names = append(names, entry.Name)
	}
	all := cfg.Endpoints[names[0]]
	all.Accounts, all.Configured = names, names
	cfg.Endpoints["p"] = all
}

func careful(limits ...ratelimit.Limit) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Judges = []eval.Judge{{Name: "judge", Provider: "p", Model: "careful"}}
		s.Limits = limits
		s.Retry.MaxAttempts = 3
		s.Outage = time.Hour
	}
}

func at(name string, limit ratelimit.Limit) ratelimit.Limit {
	limit.Provider = "p/" + name
	return limit
}

// Accounts with different limits share an evaluation's calls, and one of them dies and comes back. No account refuses a
// call, the others go on, and each run is recorded once with the account that answered.
func TestAccountsShareRuns(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	latency := simulator.Behaviour{Latency: simulator.Span{Min: 5 * time.Millisecond, Max: 15 * time.Millisecond}}
	strict := func(inFlight int) simulator.Config {
		return simulator.Config{Behaviour: latency, Limits: simulator.Limits{MaxInFlight: inFlight}}
	}
	large, small, tiny := serve(t, "large", strict(6)), serve(t, "small", strict(3)), serve(t, "tiny", strict(1))
	accounts := []*served{large, small, tiny}
	most := func(n int64) ratelimit.Limit { return ratelimit.Limit{Kind: ratelimit.Concurrency, Max: n} }

	b := setup(t, nil)
	b.submit(24, careful(at("large", most(6)), at("small", most(3)), at("tiny", most(1))))
	cfg := b.config()
	b.pool(&cfg, accounts...)
	var begun sync.Map // where, by the name that budgets and quotas know
	cfg.Observer.Begun = func(call observe.Begun) { begun.Store(call.Call, call.Target) }
	defer b.start(cfg)()
	defer b.start(cfg)()

	address := strings.TrimPrefix(small.server.URL, "http://")
	testrun.Eventually(t, "each account has answered", func() bool {
		return large.counts().Answered > 20 && small.counts().Answered > 10 && tiny.counts().Answered > 3
	})
	small.close()
	before := large.counts().Answered
	testrun.Eventually(t, "the others go on, or have ended", func() bool {
		now := large.counts().Answered
		return now > before+50 || now+small.counts().Answered+tiny.counts().Answered >= int64(b.runs)
	})
	small.listen(address)
	b.wait()

	b.wantEachOnce()
	runs, calls := b.outcomes()
	for index, of := range runs {
		if of[0].Class != "" {
			t.Errorf("run %d: %s %s", index, of[0].Class, of[0].Error)
		}
	}
	by := map[string]int64{}
	for _, call := range calls {
		if call.Class == "" {
			by[call.Account]++
		}
		if where, ok := begun.Load(string(b.id) + "." + call.ID); !ok || where != call.CalledAt() {
			t.Errorf("call %s of %s was begun as %v", call.ID, call.CalledAt(), where)
		}
	}
	for _, a := range accounts {
		seen := a.counts()
		if seen.Rejected > 0 {
			t.Errorf("account %s refused %d of %d calls", a.name, seen.Rejected, seen.Arrived)
		}
		// An answer that has arrived may be none in the counts of a provider that was closed meanwhile.
		if recorded := by["p/"+a.name]; recorded == 0 || recorded > seen.Arrived {
			t.Errorf("%d calls of account %s are recorded, and %d arrived there", recorded, a.name, seen.Arrived)
		}
	}
	if len(by) != len(accounts) {
		t.Errorf("calls are recorded with the accounts %v", by)
	}
	t.Logf("%d runs by account: %v", b.runs, by)
}

// An account whose key is refused stops nothing: its calls are made at another, and one at a time tries it again. Only
// when no account is left does the evaluation stop asking the provider, and says so.
func TestAccountWithARefusedKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		valid  []string // keys that the second account accepts
		paused bool
	}{
		"of two":      {valid: nil},
		"as of both":  {valid: []string{"another"}, paused: true},
		"of this one": {valid: []string{"key-of-sound"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			revoked := serve(t, "revoked", simulator.Config{Keys: []string{"another"}})
			sound := serve(t, "sound", simulator.Config{Keys: test.valid})
			b := setup(t, nil)
			b.submit(5, careful())
			cfg := b.config()
			b.pool(&cfg, revoked, sound)
			defer b.start(cfg)()

			if test.paused {
				b.waitFor("the provider is paused", func(s store.Standing) bool { return s.Paused["p"].Class == providers.Auth })
				return
			}
			b.wait()
			runs, calls := b.outcomes()
			for index, of := range runs {
				if of[0].Class != "" || of[0].Attempts != 1 {
					t.Errorf("run %d: %s %s after %d attempts, want an answer at the first", index, of[0].Class, of[0].Error, of[0].Attempts)
				}
			}
			refused := 0
			for _, call := range calls {
				switch {
				case call.Class == "" && call.Account != "p/sound":
					t.Errorf("a call of account %q was answered", call.Account)
				case call.Class != "":
					refused++
				}
			}
			if refused == 0 {
				t.Error("no call was refused: the account with the wrong key was never tried")
			}
		})
	}
}

// A batch stays with the account to which it was submitted: it is polled and read there alone, and looked for there if its
// submission was not answered.
func TestBatchStaysWithItsAccount(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	one, two := newBatcher(), newBatcher()
	open := [2]func(){one.hold(), two.hold()}
	b := setup(t, nil)
	b.submit(6, inBatches(5))
	cfg := b.brief()
	capable := func(string) providers.Capabilities { return providers.Capabilities{Batch: true} }
	cfg.Endpoints = map[string]providers.Endpoint{
		"p/one": {Provider: one, Key: "1", Capabilities: capable}, "p/two": {Provider: two, Key: "2", Capabilities: capable},
		"p": {Provider: one, Key: "1", Capabilities: capable, Accounts: []string{"p/one", "p/two"}},
	}
	defer b.start(cfg)()
	defer b.start(cfg)()
	atLeast := func(of *batcher, most int) bool {
		batches, _ := of.counts()
		return batches >= most
	}
	testrun.Eventually(t, "each account has batches", func() bool { return atLeast(one, 2) && atLeast(two, 2) })
	open[0]()
	open[1]()
	b.wait()

	b.wantEachOnce()
	_, calls := b.outcomes()
	by := map[string]int{}
	for _, call := range calls {
		if call.Class != "" {
			t.Errorf("call %s: %s %s", call.ID, call.Class, call.Error)
		}
		by[call.Account]++
	}
	asked := map[string]int{}
	for name, of := range map[string]*batcher{"p/one": one, "p/two": two} {
		_, asked[name] = of.counts()
		if calls, _ := of.count(); calls > 0 {
			t.Errorf("%d runs were asked alone at %s", calls, name)
		}
	}
	if fmt.Sprint(asked) != fmt.Sprint(by) || asked["p/one"]+asked["p/two"] != b.runs {
		t.Errorf("the accounts were asked %v, and %v are recorded; want the same, and %d in all", asked, by, b.runs)
	}
}

// A batch at an account that a worker cannot call waits for one that can, and the worker says so.
func TestBatchOfAnAccountThatIsAway(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	away := newBatcher()
	open := away.hold()
	b := setup(t, nil)
	b.submit(4, inBatches(100))
	capable := func(string) providers.Capabilities { return providers.Capabilities{Batch: true} }
	cfg := b.config()
	there := providers.Endpoint{Provider: away, Key: "1", Capabilities: capable}
	here := providers.Endpoint{Provider: newBatcher(), Key: "2", Capabilities: capable}
	pool := func(of providers.Endpoint, accounts ...string) providers.Endpoint {
		of.Accounts = accounts
		return of
	}
	cfg.Endpoints = map[string]providers.Endpoint{"p/away": there, "p": pool(there, "p/away")}
	stop := b.start(cfg)
	testrun.Eventually(t, "the batch is submitted", func() bool {
		jobs, err := b.store.Jobs(t.Context(), b.id)
		return err == nil && len(jobs) == 1
	})
	stop()
	open()

	other := cfg
	var log spoken
	other.Log = zerolog.New(zerolog.MultiLevelWriter(zerolog.NewTestWriter(t), &log)).Level(zerolog.WarnLevel)
	other.Endpoints = map[string]providers.Endpoint{"p/here": here, "p": pool(here, "p/here")}
	stop = b.start(other)
	testrun.Eventually(t, "the worker says that the batch is elsewhere", func() bool {
		log.mu.Lock()
		defer log.mu.Unlock()
		return strings.Contains(log.text.String(), "p/away, which cannot be called from here")
	})
	stop()
	defer b.start(cfg)()
	b.wait()
	b.wantBatches(away, 1, 0)
}
