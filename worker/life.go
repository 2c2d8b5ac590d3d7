package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
	"github.com/evalfleet/evalfleet/worker/internal/pulse"
)

// How long writing answers may take: after the grace period, and after Config.AtOnce.
const (
	lastWords = 5 * time.Second
	hurry     = time.Second
)

// beat is how often the progress of handlers is checked.
const beat = time.Second

// ErrStuck means that a handler did not return, long after its deadline. The process must end, because the handler may
// hold slots, leases and tasks.
var ErrStuck = errors.New("a run is stuck in this process; others take over its runs")

// life holds what outlasts the sessions of one Run: the handlers that a fenced session left behind with unwritten
// outcomes, and the outcomes that Redis may still lose.
type life struct {
	client  redis.Cmdable
	log     zerolog.Logger
	ledger  *ledger.Ledger
	cache   *call.Cache
	notes   *ratelimit.Notes
	watched chan struct{} // closed when the watcher has ended
	stuck   chan struct{} // closed when a handler is late
	idle    chan struct{} // closed at the end, when no handler is left but those that are stuck

	previous string // ID of the worker before this session, which could not renew; "": none

	looking sync.Mutex // one look at a time
	away    bool       // Redis did not answer the last look

	mu       sync.Mutex            // guards all below
	session  *session              // the active session; nil: none
	handlers map[*pulse.Pulse]bool // true: it is stuck
	ending   bool                  // no more handlers may begin
}

func newLife(cfg Config) *life {
	limiter := ratelimit.NewAdmin(cfg.Client, ratelimit.Config{Namespace: cfg.Namespace, Lease: cfg.Lease})
	return &life{
		client: cfg.Client, log: cfg.Log, ledger: ledger.New(store.New(cfg.Client, cfg.Namespace), limiter),
		cache: call.NewCache(cfg.Cache), notes: &ratelimit.Notes{}, watched: make(chan struct{}),
		stuck: make(chan struct{}), idle: make(chan struct{}), handlers: map[*pulse.Pulse]bool{},
	}
}

func (l *life) enter(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
}

// begin registers the handler of this goroutine. Call leave when it returns. ok is false if the life is over.
func (l *life) begin() (p *pulse.Pulse, leave func(), ok bool) {
	p = pulse.New()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return nil, nil, false
	}
	l.handlers[p] = false
	return p, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.handlers, p)
		l.settle()
	}, true
}

// settle closes idle once the life is ending and only stuck handlers are left. The caller has mu.
func (l *life) settle() {
	if !l.ending {
		return
	}
	for _, stuck := range l.handlers {
		if !stuck {
			return
		}
	}
	select {
	case <-l.idle:
	default:
		close(l.idle)
	}
}

// close prevents further handlers from beginning.
func (l *life) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.settle()
}

// guard checks the handlers' progress at intervals until the life is over. A handler that is late ends the worker. It
// may hold a slot, a lease and a task for as long as the process lives, because the process's heartbeat would keep them
// from others. The other handlers have their grace period.
func (l *life) guard(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-l.watched:
			return
		}
		if late := l.late(); len(late) > 0 {
			l.log.Error().Int("runs", len(late)).Str("stack", pulse.Stacks(late)).
				Msg("a run is stuck long after its timeout; this worker ends, so that others take over its runs")
		}
	}
}

// late counts a beat, and returns the handlers that have become late.
func (l *life) late() (late []*pulse.Pulse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, stuck := range l.handlers {
		if !stuck && p.Beat(beat) {
			l.handlers[p] = true
			late = append(late, p)
		}
	}
	if len(late) == 0 {
		return nil
	}
	l.ending = true
	select {
	case <-l.stuck:
	default:
		close(l.stuck)
	}
	l.settle()
	return late
}

// end waits for the remaining handlers, which give up unwritten results within grace, or soon
// after atOnce. Its error is ErrStuck if one of them does not return.
func (l *life) end(grace time.Duration, atOnce <-chan struct{}) error {
	defer func() {
		l.ledger.Close()
		<-l.watched
	}()
	l.close()
	timer := time.NewTimer(grace + lastWords)
	defer timer.Stop()
	select {
	case <-l.idle:
		return l.left()
	case <-timer.C:
	case <-atOnce:
		select {
		case <-l.idle:
			return l.left()
		case <-time.After(hurry):
		}
	}

	l.ledger.Close()
	select {
	case <-l.idle:
	case <-time.After(lastWords):
	}
	return l.left()
}

// left returns ErrStuck if a handler is left.
func (l *life) left() error {
	l.mu.Lock()
	left := slices.Collect(maps.Keys(l.handlers))
	l.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	l.log.Error().Int("runs", len(left)).Str("stack", pulse.Stacks(left)).Msg("the worker ends without runs that do not return")
	return ErrStuck
}

const (
	// watchEvery is how often Redis is checked for lost writes.
	watchEvery = time.Second
	// lookTime is how long Redis may take to answer.
	lookTime = 2 * time.Second
)

// watch calls look at intervals until nothing can be written any more.
func (l *life) watch(ctx context.Context) {
	defer close(l.watched)
	ctx, release := l.ledger.Lasting(ctx)
	defer release()
	for outage.Pause(ctx, watchEvery) == nil {
		l.checkRedis(ctx)
	}
}

// checkRedis checks Redis. It logs once that Redis is unreachable, and once that it is back, and repairs what Redis has lost.
// Runs that wait for a call under a lost record make none, because they are pushed again under the next record.
func (l *life) checkRedis(ctx context.Context) {
	l.looking.Lock()
	defer l.looking.Unlock()
	l.mu.Lock()
	s := l.session
	l.mu.Unlock()
	err := l.ping(ctx)
	if err == nil && s != nil {
		err = l.ledger.Look(ctx, s.worker.Limiter.Memory(), s.worker.Evaluations.Created(s.worker.Halts.Held()), func(id eval.ID) {
			s.worker.Evaluations.Forget(id)
			s.worker.Halts.End(id)
		})
	}

	if ctx.Err() != nil {
		return
	}
	before := l.away
	l.away = outage.Temporary(err)
	switch {
	case l.away && !before:
		l.log.Warn().Err(err).Msg("Redis is unreachable or refuses writes; no call starts, and answers are kept until it recovers")
	case before && !l.away:
		l.log.Info().Msg("Redis answers again")
	}
}

func (l *life) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return l.client.Ping(ctx).Err()
}
