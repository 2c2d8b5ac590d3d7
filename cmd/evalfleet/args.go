package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
)

// commandLine is a parsed command line: flags may be anywhere in it.
type commandLine struct {
	command   *cli.Command // nil: none was named
	help      bool
	wholeHelp bool // with every flag
	flags     []setting
	args      []string // FILE, ID, …
}

// setting is one value of a flag, and where it was given.
type setting struct {
	flag  cli.Flag
	value string
	from  string // "--limit" or "EVALFLEET_LIMIT"
}

// parse takes args apart. The first argument that is neither a flag nor a
// flag's value names the command; "--" ends flags; a flag that takes a value
// takes the next argument, unless it is written --flag=value.
func parse(args []string, commands []*cli.Command) (commandLine, error) {
	var line commandLine
	at := commandAt(args, commands)
	if at < 0 {
		line.help = slices.ContainsFunc(args, isHelp)
		if slices.Contains(args, "--version") {
			args, at = []string{"version"}, 0
		} else if len(args) > 0 && !line.help {
			return line, unknownFlag(args[0], flagNames(commonFlags()))
		} else {
			return line, nil
		}
	}
	name, rest := args[at], slices.Concat(args[:at], args[at+1:])
	if name == "help" {
		line.help = true
		if at = commandAt(rest, commands); at < 0 {
			return line, nil
		}
		name, rest = rest[at], nil
	}
	line.command = named(name, commands)
	if line.command == nil {
		return line, unknownCommand(name, commands)
	}
	return line, line.take(rest)
}

// take reads everything but the command's name.
func (line *commandLine) take(args []string) error {
	flags := byName(line.command.Flags)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			line.args = append(line.args, args[i+1:]...)
			return nil
		case isHelp(arg):
			line.help, line.wholeHelp = true, line.wholeHelp || arg == helpAll
			continue
		case !isFlag(arg):
			line.args = append(line.args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		known, ok := flags[name]
		if !ok || strings.HasPrefix(arg, "---") {
			return unknownFlag(arg, flagNames(line.command.Flags))
		}
		written, _, _ := strings.Cut(arg, "=")
		switch {
		case hasValue:
		case !takesValue(known):
			value = "true"
		case standsAlone(known, args[i+1:]):
			value = known.(optionalInt).alone
		case i+1 == len(args) || isKnownFlag(args[i+1], flags):
			return usageError("flag %s needs a value: %s=…", written, written)
		default:
			i++
			value = args[i]
		}
		line.flags = append(line.flags, setting{known, value, written})
	}
	return nil
}

// commandAt is the position of the command's name, -1 without one. Flags of every command are
// considered, as the name is not known yet.
func commandAt(args []string, commands []*cli.Command) int {
	flags := byName(commonFlags())
	for _, command := range commands {
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
			if ok && takesValue(f) && !standsAlone(f, args[i+1:]) {
				i++
			}
		}
	}
	return -1
}

// complete adds what the environment says about flags that were not given, and
// checks every value. The variable of --out-dir is EVALFLEET_OUT_DIR; --redis is
// read from REDIS_URL too.
func (line *commandLine) complete(env config.Lookup) error {
	given := map[string]bool{}
	for _, s := range line.flags {
		given[s.flag.Names()[0]] = true
	}
	for _, f := range line.command.Flags {
		name := f.Names()[0]
		if given[name] {
			continue
		}
		for _, variable := range variables(name) {
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
	return withCode(exitUsage, errors.Join(problems...))
}

// variables are the environment variables of a flag, strongest first.
func variables(name string) []string {
	all := []string{"EVALFLEET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
	if name == redisFlag {
		all = append(all, "REDIS_URL")
	}
	return all
}

// envFile is the value of --env-file, which must be known before the rest of
// the environment is.
func (line *commandLine) envFile(env config.Lookup) string {
	path, _ := env(variables(envFileFlag)[0])
	for _, s := range line.flags {
		if s.flag.Names()[0] == envFileFlag {
			path = s.value
		}
	}
	return path
}

// check tries the value on a flag set of its own, so that a bad one is reported with its
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
	case *cli.IntFlag, *cli.Uint64Flag, optionalInt:
		return "a whole number"
	case *cli.Float64Flag:
		return "a number"
	case *cli.DurationFlag:
		return "a time with its unit, for example 30s"
	}
	return "another value"
}

// canonical is the command line as the library understands it: every flag as
// --name=value before every argument.
func (line *commandLine) canonical() []string {
	all := []string{"evalfleet", line.command.Name}
	for _, s := range line.flags {
		all = append(all, "--"+s.flag.Names()[0]+"="+s.value)
	}
	return append(append(all, "--"), line.args...)
}

// optionalInt is a flag whose number may be left out: --dry-run, --dry-run=5,
// --dry-run 5.
type optionalInt struct {
	*cli.IntFlag
	alone string // the value that it has then
}

// standsAlone reports whether a flag is an optionalInt without a number after it.
func standsAlone(f cli.Flag, following []string) bool {
	if _, ok := f.(optionalInt); !ok {
		return false
	}
	if len(following) == 0 {
		return true
	}
	_, err := strconv.Atoi(following[0])
	return err != nil
}

// helpAll asks for help with every flag.
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

// takesValue reports whether a flag needs a value behind it.
func takesValue(f cli.Flag) bool {
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

func named(name string, commands []*cli.Command) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

func unknownFlag(arg string, known []string) error {
	name, _, _ := strings.Cut(arg, "=")
	if near := config.Nearest("--"+strings.TrimLeft(name, "-"), known); near != "" {
		return usageError("no flag %s; did you mean %s?", name, near)
	}
	return usageError("no flag %s; put arguments that start with a dash after --", name)
}

// otherCommands are commands of other tools, and what to use here.
var otherCommands = map[string]string{
	"run-pairwise": "evalfleet run FOLDER --judge PROVIDER:MODEL compares the documents of a folder in pairs",
	"run-single":   "evalfleet run FILE scores documents if the evaluation file has single",
}

func unknownCommand(name string, commands []*cli.Command) error {
	if use := otherCommands[name]; use != "" {
		return usageError("no command %s; %s", name, use)
	}
	var known []string
	for _, command := range commands {
		known = append(known, command.Names()...)
	}
	if near := config.Nearest(name, known); near != "" {
		return usageError("no command %s; did you mean %s?", name, near)
	}
	return usageError("no command %s; evalfleet --help lists them", name)
}
