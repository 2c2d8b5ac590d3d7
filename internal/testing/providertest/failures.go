package providertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
)

// hint is the delay after which failures ask to retry.
const hint = 7 * time.Second

// failures checks the class of each kind of failure, and whether it may be billed. Failures that are worth waiting
// for must have the delay.
func failures(t *testing.T, d Dialect) {
	for _, test := range []struct {
		failure simulator.Failure
		classes []providers.Class // any of these is right
		hinted  bool
		billed  bool
	}{
		{simulator.RateLimited, []providers.Class{providers.RateLimited}, true, false},
		{simulator.Overloaded, []providers.Class{providers.Overloaded}, true, false},
		{simulator.ServerError, []providers.Class{providers.Transient}, false, true},
		{simulator.QuotaDaily, []providers.Class{providers.QuotaDaily}, false, false},
		{simulator.QuotaBilling, []providers.Class{providers.QuotaBilling}, false, false},
		{simulator.SpendLimit, []providers.Class{providers.QuotaBilling}, false, false},
		{simulator.ContextLength, []providers.Class{providers.ContextLength}, false, false},
		{simulator.Auth, []providers.Class{providers.Auth}, false, false},
		{simulator.ModelUnavailable, []providers.Class{providers.ModelUnavailable}, false, false},
		{simulator.BadRequest, []providers.Class{providers.BadRequest}, false, false},
		{simulator.FailedIn200, []providers.Class{providers.Transient, providers.RateLimited}, false, true},
		{simulator.Garbage, []providers.Class{providers.Transient}, false, true},
		{simulator.Loading, []providers.Class{providers.Overloaded, providers.Transient}, false, false},
	} {
		if slices.Contains(d.Unknown, test.failure) {
			continue
		}
		t.Run(string(test.failure), func(t *testing.T) {
			t.Parallel()
			behaviour := simulator.Behaviour{FailRate: 1, FailAs: test.failure, Hints: simulator.HintSeconds}
			if test.failure != simulator.QuotaBilling { // with one, OpenRouter's 402 means something else
				behaviour.RetryAfter = simulator.Span{Min: hint, Max: hint}
			}
			s := d.start(t, simulator.Config{Behaviour: behaviour})
			for range 2 {
				failed := s.fails(t, d.request())
				billed := test.billed || failed.Class == providers.Transient
				if !slices.Contains(test.classes, failed.Class) || failed.MayBeBilled != billed || failed.Status == 0 || len(failed.Raw) == 0 {
					t.Errorf("got %s, want one of %v, may be billed: %v", told(failed), test.classes, billed)
				}
				if test.hinted && !d.WithoutHints && failed.RetryAfter != hint {
					t.Errorf("retry after: got %v, want %v", failed.RetryAfter, hint)
				}
				if !failed.Class.Retryable() && failed.Class != providers.QuotaDaily && failed.RetryAfter != 0 {
					t.Errorf("retry after: got %v for %s, want none", failed.RetryAfter, failed.Class)
				}
			}
			if requests, connections := s.calls(); requests != 2 || connections != 1 {
				t.Errorf("got %d requests over %d connections, want 2 over 1", requests, connections)
			}
		})
	}

	if slices.Contains(d.Unknown, simulator.Refused) {
		return
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		if slices.Contains(d.Unknown, simulator.Refused) {
			t.Skip("this dialect has no word for a refusal")
		}
		s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{FailRate: 1, FailAs: simulator.Refused}})
		result, err := s.provider.Call(t.Context(), d.request())
		refused := err == nil && result.Finish == providers.FinishRefused || err != nil && providers.ClassOf(err) == providers.Refused
		if !refused {
			t.Errorf("got %s, %v, want a refusal", brief(result), err)
		}
	})
}

// notReady checks that nothing is sent if the caller's Ready returns an error just before.
func notReady(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	gone := errors.New("the lease is gone")
	req := d.request()
	req.Ready = func() error { return gone }
	failed := s.fails(t, req)
	if requests, _ := s.calls(); !errors.Is(failed, gone) || failed.MayBeBilled || requests != 0 {
		t.Errorf("got %s and %d requests, want %v, unbilled, and none", told(failed), requests, gone)
	}
	var asked atomic.Bool
	req.Ready = func() error { asked.Store(true); return nil }
	s.answer(t, req)
	if !asked.Load() {
		t.Error("not asked before the request was sent")
	}
}

// cancelled checks that a call ends with its context, at both ends of the connection.
func cancelled(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{HangRate: 1}})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("it is no longer wanted")
	go func() {
		<-s.arrived
		cancel(enough)
	}()
	failed := s.failure(ctx, t, d.request())
	if failed.Class != providers.Cancelled || !failed.MayBeBilled || !errors.Is(failed, enough) {
		t.Errorf("got %s, want %s because of %q, may be billed", told(failed), providers.Cancelled, enough)
	}
	if all := s.waitForEnd(t); all.Abandoned != 1 {
		t.Errorf("abandoned: got %d, want 1", all.Abandoned)
	}
}

// expiring is a context whose deadline passes when its channel is closed.
type expiring struct {
	context.Context
	passed chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.passed }

func (e expiring) Err() error {
	select {
	case <-e.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// outOfTime checks that a call ends at its deadline, whether nothing has arrived or only a part of the answer.
func outOfTime(t *testing.T, d Dialect) {
	endless := simulator.Span{Min: time.Hour, Max: time.Hour}
	for name, behaviour := range map[string]simulator.Behaviour{
		"nothing comes": {HangRate: 1},
		"too slowly":    {Trickle: endless},
	} {
		s := d.start(t, simulator.Config{Behaviour: behaviour})
		ctx := expiring{t.Context(), make(chan struct{})}
		go func() {
			<-s.arrived
			close(ctx.passed)
		}()
		failed := s.failure(ctx, t, d.request())
		if failed.Class != providers.Timeout || !failed.MayBeBilled || !errors.Is(failed, context.DeadlineExceeded) {
			t.Errorf("%s: got %s, want %s, may be billed", name, told(failed), providers.Timeout)
		}
		if all := s.waitForEnd(t); all.Abandoned != 1 {
			t.Errorf("%s: abandoned: got %d, want 1", name, all.Abandoned)
		}
	}
}

// cutBody checks that a truncated body is a failure.
func cutBody(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Behaviour: simulator.Behaviour{CutRate: 1}})
	failed := s.fails(t, d.request())
	if requests, _ := s.calls(); failed.Class != providers.Transient || !failed.MayBeBilled || requests != 1 {
		t.Errorf("got %s after %d requests, want %s, may be billed, after 1", told(failed), requests, providers.Transient)
	}
}

// keys checks that a key is sent in its header and nowhere else. A wrong or missing key must be reported as such.
func keys(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{Keys: []string{key}})
	req := d.request()
	s.answer(t, req)
	last := s.last(t)
	for name, values := range last.header {
		if has := strings.Contains(strings.Join(values, " "), key); has != strings.EqualFold(name, d.KeyHeader) {
			t.Errorf("header %s: got %q, want the key in %s alone", name, values, d.KeyHeader)
		}
	}
	if strings.Contains(last.url+last.body, key) {
		t.Errorf("the key is not only in a header: %s %s", last.url, last.body)
	}
	if header, sent := s.LastKey(); sent != key || !strings.EqualFold(header, d.KeyHeader) {
		t.Errorf("the simulator was shown %q in %s, want %q in %s", sent, header, key, d.KeyHeader)
	}
	for _, other := range []string{"", "sk-another"} {
		req.Key = other
		if failed := s.fails(t, req); failed.Class != providers.Auth || failed.MayBeBilled {
			t.Errorf("with key %q: got %s, want %s, unbilled", other, told(failed), providers.Auth)
		}
	}
}
