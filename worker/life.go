package worker

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
)

// How long writing answers may take: beyond the grace period, and after Config.AtOnce.
const (
	lastWords = 5 * time.Second
	hurry     = time.Second
)

// life is what outlasts the sessions of one Run: the handlers that a fenced
// session left behind, which have outcomes in hand, and the outcomes that Redis
// may still lose.
type life struct {
	client  redis.UniversalClient
	log     zerolog.Logger
	ledger  *ledger.Ledger
	cache   *call.Cache
	memory  *ratelimit.Memory
	watched chan struct{} // closed when the watcher has ended

	looking sync.Mutex // one look at a time
	away    bool       // Redis did not answer the last one

	mu       sync.Mutex // guards all below
	session  *session   // the one that works; nil: none
	handlers int
	idle     chan struct{} // made at the end, closed when no handler is left
}

func newLife(cfg Config) *life {
	limiter := ratelimit.NewAdmin(cfg.Client, ratelimit.Config{Namespace: cfg.Namespace, Lease: cfg.Lease})
	return &life{
		client: cfg.Client, log: cfg.Log, ledger: ledger.New(store.New(cfg.Client, cfg.Namespace), limiter),
		cache: call.NewCache(cfg.Cache), memory: &ratelimit.Memory{}, watched: make(chan struct{}),
	}
}

func (l *life) enter(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
}

// begin lets a handler begin; leave must be called when it returns. ok is false
// when the life is over.
func (l *life) begin() (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle != nil {
		return nil, false
	}
	l.handlers++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.handlers--; l.handlers == 0 && l.idle != nil {
			close(l.idle)
		}
	}, true
}

// end waits for the remaining handlers, which give up unwritten results within grace, or soon
// after atOnce.
func (l *life) end(grace time.Duration, atOnce <-chan struct{}) {
	defer func() {
		l.ledger.Close()
		<-l.watched
	}()
	l.mu.Lock()
	l.idle = make(chan struct{})
	if l.handlers == 0 {
		close(l.idle)
	}
	l.mu.Unlock()
	timer := time.NewTimer(grace + lastWords)
	defer timer.Stop()
	select {
	case <-l.idle:
		return
	case <-timer.C:
	case <-atOnce:
		select {
		case <-l.idle:
			return
		case <-time.After(hurry):
		}
	}
	l.ledger.Close()
	<-l.idle
}

const (
	// watchEvery is how often Redis is checked for lost writes.
	watchEvery = time.Second
	// lookTime is how long Redis may take to answer that it is there.
	lookTime = 2 * time.Second
)

// watch looks at Redis until nothing can be written down any more.
func (l *life) watch(ctx context.Context) {
	defer close(l.watched)
	ctx, release := l.ledger.Lasting(ctx)
	defer release()
	for outage.Pause(ctx, watchEvery) == nil {
		l.look(ctx)
	}
}

// look notices that Redis is unreachable, logs that once, and its return once, and repairs what
// Redis has lost: runs that wait for a call under a lost record begin none, because they are
// pushed again under the next one.
func (l *life) look(ctx context.Context) {
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
	l.away = outage.Is(err) || outage.Passes(err)
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
