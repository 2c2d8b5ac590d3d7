package outage

import (
	"context"

	"github.com/rs/zerolog"
)

// Spell logs once that something which is tried again and again fails, and once that it works
// again. It must not be used by several goroutines at once.
type Spell struct {
	Log          zerolog.Logger
	Fails, Works string // log messages: a warning, and information
	// Elsewhere means that another part of the process logs that Redis is unreachable. Spell logs
	// that at debug level only.
	Elsewhere bool

	failing bool
	quiet   bool // the failure was logged at debug level
}

// Note takes the result of an attempt, and reports whether it differs from the last one. It ignores
// an attempt that failed because ctx has ended.
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
