package gate

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Info passes a section of INFO to take: that of the server, or of each master of a Cluster, one
// after another. It leaves out servers that refuse the command, as some managed ones do. The error
// means that a server is unreachable.
func Info(ctx context.Context, client redis.Cmdable, section string, take func(fields map[string]string)) error {
	var mu sync.Mutex // held while take is called
	ask := func(ctx context.Context, server redis.Cmdable) error {
		sections, err := server.InfoMap(ctx, section).Result()
		if err != nil {
			var refused redis.Error
			if errors.As(err, &refused) {
				return nil
			}
			return err
		}

		mu.Lock()
		defer mu.Unlock()
		for _, fields := range sections {
			take(fields)
		}
		return nil
	}

	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return ask(ctx, node) })
	}
	return ask(ctx, client)
}
