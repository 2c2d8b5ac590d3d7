package providertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
)

// RunBackground runs the suite for jobs as parallel subtests of t. The dialect's provider must be a
// providers.Background.
func RunBackground(t *testing.T, d Dialect) {
	d.runAll(t, []test{
		{"from submission to result", submission, false},
		{"ends of jobs", ends, false},
		{"a job that fails", failedJob, false},
		{"a job that is lost", lostJob, false},
		{"a job whose answer is too long", longJob, false},
		{"cancellation", cancellation, false},
		{"submissions that fail", failedSubmissions, false},
		{"questions that fail", questions, false},
	})
}

func (s *site) background(t *testing.T) providers.Background {
	t.Helper()
	b, ok := s.provider.(providers.Background)
	if !ok {
		t.Fatalf("%T has no background", s.provider)
	}
	return b
}

// submit starts a job, which must be accepted.
func (s *site) submit(t *testing.T, req *providers.Request) (id string) {
	t.Helper()
	id, err := s.background(t).Submit(outliving(t), req)
	if err != nil || id == "" {
		t.Fatalf("got id %q and %v, want a job", id, err)
	}
	return id
}

// wait polls a job until it has ended.
func (s *site) wait(t *testing.T, id string) (*providers.Result, error) {
	t.Helper()
	var result *providers.Result
	var err error
	testrun.Eventually(t, "the job has ended", func() (done bool) {
		result, done, err = s.background(t).Poll(outliving(t), key, id)
		if !done && (err != nil || result != nil) {
			t.Fatalf("while it was under way: got %s, %v, want nothing", brief(result), err)
		}
		return done
	})
	return result, err
}

// submission checks that a job is submitted once, and that its result is that of a call. Any process that has its id
// may poll it, repeatedly.
func submission(t *testing.T, d Dialect) {
	const lasts = 50 * time.Millisecond
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: lasts, Max: lasts}}})
	req := d.request()
	if d.Capabilities.Search != "" {
		req.Search = true
	}
	id := s.submit(t, req)
	result, err := s.wait(t, id)
	if err != nil {
		t.Fatal(err)
	}
	used := s.waitForEnd(t)
	if !strings.Contains(result.Text, better) || result.Finish != providers.FinishStop ||
		result.Usage.Input != used.InputTokens || result.Usage.Output != used.OutputTokens || result.Grounding.Evident() != req.Search {
		t.Errorf("got %s, want %d and %d tokens, evidence: %v", brief(result), used.InputTokens, used.OutputTokens, req.Search)
	}

	s.provider = s.make(t, d)
	if again, done, err := s.background(t).Poll(outliving(t), key, id); err != nil || !done || again.Text != result.Text {
		t.Errorf("asked elsewhere: got %s, %v, %v, want the same", brief(again), done, err)
	}
	if used.Submitted != 1 {
		t.Errorf("got %d jobs, want 1", used.Submitted)
	}
}

// ends checks that a job can end in the same ways as a call.
func ends(t *testing.T, d Dialect) {
	for want, behaviour := range map[providers.Finish]simulator.Behaviour{
		providers.FinishTruncated: {TruncateRate: 1},
		providers.FinishRefused:   {RefuseRate: 1},
	} {
		s := d.start(t, simulator.Config{Behaviour: behaviour})
		if result, err := s.wait(t, s.submit(t, d.request())); err != nil || result.Finish != want {
			t.Errorf("got %s, %v, want %s", brief(result), err, want)
		}
	}
}

// failedJob checks that a failed job has ended, and that it may be billed.
func failedJob(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{FailRate: 1, FailAs: simulator.FailedIn200}})
	_, err := s.wait(t, s.submit(t, d.request()))
	var failed *providers.Error
	if !errors.As(err, &failed) || !failed.Class.Retryable() || !failed.MayBeBilled {
		t.Errorf("got %s, want a failure that another attempt may mend, may be billed", told(err))
	}
}

// lostJob checks that a job which the provider does not know has ended.
func lostJob(t *testing.T, d Dialect) {
	for name, behaviour := range map[string]simulator.Behaviour{"forgotten": {LoseRate: 1}, "never there": {}} {
		s := d.start(t, simulator.Config{Behaviour: behaviour})
		id := s.submit(t, d.request())
		if behaviour.LoseRate == 0 {
			id += "0"
		}
		result, done, err := s.background(t).Poll(outliving(t), key, id)
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != providers.Lost || !failed.MayBeBilled || !done || result != nil {
			t.Errorf("%s: got %s, %v, %s, want it to be done as %s, may be billed", name, brief(result), done, told(err), providers.Lost)
		}
	}
}

// longJob checks that a job whose answer is too long has ended, because polling it again would return the same
// answer.
func longJob(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{AnswerBytes: providers.DefaultAnswer}})
	_, err := s.wait(t, s.submit(t, d.request()))
	var failed *providers.Error
	if !errors.As(err, &failed) || failed.Class != providers.Malformed || !failed.MayBeBilled {
		t.Errorf("got %s, want %s, may be billed", told(err), providers.Malformed)
	}
}

// cancellation checks that a running job has no result, and that cancelling it is idempotent. Cancelling a job that
// has ended must not change it.
func cancellation(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{HangRate: 1}})
	id := s.submit(t, d.request())
	if result, done, err := s.background(t).Poll(outliving(t), key, id); result != nil || done || err != nil {
		t.Errorf("under way: got %s, %v, %v, want nothing", brief(result), done, err)
	}
	for range 2 {
		if err := s.background(t).Cancel(outliving(t), key, id); err != nil {
			t.Errorf("under way: got %v", err)
		}
	}
	if _, done, err := s.background(t).Poll(outliving(t), key, id); !done || providers.ClassOf(err) != providers.Cancelled {
		t.Errorf("got %v, %v, want it to be done as %s", done, err, providers.Cancelled)
	}
	if all := s.waitForEnd(t); all.InFlight != 0 {
		t.Errorf("in flight: got %d, want 0", all.InFlight)
	}

	s = d.start(t, simulator.Config{})
	id = s.submit(t, d.request())
	want, err := s.wait(t, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.background(t).Cancel(outliving(t), key, id); err != nil {
		t.Errorf("after its end: got %v", err)
	}
	if got, done, err := s.background(t).Poll(outliving(t), key, id); err != nil || !done || got.Text != want.Text {
		t.Errorf("after its end: got %s, %v, %v, want its result", brief(got), done, err)
	}
	if err := s.background(t).Cancel(outliving(t), key, id+"0"); err != nil {
		t.Errorf("of a job that is not there: got %v", err)
	}
}

// failedSubmissions checks that a failed submission returns no id. If its answer was lost, it may be billed.
func failedSubmissions(t *testing.T, d Dialect) {
	for _, test := range []struct {
		behaviour simulator.Behaviour
		class     providers.Class
		billed    bool
	}{
		{simulator.Behaviour{FailRate: 1, FailAs: simulator.RateLimited}, providers.RateLimited, false},
		{simulator.Behaviour{FailRate: 1, FailAs: simulator.BadRequest}, providers.BadRequest, false},
		{simulator.Behaviour{CutRate: 1}, providers.Transient, true},
	} {
		s := d.start(t, simulator.Config{Behaviour: test.behaviour})
		id, err := s.background(t).Submit(outliving(t), d.request())
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != test.class || failed.MayBeBilled != test.billed || id != "" {
			t.Errorf("got %q, %s, want %s, may be billed: %v", id, told(err), test.class, test.billed)
		}
	}

	s := d.start(t, simulator.Config{})
	req, gone := d.request(), errors.New("the lease is gone")
	req.Ready = func() error { return gone }
	_, err := s.background(t).Submit(outliving(t), req)
	if requests, _ := s.calls(); !errors.Is(err, gone) || requests != 0 {
		t.Errorf("not ready: got %v and %d requests, want %v and none", err, requests, gone)
	}
}

// questions checks that a failed poll does not end the job, and is not billed.
func questions(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Keys: []string{key}, Behaviour: simulator.Behaviour{HangRate: 1}})
	id := s.submit(t, d.request())
	ended, end := context.WithCancel(outliving(t))
	end()
	for want, ask := range map[providers.Class]func() (*providers.Result, bool, error){
		providers.Auth: func() (*providers.Result, bool, error) {
			return s.background(t).Poll(outliving(t), "sk-another", id)
		},
		providers.Cancelled: func() (*providers.Result, bool, error) { return s.background(t).Poll(ended, key, id) },
	} {
		result, done, err := ask()
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != want || failed.MayBeBilled || done || result != nil {
			t.Errorf("got %s, %v, %s, want %s, unbilled, and the job not done", brief(result), done, told(err), want)
		}
	}
	if err := s.background(t).Cancel(outliving(t), "sk-another", id); providers.ClassOf(err) != providers.Auth {
		t.Errorf("cancelled with another key: got %v, want %s", err, providers.Auth)
	}
	if all := s.Stats().All; all.InFlight != 1 {
		t.Errorf("in flight: got %d, want 1", all.InFlight)
	}
}
