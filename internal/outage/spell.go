package outage

import (
	"context"

	"github.com/rs/zerolog"
)

// Spell tells of something that is tried again and again: once that it fails, and once
// that it works again. It is for one goroutine.
type Spell struct {
	Log          zerolog.Logger
	Fails, Works string // what is said, as a warning and as information

	on bool // it has failed, and that was said
}

// Note takes in what a try came to. One that fails because ctx has ended is not told.
func (s *Spell) Note(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil && !s.on:
		s.Log.Warn().Err(err).Msg(s.Fails)
		s.on = true
	case err == nil && s.on:
		s.Log.Info().Msg(s.Works)
		s.on = false
	}
}
