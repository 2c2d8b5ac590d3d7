package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/config"
)

func schemaCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "Print the JSON Schema of evaluation files or fleet files",
		ArgsUsage: strings.Join(config.SchemaKinds, "|"),
		Description: "Prints a JSON Schema (draft 7), which editors use to complete and check a file as you type. The first line of " +
			"the files that init writes contains its public address. Without internet access, save the schema beside the file and " +
			"put its name there: # yaml-language-server: $schema=evaluation.schema.json. The schema covers keys, types and words; " +
			"validate checks more.",
		Action: func(c *cli.Context) error {
			kind := c.Args().First()
			if c.Args().Len() != 1 || !slices.Contains(config.SchemaKinds, kind) {
				return usageError("schema takes one argument: %s", strings.Join(config.SchemaKinds, " or "))
			}
			text, err := config.Schema(kind)
			if err != nil {
				return err
			}
			_, err = p.stdout.Write(text)
			return err
		},
	}
}
