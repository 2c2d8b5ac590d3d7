package outage

import (
	"context"
	"errors"
	"io"
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
	var changes []bool
	for _, err := range []error{nil, gone, gone, nil, nil, gone} {
		changes = append(changes, spell.Note(t.Context(), err))
	}
	if diff := cmp.Diff([]bool{false, true, false, true, false, true}, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	want := `{"level":"warn","error":"gone","message":"it fails"}
{"level":"info","message":"it works"}
{"level":"warn","error":"gone","message":"it fails"}
`
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// An outage that the process logs elsewhere is a detail here, and any other failure is not.
func TestSpellOfAnOutageLoggedElsewhere(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	spell := Spell{Log: zerolog.New(&log), Fails: "it fails", Works: "it works", Elsewhere: true}
	for _, err := range []error{io.EOF, nil, errors.New("full"), nil} {
		spell.Note(t.Context(), err)
	}
	want := `{"level":"debug","error":"EOF","message":"it fails"}
{"level":"debug","message":"it works"}
{"level":"warn","error":"full","message":"it fails"}
{"level":"info","message":"it works"}
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
