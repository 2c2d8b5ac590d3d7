package batch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is asked while a batch is under way goes together in the next ones, and
// everybody gets the answer to their own question.
func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := New(Config{Most: 4}, func(questions []int) ([]int, error) {
			sizes = append(sizes, len(questions))
			time.Sleep(time.Second)
			answers := make([]int, len(questions))
			for i, q := range questions {
				answers[i] = q * q
			}
			return answers, nil
		})
		var asking sync.WaitGroup
		for i := range 10 {
			asking.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if answer, err := b.Do(t.Context(), i); answer != i*i || err != nil {
					t.Errorf("Do(%d) = %d, %v; want %d", i, answer, err, i*i)
				}
			})
		}
		asking.Wait()
		if diff := cmp.Diff([]int{1, 4, 4, 1}, sizes); diff != "" {
			t.Errorf("sizes of the batches (-want +got):\n%s", diff)
		}
	})
}

// With a pause, batches begin that far apart, unless there is enough for one.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		var sizes []int
		b := New(Config{Most: 4, Pause: time.Second, Enough: 3}, func(questions []int) ([]int, error) {
			at, sizes = append(at, time.Since(began)), append(sizes, len(questions))
			return questions, nil
		})
		var asking sync.WaitGroup
		for _, after := range []int{0, 100, 200, 1100, 1200, 1300, 9000} {
			asking.Go(func() {
				time.Sleep(time.Duration(after) * time.Millisecond)
				if _, err := b.Do(t.Context(), 0); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		want := []time.Duration{0, time.Second, 1300 * time.Millisecond, 9 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("batches began (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 1}, sizes); diff != "" {
			t.Errorf("sizes of the batches (-want +got):\n%s", diff)
		}
	})
}

// Enough that came while a batch was under way need not wait, nor what is left of
// them.
func TestEnoughMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		b := New(Config{Most: 3, Pause: time.Second, Enough: 3}, func(questions []int) ([]int, error) {
			at = append(at, time.Since(began))
			time.Sleep(100 * time.Millisecond)
			return questions, nil
		})
		var asking sync.WaitGroup
		for i := range 8 {
			asking.Go(func() {
				if i > 0 {
					time.Sleep(50 * time.Millisecond)
				}
				if _, err := b.Do(t.Context(), 0); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		want := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 1200 * time.Millisecond}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("batches began (-want +got):\n%s", diff)
		}
	})
}

// A failure is returned to all callers of its batch, and to none after it.
func TestFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		b := New(Config{Most: 4}, func(questions []bool) ([]bool, error) {
			time.Sleep(time.Second)
			if questions[0] {
				return nil, down
			}
			return questions, nil
		})
		for _, fails := range []bool{true, false, true} {
			var want error
			if fails {
				want = down
			}
			if _, err := b.Do(t.Context(), fails); !errors.Is(err, want) {
				t.Errorf("Do(%t) = %v, want %v", fails, err, want)
			}
		}
	})
}

// A caller that no longer waits delays no other.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Most: 1}, func(questions []int) ([]int, error) {
			time.Sleep(time.Minute)
			return questions, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var asking sync.WaitGroup
		for i := range 2 {
			asking.Go(func() {
				if _, err := b.Do(ctx, i); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Do = %v, want the end of its context", err)
				}
			})
		}
		asking.Wait()
		if answer, err := b.Do(t.Context(), 7); answer != 7 || err != nil {
			t.Errorf("Do after others have left = %d, %v; want 7", answer, err)
		}
		if _, err := b.Do(ctx, 8); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do with an ended context = %v", err)
		}
	})
}
