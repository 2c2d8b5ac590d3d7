//go:build unix

package web

import (
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
)

func init() {
	storeKinds["postgres"] = func(t testing.TB) string { return pgtest.New(t) }
}
