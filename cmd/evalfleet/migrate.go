package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
)

func migrateCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "migrate",
		Usage:     "Migrate a results store to this version",
		ArgsUsage: "STORE|DIR",
		Description: "STORE is a results.db or a postgres:// URL; DIR is an output folder. Commands that write results migrate the " +
			"store automatically. Commands that only read refuse an older store, and older programs refuse a migrated one. " +
			"An interrupted migration changes nothing: run the command again.",
		Action: func(c *cli.Context) error {
			url, err := oneArgument(c, "STORE")
			if err != nil {
				return err
			}

			if outdir.Is(url) {
				if url, _, err = p.storeIn(c, url); err != nil {
					return err
				}
			}

			from, to, err := results.Migrate(c.Context, url)
			if err != nil {
				return outdir.StoreError(err)
			}

			if from == to {
				_, err = fmt.Fprintf(p.stdout, "%s already has version %d\n", outdir.PublicURL(url), to)
			} else {
				_, err = fmt.Fprintf(p.stdout, "%s was migrated from version %d to %d\n", outdir.PublicURL(url), from, to)
			}

			return err
		},
	}
}
