package results

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

const (
	// gather is how long Follow waits for further entries after a commit that was not a full batch,
	// so that a busy fleet needs few commits.
	gather = 100 * time.Millisecond
	// claimEvery is how often Follow confirms its claim on the evaluation. If it pauses longer
	// between looks, it does so at every claimLooks-th look.
	claimEvery = 2 * time.Second
	claimLooks = 5
	// retryAfter is how long Follow waits for a Redis or results store that is unreachable.
	retryAfter = 500 * time.Millisecond
)

// How often Follow looks for entries when there were none. A blocking read would hold a connection of the pool for each
// evaluation, and a controller follows hundreds. A Follow with Options.Woken looks less and less often.
var (
	pauses      = backoff.Waits{First: 200 * time.Millisecond, Longest: 200 * time.Millisecond, Factor: 1}
	pausesWoken = backoff.Waits{First: time.Second, Longest: 30 * time.Second, Factor: 2}
)

//go:embed drain.lua
var drainSource string

var drainScript = redis.NewScript(drainSource)

// Collector drains one evaluation's results from Redis into its results store. It deletes an entry
// from Redis only after committing it, so it may be killed at any point. Several collectors for the
// same results store may run at once. A Collector must not be used by several goroutines at once.
type Collector struct {
	client  redis.Cmdable
	keys    record.Keys
	id      eval.ID
	store   Store
	options Options
	size    int         // of a batch
	claimed time.Time   // when the claim was last confirmed
	empty   int         // pauses in a row that found nothing new
	fit     *record.Fit // of the evaluation; nil: not read yet
}

// Options of a Collector; the zero value is useful.
type Options struct {
	// Committed is called after each commit with the entries in it, in the order of the stream. It
	// gets an entry again if its deletion failed.
	Committed func(entries []record.Entry)
	// WaitForRoom makes Follow wait for room in a full results store, as it does for an unreachable
	// one. Without it, Follow returns ErrFull.
	WaitForRoom bool
	// Woken, unless nil, signals that there may be more to collect. Follow then looks less and less
	// often while there is nothing.
	Woken <-chan struct{}
	// Waiting is called by Follow with the reason when Redis or the results store becomes
	// unreachable or full. It is called with nil when that is over.
	Waiting func(why error)
	// Log receives the same as messages.
	Log zerolog.Logger
}

func (o Options) waiting(why error) {
	if o.Waiting != nil {
		o.Waiting(why)
	}
}

// NewCollector returns a collector of evaluation id, which db must hold already
// (Store.PutEvaluation).
func NewCollector(client redis.Cmdable, keys record.Keys, id eval.ID, db Store, o Options) *Collector {
	return &Collector{client: client, keys: keys, id: id, store: db, options: o, size: batchEntries}
}

// Drain claims the evaluation for the results store and collects what is in Redis now. It returns
// how many entries it committed, also with an error. The error is ErrOtherStore, ErrNoEvaluation,
// ErrFull or ErrBusy, or says that Redis is unreachable.
func (c *Collector) Drain(ctx context.Context) (committed int, err error) {
	if err := c.claim(ctx); err != nil {
		return 0, err
	}
	for {
		n, more, err := c.batch(ctx)
		committed += n
		if err != nil || !more {
			return committed, err
		}
	}
}

// Follow claims the evaluation for the results store and collects until done reports true and
// nothing is left, then returns nil. If ctx ends first, it returns its error. done may be nil
// (never); it is called a few times per second. While Redis is unreachable or refuses commands for
// now, or the results store is locked, or full with Options.WaitForRoom, Follow logs it once and
// waits. It returns any other error, including done's.
func (c *Collector) Follow(ctx context.Context, done func(context.Context) (bool, error)) error {
	spell := outage.Spell{
		Log:   c.options.Log.With().Str("evaluation", string(c.id)).Logger(),
		Fails: "results wait to be collected", Works: "results are collected again",
	}

	for {
		finished, err := c.step(ctx, done)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !passes(err) && (!c.options.WaitForRoom || !errors.Is(err, ErrFull)):
			return err
		case spell.Note(ctx, err):
			c.options.waiting(err)
		}
		if finished {
			return nil
		}
		if err != nil {
			if err := outage.Pause(ctx, retryAfter); err != nil {
				return err
			}
		}
	}
}

// step runs one iteration of Follow: it collects a batch or waits. finished reports that done
// reported true and nothing is left.
func (c *Collector) step(ctx context.Context, done func(context.Context) (bool, error)) (finished bool, err error) {
	if time.Since(c.claimed) > max(claimEvery, claimLooks*c.pause()) {
		if err := c.claim(ctx); err != nil {
			return false, err
		}
	}

	// done is called before reading, so that everything recorded before the end is read.
	if done != nil {
		if finished, err = done(ctx); err != nil {
			return false, fmt.Errorf("ask whether %s is done: %w", c.id, err)
		}
	}

	n, more, err := c.batch(ctx)
	switch {
	case err != nil:
		return false, err
	case more:
		return false, nil
	case finished:
		return true, nil
	case n > 0:
		c.empty = 0
		return false, outage.Pause(ctx, gather)
	}

	return false, c.rest(ctx)
}

// pause returns how long Follow waits before it looks again.
func (c *Collector) pause() time.Duration {
	if c.options.Woken != nil {
		return pausesWoken.After(c.empty)
	}
	return pauses.After(c.empty)
}

// rest waits before the next look, when there was nothing to collect.
func (c *Collector) rest(ctx context.Context) error {
	timer := time.NewTimer(c.pause())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		c.empty++
	case <-c.options.Woken:
		c.empty = 0
	}
	return nil
}

// batch moves one batch of n entries from the stream to the results store, and reports whether
// there are more. It always reads from the start: entries there have not been deleted, whether
// or not they were committed before.
func (c *Collector) batch(ctx context.Context) (n int, more bool, err error) {
	messages, more, err := nextEntries(ctx, c.client, c.keys, c.id, "-", c.size)
	if err != nil || len(messages) == 0 {
		return 0, false, err
	}

	if time.Since(c.claimed) > claimEvery { // the stream may have been claimed for another results store
		if err := c.claim(ctx); err != nil {
			return 0, false, err
		}
	}

	d, err := c.decode(ctx, messages)
	if err != nil {
		return 0, false, err
	}
	more = more || d.newer
	if err := c.reject(ctx, d.bad); err != nil || len(d.entries) == 0 {
		return 0, more, err
	}
	n = len(d.entries)
	if err := c.store.Append(ctx, c.id, d.entries); err != nil {
		return 0, false, err
	}
	if c.options.Committed != nil {
		c.options.Committed(d.entries)
	}
	return n, more, c.claim(ctx, d.of...)
}

// claim confirms that the evaluation belongs to this results store, and deletes the committed
// entries from the stream.
func (c *Collector) claim(ctx context.Context, committed ...redis.XMessage) error {
	keys := []string{c.keys.Record(c.id), c.keys.Results(c.id)}
	args := []any{c.store.ID()}
	for _, message := range committed {
		args = append(args, message.ID)
	}
	reply, err := drainScript.Run(ctx, c.client, keys, args...).StringSlice()
	switch {
	case err != nil:
		return redisError{"claim results of " + string(c.id), err}
	case len(reply) == 0:
		return fmt.Errorf("collect %s: %w in Redis", c.id, ErrNoEvaluation)
	case reply[0] != c.store.ID():
		where := reply[1]
		if where == "" {
			where = "results.db in the output folder of the command that first collected it"
		}
		return fmt.Errorf("collect %s: %w: %s", c.id, ErrOtherStore, where)
	}
	c.claimed = time.Now()
	return nil
}
