package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/internal/store"
)

// How long what was answered may take to be written down: beyond the grace, and
// after Config.AtOnce.
const (
	lastWords = 5 * time.Second
	hurry     = time.Second
)

// life is what outlasts the sessions of one Run: the handlers that a fenced
// session left behind, which have outcomes in hand, and the outcomes that Redis
// may still lose.
type life struct {
	kept    *kept
	lasting context.Context // ends when nothing can be written down any more
	giveUp  context.CancelFunc

	mu       sync.Mutex // guards all below
	handlers int
	idle     chan struct{} // made at the end, closed when no handler is left
	away     bool          // Redis did not answer
}

func newLife(cfg Config) *life {
	l := &life{kept: newKept(storeOf(cfg))}
	l.lasting, l.giveUp = context.WithCancel(context.Background()) // beyond every session
	return l
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

// end waits for the handlers that are left, which give up what they cannot write
// down within grace, or soon after atOnce.
func (l *life) end(grace time.Duration, atOnce <-chan struct{}) {
	defer l.giveUp()
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
	l.giveUp()
	<-l.idle
}

// persist writes to Redis what must not be lost, and waits while Redis is away:
// not for a session, but for as long as the worker lives.
func (l *life) persist(write func(context.Context) error) error {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		err := write(l.lasting)
		var answered redis.Error
		if err == nil || errors.Is(err, store.ErrNoEvaluation) || (errors.As(err, &answered) && !redis.IsReadOnlyError(err) && !redis.IsLoadingError(err)) {
			return err
		}
		select {
		case <-time.After(delay):
		case <-l.lasting.Done():
			return err
		}
	}
}

// asked notes whether Redis answered, and says so once when it goes and once
// when it is back.
func (l *life) asked(err error, log zerolog.Logger) {
	l.mu.Lock()
	before := l.away
	l.away = outage.Is(err)
	now := l.away
	l.mu.Unlock()
	switch {
	case now && !before:
		log.Warn().Err(err).Msg("Redis does not answer; no call starts, and what is answered is kept until it does")
	case before && !now:
		log.Info().Msg("Redis answers again")
	}
}
