package main

import (
	"errors"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpWidth is the longest line of help.
const helpWidth = 100

const appHelp = `evalfleet ranks documents with LLM judges.

An evaluation file defines documents, judges and questions. Each question to one judge is a run.
evalfleet executes runs within all provider limits, retries failures, records each run once, and
ranks the results.

Usage: evalfleet COMMAND [FLAGS] [ARGUMENTS]

Commands:
{{range .}}  {{.Name}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}
      {{wrap .Usage 6}}
{{end}}
` + flagHelp + `
Run evalfleet COMMAND --help for details.
`

const commandHelp = `{{wrap .Description 0}}

Usage: evalfleet {{.Name}} [FLAGS]{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}

Flags:
{{range .Flags}}  {{flagNames .}}
      {{wrap (flagUsage .) 6}}
{{end}}
` + flagHelp

const flagHelp = `Flags may come before or after arguments; -- ends them. Each flag can also be set by an environment
variable: --out-dir by EVALFLEET_OUT_DIR.
`

// printHelp writes one of the templates above.
func printHelp(to io.Writer, template string, data any) error {
	var text strings.Builder
	cli.HelpPrinterCustom(&text, template, data, map[string]any{
		"wrapAt":    func() int { return helpWidth },
		"flagNames": helpNames,
		"flagUsage": helpUsage,
	})
	if text.Len() == 0 { // the library keeps a template's error to itself
		return errors.New("print help: the template failed")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// helpNames is a flag as it is written: "--judge MODEL, -j MODEL".
func helpNames(f cli.Flag) string {
	placeholder, _ := splitUsage(f)
	var names []string
	for _, name := range f.Names() {
		name = dashed(name)
		if _, optional := f.(optionalInt); optional {
			name += " [" + placeholder + "]"
		} else if takesValue(f) {
			name += " " + placeholder
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// helpUsage is what a flag does, with its default.
func helpUsage(f cli.Flag) string {
	_, usage := splitUsage(f)
	if documented, ok := f.(cli.DocGenerationFlag); ok && takesValue(f) {
		if value := documented.GetValue(); value != "" && value != "0" && value != "0s" {
			usage += " (default " + strings.ReplaceAll(value, `"`, "") + ")"
		}
	}
	return usage
}

// splitUsage takes the name of a flag's value out of its usage, where it is in back quotes.
func splitUsage(f cli.Flag) (placeholder, usage string) {
	documented, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return "VALUE", ""
	}
	usage = documented.GetUsage()
	before, rest, quoted := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !quoted || !closed {
		return "VALUE", usage
	}
	return name, before + name + after
}
