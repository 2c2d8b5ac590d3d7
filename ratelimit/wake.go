package ratelimit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// wake is a message to this worker.
type wake struct {
	// waiters is the key of the wait queue whose turn it is; "" for every queue, because calls may have been missed.
	waiters string
	at      time.Time // when its turn comes
	limits  bool      // the registry has changed; nothing else is set
}

// listen turns messages into mail. The client subscribes again when its
// connection is lost.
func (l *Limiter) listen(ctx context.Context) error {
	subscription := l.client.(redis.UniversalClient).Subscribe(ctx, l.keys.wake(l.cfg.Worker)) // New takes no other
	defer func() { _ = subscription.Close() }()
	messages := subscription.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-messages:
			w, ok := parseWake(message, time.Now())
			if !ok {
				continue
			}
			l.mu.Lock()
			l.mail.wakes = append(l.mail.wakes, w)
			l.mu.Unlock()
			l.wakePump()
		}
	}
}

// parseWake reads "limits", or "<waiters key> <µs until the turn>".
func parseWake(message any, now time.Time) (w wake, ok bool) {
	switch message := message.(type) {
	case *redis.Subscription:
		return wake{at: now}, message.Kind == "subscribe"
	case *redis.Message:
		if message.Payload == "limits" {
			return wake{limits: true}, true
		}
		space := strings.LastIndexByte(message.Payload, ' ')
		if space < 0 {
			return wake{}, false
		}
		micros, err := strconv.ParseInt(message.Payload[space+1:], 10, 64)
		if err != nil {
			return wake{}, false
		}
		return wake{
			waiters: message.Payload[:space],
			at:      now.Add(time.Duration(micros) * time.Microsecond),
		}, true
	}
	return wake{}, false
}

// rouse sets the time to ask again for the calls that a message is about.
func (p *pump) rouse(w wake) {
	if w.limits {
		p.reload = true
		return
	}
	if r := p.queued[ruleIn(p.queued, w.waiters)]; r != nil && r.way == byLeases && !w.at.After(time.Now()) {
		p.woken[r.id] = r
	}
	for _, g := range p.queues {
		if g.bound == nil || w.waiters != "" && g.bound.waiters != w.waiters {
			continue
		}
		if g.calls.Len() == 0 {
			g.open() // no call here can use the turn: pass it to the next worker
			continue
		}
		if g.bound.way == byRate || w.at.Before(g.due) {
			g.due = w.at
		}
	}
}

// ruleIn returns the ID of the limit with this wait queue; "": none.
func ruleIn(queued map[string]*rule, waiters string) string {
	for id, r := range queued {
		if r.waiters == waiters {
			return id
		}
	}
	return ""
}
