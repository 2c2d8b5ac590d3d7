//go:build unix

package web

import (
	"testing"

	"github.com/evalfleet/evalfleet/internal/pgtest"
)

func init() {
	sinks["postgres"] = func(t testing.TB) string { return pgtest.New(t) }
}
