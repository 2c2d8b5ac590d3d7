package results

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

const (
	batchEntries = 500
	// batchBytes also bounds a batch: an entry can have several megabytes, and takes a few times as
	// much memory.
	batchBytes = 8 << 20
)

//go:embed read.lua
var readSource string

var readScript = redis.NewScript(readSource)

// nextEntries reads entries of an evaluation's results, starting at a position in the stream: at
// most count entries, and about batchBytes. more says that others may follow.
func nextEntries(
	ctx context.Context, client redis.Cmdable, keys record.Keys, id eval.ID, from string, count int,
) (messages []redis.XMessage, more bool, err error) {
	stream := keys.Results(id)
	reply, err := readScript.Run(ctx, client, []string{stream}, from, count, batchBytes).Slice()
	if err != nil {
		return nil, false, redisError{"read results of " + string(id), err}
	}
	for i, part := range reply {
		if i == 0 {
			more = part == int64(1)
			continue
		}
		message, ok := messageOf(part)
		if !ok {
			return nil, false, fmt.Errorf("read results of %s: entry %d of the reply is %T, not an entry", id, i, part)
		}
		messages = append(messages, message)
	}
	return messages, more, nil
}

// messageOf converts an entry in the form of XRANGE: its id, and its fields and values. ok is false
// if part has another form.
func messageOf(part any) (m redis.XMessage, ok bool) {
	entry, ok := part.([]any)
	if !ok || len(entry) != 2 {
		return m, false
	}
	id, isText := entry[0].(string)
	fields, isList := entry[1].([]any)
	if !isText || !isList || len(fields)%2 != 0 {
		return m, false
	}
	m = redis.XMessage{ID: id, Values: make(map[string]any, len(fields)/2)}
	for i := 0; i < len(fields); i += 2 {
		m.Values[fmt.Sprint(fields[i])] = fields[i+1]
	}
	return m, true
}
