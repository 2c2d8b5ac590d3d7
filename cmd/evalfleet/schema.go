package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
)

func schemaCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "schema",
		Usage:     "Print the JSON Schema of evaluation files or fleet files",
		ArgsUsage: strings.Join(config.SchemaKinds, "|"),
		Description: "Prints a JSON Schema (draft 7), with which editors complete and check a file as you type. The files that " +
			"init writes name its public address in their first line. Without internet access, save the schema beside the file and " +
			"name it there: # yaml-language-server: $schema=evaluation.schema.json. The schema covers keys, types and words; " +
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
