package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Again returns a command line that repeats c: its arguments, and its flags, including those that
// the environment set, but not those in without. public returns the value of a flag in a form that
// may be shown.
func Again(c *cli.Context, without []string, public func(flag, value string) string) string {
	words := []string{"evalfleet", c.Command.Name}
	for _, argument := range c.Args().Slice() {
		words = append(words, wording.ShellWord(argument))
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if !c.IsSet(name) || slices.Contains(without, name) {
			continue
		}
		values := []string{fmt.Sprint(c.Value(name))}
		switch value := c.Value(name).(type) {
		case bool:
			words = append(words, "--"+name)
			continue
		case cli.StringSlice:
			values = value.Value()
		}
		for _, value := range values {
			words = append(words, "--"+name, wording.ShellWord(public(name, value)))
		}
	}
	return strings.Join(words, " ")
}
