package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

//go:embed completion
var completionScripts embed.FS

// shells lists the shells that have a completion script.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "Print a script that completes commands and flags in a shell",
		ArgsUsage: strings.Join(shells, "|"),
		Description: "Prints a script for the shell. Bash: source it in ~/.bashrc, or save it in /etc/bash_completion.d. Zsh: save " +
			"it as _evalfleet in a folder of $fpath. Fish: save it in ~/.config/fish/completions. PowerShell: add it to $PROFILE. " +
			"The script calls this command with the words typed so far after --, and reads the completions of the last one.",
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			if !slices.Contains(shells, shell) {
				return usageError("completion takes one argument: %s", strings.Join(shells, ", "))
			}
			if words := c.Args().Tail(); len(words) > 0 {
				for _, candidate := range appOf(p).Candidates(words) {
					if _, err := fmt.Fprintln(p.stdout, candidate.In(shell)); err != nil {
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
