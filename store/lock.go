package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock lets one process of many do what needs doing once, and saves the others the
// trouble. It guards nothing: a holder that was frozen may find that it holds the lock
// no more only after it has done something. It is for one goroutine.
type Lock struct {
	client redis.UniversalClient
	key    string
	id     string
	life   time.Duration
	held   bool // when it was looked at last
}

// NewLock makes a lock at key, which others take once its holder has not kept it for
// life.
func (s *Store) NewLock(key string, life time.Duration) *Lock {
	return &Lock{client: s.client, key: key, id: rand.Text(), life: life}
}

// Hold takes the lock, or keeps it.
func (l *Lock) Hold(ctx context.Context) (held bool, err error) {
	defer func() { l.held = held }()
	if l.held {
		switch holder, err := l.client.GetEx(ctx, l.key, l.life).Result(); {
		case err == nil:
			return holder == l.id, nil
		case !errors.Is(err, redis.Nil):
			return false, fmt.Errorf("keep the lock: %w", err)
		}
	}
	if held, err = take(ctx, l.client, l.key, l.id, l.life); err != nil {
		return false, fmt.Errorf("take the lock: %w", err)
	}
	return held, nil
}

// take sets a key that does not exist, for a life. One that exists lives no longer than that from
// now.
func take(ctx context.Context, client redis.UniversalClient, key string, value any, life time.Duration) (taken bool, err error) {
	return takeScript.Run(ctx, client, []string{key}, value, life.Milliseconds()).Bool()
}

var (
	//go:embed lua/take.lua
	takeSource string

	takeScript = redis.NewScript(takeSource)
)
