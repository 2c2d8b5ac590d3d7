package config

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/joho/godotenv"
)

// DefaultEnvFile is read if it exists and --env-file is not given.
const DefaultEnvFile = ".env"

// WithEnvFile adds the variables of an .env file to env, which wins. Nothing is exported to
// this process or its children. settings are the variables that may change which addresses and
// files are used; keys are those that may hold a provider's key or a bound on calls.
//
// An explicitly named file sets both. An empty path is DefaultEnvFile, which may be absent: it
// sets keys only, because the working folder may come from another person, and a setting in it
// is refused. The error is of type Problems and never quotes the file, which holds keys.
//
// In the file, "$" expands earlier names of the same file, except within single quotes.
func WithEnvFile(env Lookup, path string) (settings, keys Lookup, err error) {
	found := path == ""
	if found {
		path = DefaultEnvFile
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return env, env, nil
		}
	}

	var problems findings
	text, ok := problems.readText(path, maxSettings)
	if !ok {
		return nil, nil, problems.problems
	}

	values, err := godotenv.UnmarshalBytes(text)
	if err != nil {
		at := place{file: path, line: failingLine(text)}
		problems.refuse(at, "want one NAME=value per line; quote values with spaces", "this line cannot be read")
		return nil, nil, problems.problems
	}

	keys = func(name string) (string, bool) {
		if value, ok := env(name); ok {
			return value, true
		}
		value, ok := values[name]
		return value, ok
	}
	if !found {
		return keys, keys, nil
	}

	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, given := env(name); !given && isSetting(name) {
			problems.refuse(place{file: path, path: name}, "set it in the environment, or name the file with --env-file "+path,
				"only keys are read from a .env file that was not named")
		}
	}

	return env, keys, problems.err()
}

// isSetting reports whether a variable changes the addresses that evalfleet connects to, or the
// files it reads and writes.
func isSetting(name string) bool {
	return name == "REDIS_URL" || strings.HasPrefix(name, "EVALFLEET_") || strings.HasPrefix(name, "OTEL_") ||
		slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.variable == name })
}

// failingLine returns the number, from 1, of the line that makes an .env file unreadable. The
// library's own message is of no use: it quotes the rest of the file.
func failingLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n := len(lines) - 1; n > 0; n-- {
		if _, err := godotenv.UnmarshalBytes(bytes.Join(lines[:n], nil)); err == nil {
			return n + 1
		}
	}
	return 1
}

// lookup returns the trimmed value of a variable; ok is false if it is unset or blank.
func (o Options) lookup(name string) (string, bool) {
	if o.Env == nil {
		return "", false
	}
	value, ok := o.Env(name)
	value = strings.TrimSpace(value)
	return value, ok && value != ""
}
