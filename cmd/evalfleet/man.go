package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

func manCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "Write the manual pages",
		ArgsUsage: "DIR",
		Description: "Writes a manual page for evalfleet and for each command into DIR, which is created: evalfleet.1, " +
			"evalfleet-run.1 and so on.",
		Action: func(c *cli.Context) error {
			dir, err := oneArgument(c, "DIR")
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}

			for name, page := range appOf(p).ManPages() {
				if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(page), 0o644); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(p.stdout, dir)
			return err
		},
	}
}
