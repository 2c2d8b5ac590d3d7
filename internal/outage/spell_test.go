package outage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

func TestSpellIsToldOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	spell := Spell{Log: zerolog.New(&log), Fails: "it fails", Works: "it works"}
	gone := errors.New("gone")
	for _, err := range []error{nil, gone, gone, nil, nil, gone} {
		spell.Note(t.Context(), err)
	}
	want := `{"level":"warn","error":"gone","message":"it fails"}
{"level":"info","message":"it works"}
{"level":"warn","error":"gone","message":"it fails"}
`
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestSpellDoesNotTellOfAnEnd(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	spell := Spell{Log: zerolog.New(&log)}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	spell.Note(ctx, ctx.Err())
	if log.Len() > 0 {
		t.Errorf("a try that ended with its context is told: %s", log.String())
	}
}
