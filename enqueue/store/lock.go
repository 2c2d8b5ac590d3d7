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

// Lock lets one of many processes do what must be done only once, and saves the others the work. It
// protects nothing: a holder that was suspended may notice only after acting that it has lost the
// lock. A Lock must not be used by several goroutines at once.
type Lock struct {
	client redis.Cmdable
	key    string
	id     string
	life   time.Duration
	held   bool // as of the last Hold
}

// NewLock returns a lock at key. Other processes can take it once its holder has not called Hold
// for life.
func (s *Store) NewLock(key string, life time.Duration) *Lock {
	return &Lock{client: s.client, key: key, id: rand.Text(), life: life}
}

// Hold takes the lock, or extends it.
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
	if held, err = acquire(ctx, l.client, l.key, l.id, l.life); err != nil {
		return false, fmt.Errorf("take the lock: %w", err)
	}
	return held, nil
}

// acquire sets a key for a life, if it does not exist. If it exists, acquire shortens its remaining life
// to at most that.
func acquire(ctx context.Context, client redis.Cmdable, key string, value any, life time.Duration) (taken bool, err error) {
	return acquireScript.Run(ctx, client, []string{key}, value, life.Milliseconds()).Bool()
}

var (
	//go:embed lua/take.lua
	takeSource string

	acquireScript = redis.NewScript(takeSource)
)
