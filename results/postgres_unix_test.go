//go:build unix

package results

import (
	"testing"

	"github.com/evalfleet/evalfleet/internal/pgtest"
)

func TestPostgresIsASink(t *testing.T) {
	t.Parallel()
	testSink(t, func(t *testing.T) string { return pgtest.New(t) })
}
