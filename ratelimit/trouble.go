package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Failing describes calls of this process that failed one after another.
type Failing struct {
	Scope   Scope         // Provider, and Model if it is only the model's
	Class   string        // one word
	Message string        // the provider's words, or the transport's
	For     time.Duration // since the first of the calls failed
	// Within is for trouble that a single process may have, such as a name that it cannot resolve, or a key that only
	// it has. For this long after that first call, or after an answer to another process, the trouble is this process's
	// own as long as another process lives without it.
	Within time.Duration
	// Since is used if Within is 0. It is the time since the last report of such calls: the trouble is this process's
	// own if another has had an answer in that time. 0: it is the first report.
	Since time.Duration
	Own   bool // it is this process's own trouble in any case
}

// Reported is the result of Report.
type Reported struct {
	Own      bool // others have had answers: only this process has the trouble
	First    bool // it was not known before
	Answered bool // the provider has answered some process within a day
}

// Report records that calls have failed, for Admin.Cooldowns, and returns whose trouble it is. It stops no calls: see
// Suspend.
func (l *Limiter) Report(ctx context.Context, f Failing) (Reported, error) {
	names := cooldownsOf(Scope{Provider: f.Scope.Provider, Model: f.Scope.Model, Tier: f.Scope.Tier})
	if len(names) == 0 {
		return Reported{}, errors.New("report failed calls: the scope has no provider")
	}
	within := f.Within.Microseconds()
	if f.Own {
		within = -1
	}
	began, last := f.For.Microseconds(), f.Since.Microseconds()
	reply, err := integers(troubleScript.Run(ctx, l.client, []string{l.keys.troubles(), l.keys.answers(), l.keys.alive()},
		l.cfg.Worker, names[len(names)-1], f.Scope.Provider, began, within, last, cmp.Or(f.Class, "-"), f.Message).Result())
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("script answered %d values, want 3", len(reply))
	}
	if err != nil {
		return Reported{}, fmt.Errorf("report failed calls of %s: %w", f.Scope, err)
	}
	return Reported{Own: reply[0] == 1, First: reply[1] == 1, Answered: reply[2] == 1}, nil
}

// Suspend stops calls of a scope from starting, in any process, until Answered is called for it. One call at a time may
// still start: the first after a second. If it fails too and Suspend is called again, the next one starts after twice
// the time, up to a minute and a quarter. Calls in flight continue.
func (l *Limiter) Suspend(ctx context.Context, scope Scope) error {
	return l.cool(ctx, scope, 0, outWord)
}

// Suspended reports whether calls of a scope wait for the end of an outage.
func (l *Limiter) Suspended(ctx context.Context, scope Scope) (bool, error) {
	saved, err := l.client.HMGet(ctx, l.keys.cooldowns(), cooldownsOf(scope)...).Result()
	if err != nil {
		return false, fmt.Errorf("read cooldowns of %s: %w", scope, err)
	}
	return slices.ContainsFunc(saved, func(value any) bool {
		text, _ := value.(string)
		_, state, _ := parseCooldown(text)
		return state == outWord || state == provingWord
	}), nil
}

// Answered records that the provider answered a call of a scope, which ends what Suspend began. It reports whether
// there was something to end.
func (l *Limiter) Answered(ctx context.Context, scope Scope) (ended bool, err error) {
	args := []any{l.cfg.Worker, scope.Provider}
	for _, name := range cooldownsOf(scope) {
		args = append(args, name)
	}
	n, err := answeredScript.Run(ctx, l.client, []string{l.keys.cooldowns(), l.keys.troubles(), l.keys.answers()}, args...).Int()
	if err != nil {
		return false, fmt.Errorf("note an answer of %s: %w", scope, err)
	}
	return n == 1, nil
}

// Trouble is why calls have no answers.
type Trouble struct {
	Class   string
	Message string        // the provider's words, or the transport's
	For     time.Duration // since the first of the calls began
	Last    time.Duration // since the last of them failed
}

// troubleLife is how long after its last failed call a trouble is listed. Calls may also have stopped for another
// reason.
const troubleLife = 10 * time.Minute

// parseTroubles parses troubles by the name of their cooldown, or name@worker.
func parseTroubles(now int64, fields map[string]string) map[string]Trouble {
	troubles := map[string]Trouble{}
	for name, value := range fields {
		part := strings.SplitN(value, " ", 4)
		if len(part) != 4 {
			continue
		}
		since, err := strconv.ParseInt(part[0], 10, 64)
		last, failed := strconv.ParseInt(part[1], 10, 64)
		t := Trouble{
			Class: part[2], Message: part[3],
			For: max(0, time.Duration(now-since)*time.Microsecond), Last: max(0, time.Duration(now-last)*time.Microsecond),
		}
		if err == nil && failed == nil && t.Last < troubleLife {
			troubles[name] = t
		}
	}
	return troubles
}

// ownTroubles lists the troubles that single live workers have.
func ownTroubles(troubles map[string]Trouble, alive map[string]bool) (own []Cooldown) {
	for field, t := range troubles {
		name, worker, ok := strings.Cut(field, "@")
		if ok && alive[worker] {
			own = append(own, Cooldown{ID: name, Worker: worker, Trouble: &t})
		}
	}
	return own
}

// aliveAt returns the workers whose heartbeats are valid.
func aliveAt(now int64, beats []redis.Z) map[string]bool {
	alive := map[string]bool{}
	for _, beat := range beats {
		worker, ok := beat.Member.(string)
		alive[worker] = ok && int64(beat.Score) > now
	}
	return alive
}

// randomPart returns a random number from 0 to 999, in thousandths.
func randomPart() int { return rand.IntN(1000) }

func sortCooldowns(all []Cooldown) {
	slices.SortFunc(all, func(a, b Cooldown) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Worker, b.Worker))
	})
}
