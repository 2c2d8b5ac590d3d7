package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
)

func TestThrough(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for _, last := range []error{nil, refused} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := Through(t.Context(), func(context.Context) error {
				if calls++; calls < 4 {
					return fmt.Errorf("read: %w", io.EOF)
				}
				return last
			})
			if !errors.Is(err, last) || calls != 4 {
				t.Errorf("after three outages: %d calls and %v, want 4 and %v", calls, err, last)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		if err := Through(ctx, func(context.Context) error { cancel(); return io.EOF }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled during an outage: %v, want %v", err, context.Canceled)
		}
	})
}
