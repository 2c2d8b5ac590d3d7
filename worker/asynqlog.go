package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/queue/gate"
)

// asynqLog passes asynq's log lines to our log.
type asynqLog struct{ log zerolog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug().Msg(fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Info().Msg(fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.say(zerolog.WarnLevel, args) }
func (l asynqLog) Error(args ...any) { l.say(zerolog.ErrorLevel, args) }
func (l asynqLog) Fatal(args ...any) { l.log.Error().Msg(fmt.Sprint(args...)) }

// unreachable are words in asynq's log lines that mean an unreachable Redis.
var unreachable = []string{"dial tcp", "dial unix", "connection re", "EOF", "i/o timeout", "broken pipe", "deadline exceeded"}

func (l asynqLog) say(level zerolog.Level, args []any) {
	line := fmt.Sprint(args...)
	if slices.ContainsFunc(gate.KnownLines, func(begin string) bool { return strings.HasPrefix(line, begin) }) ||
		slices.ContainsFunc(unreachable, func(words string) bool { return strings.Contains(line, words) }) {
		level = zerolog.DebugLevel
	}
	l.log.WithLevel(level).Msg(line)
}
