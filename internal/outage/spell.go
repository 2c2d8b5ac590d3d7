package outage

import (
	"context"

	"github.com/rs/zerolog"
)

// Spell logs that something which is tried again and again fails, and that it works
// again, each once. It is for one goroutine.
type Spell struct {
	Log          zerolog.Logger
	Fails, Works string // messages: a warning, and information
	// Elsewhere is set where another part of the process logs that Redis is unreachable:
	// that is logged at debug level only.
	Elsewhere bool

	failing bool
	quiet   bool // that was logged at debug level
}

// Note takes in the result of a try and reports whether it differs from the one before. A
// try that fails because ctx has ended is not counted.
func (s *Spell) Note(ctx context.Context, err error) (changed bool) {
	switch {
	case err != nil && ctx.Err() == nil && !s.failing:
		s.failing, s.quiet = true, s.Elsewhere && Is(err)
		s.level(zerolog.WarnLevel).Err(err).Msg(s.Fails)
	case err == nil && s.failing:
		s.failing = false
		s.level(zerolog.InfoLevel).Msg(s.Works)
	default:
		return false
	}
	return true
}

func (s *Spell) level(usual zerolog.Level) *zerolog.Event {
	if s.quiet {
		usual = zerolog.DebugLevel
	}
	return s.Log.WithLevel(usual)
}
