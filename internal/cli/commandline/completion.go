package commandline

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Candidate is a word that completes a command line, with a description.
type Candidate struct{ Word, About string }

// In returns the candidate in the form that the shell's completion script reads.
func (c Candidate) In(shell string) string {
	switch shell {
	case "bash": // it shows no descriptions
		return c.Word
	case "zsh":
		return strings.ReplaceAll(c.Word, ":", `\:`) + ":" + c.About
	}
	return c.Word + "\t" + c.About
}

// Candidates returns completions of the last of words; none, if that is a file or free text.
func (a App) Candidates(words []string) (found []Candidate) {
	before, last := words[:len(words)-1], words[len(words)-1]
	last = strings.Trim(last, `"`) // older versions of PowerShell pass "" instead of an empty word
	add := func(word, about string) {
		if strings.HasPrefix(word, last) {
			found = append(found, Candidate{word, about})
		}
	}
	if slices.Contains(before, "--") {
		return nil
	}
	var command *cli.Command
	flags := a.Common
	at := a.commandAt(before)
	if at >= 0 {
		if command = a.named(before[at]); command == nil {
			return nil
		}
		flags = command.Flags
	}

	if len(before) > 0 && isFlag(before[len(before)-1]) && !strings.Contains(before[len(before)-1], "=") {
		if f := byName(flags)[strings.TrimLeft(before[len(before)-1], "-")]; f != nil && TakesValue(f) {
			return nil
		}
	}

	switch {
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			for _, name := range f.Names() {
				add(dashed(name), Usage(f))
			}
		}
		add("--help", "show help")
		add(helpAll, "show help with every flag")
	case command == nil:
		for _, c := range a.Commands {
			add(c.Name, c.Usage)
		}
	default:
		for _, c := range a.Arguments[command.Name] {
			add(c.Word, c.About)
		}
	}

	return found
}
