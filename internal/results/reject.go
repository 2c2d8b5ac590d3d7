package results

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

var (
	//go:embed reject.lua
	rejectSource string

	rejectScript = redis.NewScript(rejectSource)
)

// Redis keeps the latest keepRejected of an evaluation's rejected entries, for rejectedLife.
const (
	keepRejected = 1000
	rejectedLife = 7 * 24 * time.Hour
)

// rejected is an entry that is not stored, with the reason.
type rejected struct {
	redis.XMessage
	why error
}

// decoded is a decoded part of the stream.
type decoded struct {
	entries []record.Entry
	of      []redis.XMessage // of entries, the messages in the stream
	bad     []rejected
	newer   bool // the rest is of another version, and is read again
}

// decode reads entries, and finds those that cannot be results of the evaluation. The error is
// record.ErrOtherVersion if the first is of another version.
func (c *Collector) decode(ctx context.Context, messages []redis.XMessage) (d decoded, err error) {
	if c.fit == nil {
		e, err := c.store.Evaluation(ctx, c.id)
		if err != nil {
			return d, err
		}
		c.fit = record.NewFit(e.Plan)
	}

	for i, message := range messages {
		entry, err := record.DecodeEntry(message.Values)
		if err == nil {
			err = c.fit.Check(entry)
		}
		switch {
		case errors.Is(err, record.ErrOtherVersion) && i == 0:
			return d, fmt.Errorf("entry %s of %s: %w", message.ID, c.keys.Results(c.id), err)
		case errors.Is(err, record.ErrOtherVersion):
			d.newer = true
			return d, nil
		case err != nil:
			d.bad = append(d.bad, rejected{message, err})
		default:
			d.entries, d.of = append(d.entries, entry), append(d.of, message)
		}
	}

	return d, nil
}

// reject moves entries out of the stream, so that those after them can be stored.
func (c *Collector) reject(ctx context.Context, entries []rejected) error {
	if len(entries) == 0 {
		return nil
	}
	key := c.keys.Rejected(c.id)
	args := []any{keepRejected, int(rejectedLife.Seconds())}
	for _, entry := range entries {
		values := []any{"why", entry.why.Error(), "entry", entry.ID}
		for field, value := range entry.Values {
			values = append(values, field, value)
		}
		args = append(append(args, entry.ID, len(values)), values...)
	}
	if err := rejectScript.Run(ctx, c.client, []string{c.keys.Results(c.id), key}, args...).Err(); err != nil {
		return redisError{"set aside results of " + string(c.id), err}
	}
	for _, entry := range entries {
		c.options.Log.Error().Str("evaluation", string(c.id)).Str("entry", entry.ID).Err(entry.why).
			Msg("cannot store a result; setting it aside, the others continue")
	}
	return nil
}
