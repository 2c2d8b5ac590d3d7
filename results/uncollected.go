package results

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
)

// Uncollected is what the results stream holds of one run and no sink may have
// yet: its calls, and its outcome if that is there. It reads the whole stream,
// page by page, and takes nothing out.
func Uncollected(ctx context.Context, client redis.UniversalClient, keys record.Keys, run eval.RunID) (record.Entry, error) {
	var found record.Entry
	stream := keys.Results(run.Evaluation)
	for from := "-"; ; {
		messages, err := client.XRangeN(ctx, stream, from, "+", batchEntries).Result()
		if err != nil {
			return record.Entry{}, redisError{"read results of " + string(run.Evaluation), err}
		}
		for _, message := range messages {
			entry, err := record.DecodeEntry(message.Values)
			if err != nil {
				return record.Entry{}, fmt.Errorf("entry %s of %s: %w", message.ID, stream, err)
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
		if len(messages) < batchEntries {
			return found, nil
		}
		from = "(" + messages[len(messages)-1].ID
	}
}
