package moment

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestManyGetOneAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		c := Cache[string, int64]{Keep: 5 * time.Second, AtOnce: 1, Make: func(context.Context, string) (int64, error) {
			time.Sleep(20 * time.Second)
			return made.Add(1), nil
		}}
		get := func(want int64) {
			t.Helper()
			if got, err := c.Get(t.Context(), "a"); got != want || err != nil {
				t.Errorf("got answer %d, %v, want %d", got, err, want)
			}
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { get(1) })
		}
		all.Wait()
		time.Sleep(19 * time.Second) // making it took longer than Keep
		get(1)
		time.Sleep(2 * time.Second)
		get(2)
		time.Sleep(time.Minute)
	})
}

func TestFewAnswersAreMadeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most, cancelled atomic.Int64
		c := Cache[int, int]{AtOnce: 2, Waiting: 3, Make: func(ctx context.Context, key int) (int, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			select {
			case <-time.After(time.Second):
				return key, nil
			case <-ctx.Done():
				cancelled.Add(1)
				return 0, ctx.Err()
			}
		}}
		var all sync.WaitGroup
		var busy atomic.Int64
		for key := range 10 {
			all.Go(func() {
				if got, err := c.Get(t.Context(), key); errors.Is(err, ErrBusy) {
					busy.Add(1)
				} else if got != key || err != nil {
					t.Errorf("key %d: got %d, %v", key, got, err)
				}
			})
		}
		all.Wait()
		if most.Load() != 2 || busy.Load() != 5 {
			t.Errorf("%d answers were made at once and %d refused, want 2 and 5", most.Load(), busy.Load())
		}
		time.Sleep(time.Minute)
		left, leave := context.WithCancel(t.Context())
		all.Go(func() { _, _ = c.Get(left, 11) })
		synctest.Wait()
		leave()
		all.Wait()
		synctest.Wait()
		if cancelled.Load() != 1 {
			t.Errorf("%d answers were given up after all had left, want 1", cancelled.Load())
		}
		if got, err := c.Get(t.Context(), 11); got != 11 || err != nil {
			t.Errorf("asked again: got %d, %v", got, err)
		}
		time.Sleep(time.Minute)
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := Cache[int, int]{Keep: time.Hour, AtOnce: 1, Make: func(context.Context, int) (int, error) {
			if n++; n == 1 {
				return 0, errors.New("away")
			}
			return n, nil
		}}
		_, first := c.Get(t.Context(), 1)
		if got, err := c.Get(t.Context(), 1); first == nil || got != 2 || err != nil {
			t.Errorf("got %v, then %d, %v; want an error, then 2", first, got, err)
		}
		time.Sleep(2 * time.Hour)
	})
}
