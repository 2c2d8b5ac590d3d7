package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// fakeCache is a Cache of what it is told.
type fakeCache struct {
	err error

	mu    sync.Mutex // guards calls
	calls map[string]record.Call
}

func (f *fakeCache) Answered(_ context.Context, key string) (record.Call, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call, found := f.calls[key]
	return call, found, f.err
}

// learn takes the calls of a bench's runs in.
func (f *fakeCache) learn(calls []record.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]record.Call{}
	}
	for _, call := range calls {
		if call.Class == "" {
			f.calls[call.Key] = call
		}
	}
}

type change = func(*eval.Evaluation, map[string]string, *record.Settings)

func cached(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Cache = true }

// madeWith carries an evaluation out and returns the calls that reached the
// provider, and those that are recorded.
func madeWith(t *testing.T, cache Cache, changes ...change) (made int, calls []record.Call) {
	t.Helper()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(3, changes...)
	cfg := b.config()
	cfg.Cache = cache
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	made, _ = b.provider.count()
	_, calls = b.outcomes()
	return made, calls
}

// TestSameCallsAreMadeOnce: what was answered for one evaluation answers another
// that asks the same, and nothing that asks in any other way.
func TestSameCallsAreMadeOnce(t *testing.T) {
	t.Parallel()
	cache := &fakeCache{}
	made, calls := madeWith(t, cache, cached)
	if made != 6 {
		t.Fatalf("%d calls were made at first, want 6", made)
	}
	cache.learn(calls)
	override := func(key string, value any) change {
		return func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
			e.Judges[0].Overrides = map[string]any{key: value}
		}
	}
	for _, tt := range []struct {
		name   string
		change change
		made   int
	}{
		{"another name", func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Name = "another" }, 0},
		{"a judge of another name", func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Judges[0].Name = "x" }, 0},
		{"a budget", func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Retry.MaxAttempts = 7 }, 0},
		{"two trials", func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Pairwise.Trials = 2 }, 6},
		{"asked again", func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Again = "once more" }, 6},
		{"another temperature", override("temperature", 0.5), 6},
		{"another bound", override("max_completion_tokens", 99.0), 6},
		{"another field", override("seed", 3.0), 6},
		{"another template", func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
			e.Pairwise.Template = "Which is better?\n[[documents]]\n[[answer_format]]"
		}, 6},
		{"another model", func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Judges[0].Model = "n" }, 6},
		{"no cache", func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Cache = false }, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			made, calls := madeWith(t, cache, cached, tt.change)
			if made != tt.made {
				t.Errorf("%d calls were made, want %d", made, tt.made)
			}
			found := 0
			for _, call := range calls {
				if !call.Cached {
					continue
				}
				found++
				if call.Key == "" || !call.Started.IsZero() || call.Text == "" || call.Usage.Input+call.Usage.Output != 0 || *call.Usage.CostUSD != 0 {
					t.Errorf("a call that was answered before is %+v; want a key, an answer, and nothing begun, used or charged", call)
				}
			}
			if found != len(calls)-made {
				t.Errorf("%d of %d calls were answered before, and %d were made", found, len(calls), made)
			}
		})
	}
}

// TestRunsMadeAgainAskAgain: a run of a later generation is answered only by the provider.
func TestRunsMadeAgainAskAgain(t *testing.T) {
	t.Parallel()
	cache := &fakeCache{}
	_, calls := madeWith(t, cache, cached)
	cache.learn(calls)
	fails := true
	provider := &fakeProvider{}
	provider.answer = func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		provider.mu.Lock()
		defer provider.mu.Unlock()
		if fails {
			return nil, &providers.Error{Class: providers.BadRequest, Message: "no"}
		}
		return firstWins(ctx, n, request)
	}
	b := setup(t, provider)
	b.submit(3, cached)
	cfg := b.config()
	stop := b.start(cfg) // without a cache
	b.wait()
	stop()
	provider.mu.Lock()
	fails = false
	provider.mu.Unlock()
	if _, err := b.enqueuer().Retry(t.Context(), b.id, func(enqueue.Recorded) bool { return true }); err != nil {
		t.Fatal(err)
	}
	before, _ := provider.count()
	cfg.Cache = cache
	defer b.start(cfg)()
	b.waitFor("every run has succeeded", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) == b.runs })
	if made, _ := provider.count(); made-before != b.runs {
		t.Errorf("%d of %d runs were asked again", made-before, b.runs)
	}
}

// TestCacheThatCannotAnswer: an evaluation continues, and the problem is logged once.
func TestCacheThatCannotAnswer(t *testing.T) {
	t.Parallel()
	for what, cache := range map[string]Cache{"--cache": nil, "cannot read cached answers": &fakeCache{err: errors.New("locked")}} {
		b := setup(t, &fakeProvider{answer: firstWins})
		b.submit(3, cached)
		cfg := b.config()
		var log lockedLog
		cfg.Cache, cfg.Log = cache, zerolog.New(&log)
		stop := b.start(cfg)
		b.wait()
		stop()
		if made, _ := b.provider.count(); made != 6 || strings.Count(log.String(), what) != 1 {
			t.Errorf("%d calls were made and the log says\n%s\nwant 6, and %q once", made, log.String(), what)
		}
	}
}

type lockedLog struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
