package terminal

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// ErrLevel and ErrFormat report an unknown level or format of a log.
var (
	ErrLevel  = errors.New("want debug, info, warn or error")
	ErrFormat = errors.New("want json or console")
)

// The formats of a log.
const (
	JSON  = "json"    // one object per line
	Plain = "console" // text; a line about a run begins with its id
)

// Log returns a command's log on the console. An empty level means warn on a terminal, and info elsewhere. format is
// JSON or Plain.
func (c *Console) Log(level, format string) (zerolog.Logger, error) {
	return NewLogger(c.raw, c.IsTerminal(), level, format)
}

// NewLogger returns a log on any writer, as Log does. terminal says whether it is a terminal.
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

// forPerson returns a writer that formats log lines as text.
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
			if value == nil { // not about a run
				return ""
			}
			return "[" + harmless.OneLine(fmt.Sprint(value)) + "]"
		},
	}
}

// harmlessValue returns a value of a log event with all texts made safe to print.
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
