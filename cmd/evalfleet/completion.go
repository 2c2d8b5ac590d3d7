package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
)

//go:embed completion
var completionScripts embed.FS

// shells are those with a completion script.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "Print a script that completes commands and flags in a shell",
		ArgsUsage: strings.Join(shells, "|"),
		Description: "Prints a script for the shell. Bash: source it in ~/.bashrc, or save it in /etc/bash_completion.d. Zsh: save " +
			"it as _evalfleet in a folder of $fpath. Fish: save it in ~/.config/fish/completions. PowerShell: add it to $PROFILE. " +
			"The scripts call this command with the words so far after --, and get what completes the last one.",
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			if !slices.Contains(shells, shell) {
				return usageError("completion takes one argument: %s", strings.Join(shells, ", "))
			}
			if words := c.Args().Tail(); len(words) > 0 {
				for _, candidate := range candidates(words, withCommonFlags(commands(p))) {
					if _, err := fmt.Fprintln(p.stdout, candidate.in(shell)); err != nil {
						return err
					}
				}
				return nil
			}
			script, err := completionScripts.ReadFile("completion/evalfleet." + shell)
			if err != nil {
				return err
			}
			_, err = p.stdout.Write(script)
			return err
		},
	}
}

// candidate is a word that could be meant, and what it does.
type candidate struct{ word, about string }

// in is the candidate as the shell's script reads it.
func (c candidate) in(shell string) string {
	switch shell {
	case "bash": // which shows no descriptions
		return c.word
	case "zsh":
		return strings.ReplaceAll(c.word, ":", `\:`) + ":" + c.about
	}
	return c.word + "\t" + c.about
}

// candidates returns what completes the last of words; nothing, if that is a file or free text.
func candidates(words []string, commands []*cli.Command) (found []candidate) {
	before, last := words[:len(words)-1], words[len(words)-1]
	last = strings.Trim(last, `"`) // older versions of PowerShell pass no empty word, but ""
	add := func(word, about string) {
		if strings.HasPrefix(word, last) {
			found = append(found, candidate{word, about})
		}
	}
	if slices.Contains(before, "--") {
		return nil
	}
	var command *cli.Command
	flags := commonFlags()
	at := commandAt(before, commands)
	if at >= 0 {
		if command = named(before[at], commands); command == nil {
			return nil
		}
		flags = command.Flags
	}
	if len(before) > 0 && isFlag(before[len(before)-1]) && !strings.Contains(before[len(before)-1], "=") {
		if f := byName(flags)[strings.TrimLeft(before[len(before)-1], "-")]; f != nil && takesValue(f) {
			return nil
		}
	}
	switch {
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			for _, name := range f.Names() {
				add(dashed(name), helpUsage(f))
			}
		}
		add("--help", "show help")
		add(helpAll, "show help with every flag")
	case command == nil:
		for _, c := range commands {
			add(c.Name, c.Usage)
		}
	case command.Name == "completion":
		for _, shell := range shells {
			add(shell, "print the script for "+shell)
		}
	case command.Name == "schema":
		for _, kind := range config.SchemaKinds {
			add(kind, "print the schema of "+kind+" files")
		}
	}
	return found
}
