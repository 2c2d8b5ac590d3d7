package gate

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What holds back every call of a fleet while Redis accepts no writes.
const (
	holdFull     = "Redis, whose memory is full (maxmemory): collect or delete results, or raise it"
	holdUnsaved  = "Redis, which accepts no writes because it cannot save its data: make room on its disk"
	holdReplicas = "Redis, which accepts no writes because too few replicas are connected (min-replicas-to-write)"
)

// Refusals describes why Redis accepts no writes; nothing if it does. A service that hides its
// state counts as accepting them.
func Refusals(ctx context.Context, client redis.Cmdable) (words []string) {
	// This removes nothing, takes no memory, and every role may do it.
	switch err := client.ZRemRangeByScore(ctx, "asynq:servers", "(0", "(0").Err(); {
	case redis.HasErrorPrefix(err, "MISCONF"):
		words = append(words, holdUnsaved)
	case redis.IsNoReplicasError(err):
		words = append(words, holdReplicas)
	}
	if full(ctx, client) {
		words = append(words, holdFull)
	}
	return words
}

// full reports whether a server of Redis has used up its maxmemory. A server that hides it counts as not full.
func full(ctx context.Context, client redis.Cmdable) bool {
	full := false
	_ = Info(ctx, client, "memory", func(fields map[string]string) {
		most, _ := strconv.ParseInt(fields["maxmemory"], 10, 64)
		used, _ := strconv.ParseInt(fields["used_memory"], 10, 64)
		full = full || most > 0 && used > most
	})
	return full
}

// HoldPaused returns a message that names an evaluation's queues that are paused in asynqmon;
// nothing if none are. all reports whether all of them are.
func HoldPaused(ctx context.Context, client redis.Cmdable, queues []string) (words []string, all bool, err error) {
	paused, err := Paused(ctx, client, queues)
	if err != nil || len(paused) == 0 {
		return nil, false, err
	}
	return []string{fmt.Sprintf("asynqmon, where %s paused: resume it there", named(paused))}, len(paused) == len(queues), nil
}

func named(queues []string) string {
	if len(queues) == 1 {
		return "queue " + queues[0] + " is"
	}
	return "queues " + strings.Join(queues, ", ") + " are"
}
