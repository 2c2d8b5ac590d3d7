package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"
)

// newLogger is a command's log: JSON from info up for machines, lines from warn
// up for a person at a terminal, unless flags say otherwise.
func newLogger(to io.Writer, terminal bool, levelName, format string) (zerolog.Logger, error) {
	level := zerolog.InfoLevel
	if terminal {
		level = zerolog.WarnLevel
	}
	levels := map[string]zerolog.Level{
		"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel, "": level,
	}
	level, ok := levels[levelName]
	if !ok {
		return zerolog.Nop(), usageError("--%s: %q stands here, want debug, info, warn or error", logLevelFlag, levelName)
	}
	switch format {
	case "console":
		to = zerolog.ConsoleWriter{Out: to, NoColor: !terminal, TimeFormat: time.TimeOnly}
	case "json":
	case "":
		if terminal {
			to = zerolog.ConsoleWriter{Out: to, TimeFormat: time.TimeOnly}
		}
	default:
		return zerolog.Nop(), usageError("--%s: %q stands here, want json or console", logFormatFlag, format)
	}
	return zerolog.New(to).Level(level).With().Timestamp().Logger(), nil
}
