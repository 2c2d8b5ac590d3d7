package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/harmless"
)

// ErrLevel and ErrFormat mean that a log was asked for that there is not.
var (
	ErrLevel  = errors.New("want debug, info, warn or error")
	ErrFormat = errors.New("want json or console")
)

// The formats of a log.
const (
	JSON  = "json"    // an object a line
	Plain = "console" // lines to be read; one about a run begins with its id
)

// Log is a command's log on the console, in a format: from warn up for a person at a terminal,
// elsewhere from info up, unless a level is named.
func (c *Console) Log(level, format string) (zerolog.Logger, error) {
	return NewLogger(c.raw, c.IsTerminal(), level, format)
}

// NewLogger is Log for another writer.
func NewLogger(to io.Writer, terminal bool, levelName, format string) (zerolog.Logger, error) {
	level := zerolog.InfoLevel
	if terminal {
		level = zerolog.WarnLevel
	}
	levels := map[string]zerolog.Level{
		"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel, "": level,
	}
	level, ok := levels[levelName]
	if !ok {
		return zerolog.Nop(), fmt.Errorf("got %q, %w", levelName, ErrLevel)
	}
	switch format {
	case Plain:
		to = forPerson(to, terminal)
	case JSON:
		to = harmless.NewWriter(to)
	default:
		return zerolog.Nop(), fmt.Errorf("got %q, %w", format, ErrFormat)
	}
	return zerolog.New(to).Level(level).With().Timestamp().Logger(), nil
}

// forPerson writes log lines to be read.
func forPerson(to io.Writer, colour bool) io.Writer {
	const run = "run_id"
	return zerolog.ConsoleWriter{
		Out: to, NoColor: !colour, TimeFormat: time.TimeOnly,
		PartsOrder:    []string{run, zerolog.TimestampFieldName, zerolog.LevelFieldName, zerolog.MessageFieldName},
		FieldsExclude: []string{run},
		FormatPrepare: func(event map[string]any) error {
			for name, value := range event {
				event[name] = harmlessValue(value)
			}
			return nil
		},
		FormatPartValueByName: func(value any, _ string) string {
			if value == nil { // about no run
				return ""
			}
			return "[" + harmless.OneLine(fmt.Sprint(value)) + "]"
		},
	}
}

// harmlessValue is a value of a log event with its texts made harmless.
func harmlessValue(value any) any {
	switch v := value.(type) {
	case string:
		return harmless.Line(v)
	case []any:
		for i := range v {
			v[i] = harmlessValue(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = harmlessValue(v[name])
		}
	}
	return value
}

// RedisLog takes what go-redis logs: connections that failed, mostly, which the errors of
// commands say as well. It goes to a command's log at level debug, and nowhere before there is
// one.
type RedisLog struct {
	to atomic.Pointer[zerolog.Logger]
}

// SetLog is where lines go from now on.
func (l *RedisLog) SetLog(log *zerolog.Logger) { l.to.Store(log) }

// Printf logs a line of go-redis.
func (l *RedisLog) Printf(_ context.Context, format string, args ...any) {
	if log := l.to.Load(); log != nil {
		log.Debug().Str("from", "go-redis").Msgf(format, args...)
	}
}
