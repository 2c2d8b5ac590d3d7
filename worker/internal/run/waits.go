package run

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
)

// Log messages about waits for rate limits, with their levels.
const (
	WaitBegins  = "waiting for a rate limit"                             // info
	WaitTooLong = "the wait for a rate limit is too long"                // warning
	WaitsUsedUp = "the retries after waits for a rate limit are used up" // error
	FallsBack   = "falling back to another model"                        // warning
)

// ForLimit is the prefix of PutBack.Why for a run that waits for a limit.
const ForLimit = "limit "

// waitInterval is how long further waits like one that was logged are only counted.
const waitInterval = time.Minute

// Waits logs waits for rate limits so that people notice them. It logs the first wait of a model at once, and the
// number of those that follow once a minute. The zero value has logged nothing. It is safe for concurrent use.
type Waits struct {
	mu  sync.Mutex
	all map[logged]*unlogged
}

// logged identifies a message logged about a model.
type logged struct{ message, model string }

// unlogged counts the waits since the message was logged.
type unlogged struct {
	at      time.Time // when the message was last logged
	count   int
	longest time.Duration
}

// say counts a wait. It returns how many waits to log now and the longest of them; 0: log none.
func (w *Waits) say(what logged, wait time.Duration, now time.Time) (count int, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[logged]*unlogged{}
	}
	of := w.all[what]
	if of == nil {
		of = &unlogged{}
		w.all[what] = of
	}
	of.count++
	of.longest = max(of.longest, wait)
	if now.Sub(of.at) < waitInterval {
		return 0, 0
	}
	count, longest = of.count, of.longest
	*of = unlogged{at: now}
	return count, longest
}

// SayWait logs a wait of the run for a call to target, unless a similar wait was logged within the last minute. detail
// adds fields; nil: none.
func (r *Execution) SayWait(level zerolog.Level, message string, target eval.Judge, wait time.Duration, detail func(*zerolog.Event)) {
	if level < r.on.Log.GetLevel() {
		return
	}
	count, longest := r.on.Waits.say(logged{message, target.Target()}, wait, time.Now())
	if count == 0 {
		return
	}
	event := r.on.Log.WithLevel(level).Str("evaluation", string(r.Task.Evaluation)).
		Str("provider", target.Provider).Str("model", target.Model).
		Float64("wait_s", wait.Seconds()).Int("waits", count).Float64("longest_s", longest.Seconds())
	if detail != nil {
		detail(event)
	}
	event.Msg(message)
}

// SayPutBack logs err if it returns the run to its queue to wait for a limit.
func (r *Execution) SayPutBack(target eval.Judge, err error) {
	var back *PutBack
	if errors.As(err, &back) && strings.HasPrefix(back.Why, ForLimit) {
		r.SayWait(zerolog.InfoLevel, WaitBegins, target, back.Delay, nil)
	}
}
