// Package commandline parses command lines in which flags may be anywhere, and prints help, manual
// pages and completions. It passes each line to the library in the only order that the library
// understands, and runs nothing itself.
package commandline

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// App describes the commands of a program.
type App struct {
	Commands  []*cli.Command         // each including the common flags
	Common    []cli.Flag             // those flags
	Groups    []Group                // in the order in which help shows them
	Examples  map[string][]string    // command lines that help shows, by command
	Elsewhere map[string]string      // maps commands of other tools to advice on what to use here
	Arguments map[string][]Candidate // words that can be a command's argument, by command
	Width     int                    // of help, in columns, at most HelpWidth; 0: HelpWidth
}

// Line is a parsed command line.
type Line struct {
	Command   *cli.Command // nil: none was named
	Help      bool
	WholeHelp bool // help with every flag
	flags     []setting
	args      []string // FILE, ID, …
}

// setting is one value of a flag, with where it was given.
type setting struct {
	flag  cli.Flag
	value string
	from  string // "--limit" or "EVALFLEET_LIMIT"
}

// Parse splits args. The first argument that is neither a flag nor a flag's value names the
// command; "--" ends flags; a flag that takes a value takes the next argument, unless it is written
// --flag=value.
func (a App) Parse(args []string) (Line, error) {
	var line Line
	at := a.commandAt(args)
	if at < 0 {
		line.Help = slices.ContainsFunc(args, isHelp)
		if slices.Contains(args, "--version") {
			args, at = []string{"version"}, 0
		} else if len(args) > 0 && !line.Help {
			return line, unknownFlag(args[0], flagNames(a.Common))
		} else {
			return line, nil
		}
	}

	name, rest := args[at], slices.Concat(args[:at], args[at+1:])
	if name == "help" {
		line.Help = true
		if at = a.commandAt(rest); at < 0 {
			return line, nil
		}
		name, rest = rest[at], nil
	}

	line.Command = a.named(name)
	if line.Command == nil {
		return line, a.unknownCommand(name)
	}
	return line, line.parseArguments(rest)
}

// parseArguments reads everything but the command's name.
func (line *Line) parseArguments(args []string) error {
	flags := byName(line.Command.Flags)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			line.args = append(line.args, args[i+1:]...)
			return nil
		case isHelp(arg):
			line.Help, line.WholeHelp = true, line.WholeHelp || arg == helpAll
			continue
		case !isFlag(arg):
			line.args = append(line.args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		known, ok := flags[name]
		if !ok || strings.HasPrefix(arg, "---") {
			return unknownFlag(arg, flagNames(line.Command.Flags))
		}
		written, _, _ := strings.Cut(arg, "=")
		switch {
		case hasValue:
		case !TakesValue(known):
			value = "true"
		case standsAlone(known, args[i+1:]):
			value = known.(OptionalInt).Alone
		case i+1 == len(args) || isKnownFlag(args[i+1], flags):
			return failure.Usagef("flag %s needs a value: %s=…", written, written)
		default:
			i++
			value = args[i]
		}
		line.flags = append(line.flags, setting{known, value, written})
	}

	return nil
}

// commandAt returns the position of the command's name, or -1 if there is none. It considers the
// flags of every command, because the name is not known yet.
func (a App) commandAt(args []string) int {
	flags := byName(a.Common)
	for _, command := range a.Commands {
		for name, f := range byName(command.Flags) {
			flags[name] = f
		}
	}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return -1
		case !isFlag(arg):
			return i
		case !strings.Contains(arg, "="):
			f, ok := flags[strings.TrimLeft(arg, "-")]
			if ok && TakesValue(f) && !standsAlone(f, args[i+1:]) {
				i++
			}
		}
	}
	return -1
}

// Complete sets flags that were not given from the environment, and checks every value. The
// variable of --out-dir is EVALFLEET_OUT_DIR; --redis is also read from REDIS_URL.
func (line *Line) Complete(env func(string) (string, bool)) error {
	given := map[string]bool{}
	for _, s := range line.flags {
		given[s.flag.Names()[0]] = true
	}
	for _, f := range line.Command.Flags {
		name := f.Names()[0]
		if given[name] {
			continue
		}
		for _, variable := range Variables(name) {
			if value, ok := env(variable); ok && value != "" {
				line.flags = append(line.flags, setting{f, value, variable})
				break
			}
		}
	}
	var problems []error
	for _, s := range line.flags {
		problems = append(problems, s.check())
	}
	return failure.With(failure.Usage, errors.Join(problems...))
}

// Variables returns the environment variables of a flag, strongest first.
func Variables(name string) []string {
	all := []string{"EVALFLEET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
	if name == "redis" {
		all = append(all, "REDIS_URL")
	}
	return all
}

// Value returns the value of a flag before the line is complete: the last one given, or that of the
// environment.
func (line *Line) Value(flag string, env func(string) (string, bool)) string {
	value, _ := env(Variables(flag)[0])
	for _, s := range line.flags {
		if s.flag.Names()[0] == flag {
			value = s.value
		}
	}
	return value
}

// check tries the value on a separate flag set, so that an invalid one is reported with its
// position.
func (s setting) check() error {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	if err := s.flag.Apply(set); err != nil {
		return fmt.Errorf("%s: %w", s.from, err)
	}
	if err := set.Set(s.flag.Names()[0], s.value); err != nil {
		return fmt.Errorf("%s: got %q, want %s", s.from, s.value, wanted(s.flag))
	}
	return nil
}

func wanted(f cli.Flag) string {
	switch f.(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.IntFlag, *cli.Uint64Flag, OptionalInt:
		return "a whole number"
	case *cli.Float64Flag:
		return "a number"
	case *cli.DurationFlag:
		return "a time with its unit, for example 30s"
	}
	return "another value"
}

// Canonical returns the command line in the order that the library understands: every flag as
// --name=value before every argument.
func (line *Line) Canonical() []string {
	all := []string{"evalfleet", line.Command.Name}
	for _, s := range line.flags {
		all = append(all, "--"+s.flag.Names()[0]+"="+s.value)
	}
	return append(append(all, "--"), line.args...)
}

// OptionalInt is a flag whose number may be omitted: --dry-run, --dry-run=5, --dry-run 5.
type OptionalInt struct {
	*cli.IntFlag
	Alone string // its value without a number
}

// standsAlone reports whether a flag is an OptionalInt without a number after it.
func standsAlone(f cli.Flag, following []string) bool {
	if _, ok := f.(OptionalInt); !ok {
		return false
	}
	if len(following) == 0 {
		return true
	}
	_, err := strconv.Atoi(following[0])
	return err != nil
}

// helpAll is the flag for help with every flag.
const helpAll = "--help-all"

func isHelp(arg string) bool {
	return arg == "--help" || arg == "-help" || arg == "-h" || arg == helpAll
}

// isFlag reports whether an argument is written as a flag; "-" alone is not.
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg != "--" }

func isKnownFlag(arg string, flags map[string]cli.Flag) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return isFlag(arg) && flags[name] != nil
}

// TakesValue reports whether a flag needs a value after it.
func TakesValue(f cli.Flag) bool {
	documented, ok := f.(cli.DocGenerationFlag)
	return ok && documented.TakesValue()
}

func byName(flags []cli.Flag) map[string]cli.Flag {
	all := map[string]cli.Flag{}
	for _, f := range flags {
		for _, name := range f.Names() {
			all[name] = f
		}
	}
	return all
}

func flagNames(flags []cli.Flag) []string {
	var all []string
	for name := range byName(flags) {
		all = append(all, dashed(name))
	}
	return all
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func (a App) named(name string) *cli.Command {
	i := slices.IndexFunc(a.Commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return a.Commands[i]
}

func unknownFlag(arg string, known []string) error {
	name, _, _ := strings.Cut(arg, "=")
	if near := wording.Nearest("--"+strings.TrimLeft(name, "-"), known); near != "" {
		return failure.Usagef("unknown flag %s; did you mean %s?", name, near)
	}
	return failure.Usagef("unknown flag %s; put arguments that start with a dash after --", name)
}

func (a App) unknownCommand(name string) error {
	if use := a.Elsewhere[name]; use != "" {
		return failure.Usagef("unknown command %s; %s", name, use)
	}
	var known []string
	for _, command := range a.Commands {
		known = append(known, command.Names()...)
	}
	if near := wording.Nearest(name, known); near != "" {
		return failure.Usagef("unknown command %s; did you mean %s?", name, near)
	}
	return failure.Usagef("unknown command %s; evalfleet --help lists all", name)
}
