package results

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Uncollected returns what the results stream contains of one run: its calls, and its outcome if
// that is there. They may not be in the results store yet. It reads the whole stream, page by page,
// and removes nothing.
func Uncollected(ctx context.Context, client redis.Cmdable, keys record.Keys, run eval.RunID) (record.Entry, error) {
	var found record.Entry
	for from := "-"; ; {
		messages, more, err := nextEntries(ctx, client, keys, run.Evaluation, from, batchEntries)
		if err != nil {
			return record.Entry{}, err
		}

		for _, message := range messages {
			entry, err := record.DecodeEntry(message.Values)
			if err != nil {
				return record.Entry{}, fmt.Errorf("entry %s of %s: %w", message.ID, keys.Results(run.Evaluation), err)
			}
			if entry.Run != nil && entry.Run.Phase == run.Phase && entry.Run.Index == run.Index {
				found.Run = entry.Run
			}
			for _, call := range entry.Calls {
				if call.Phase == run.Phase && call.Index == run.Index {
					found.Calls = append(found.Calls, call)
				}
			}
		}

		if !more {
			return found, nil
		}
		from = "(" + messages[len(messages)-1].ID
	}
}
