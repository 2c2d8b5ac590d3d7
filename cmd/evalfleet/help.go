package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Widths of help, in columns, and the most lines that --help prints.
const (
	helpWidth = 100
	nameWidth = 30 // of flags
	helpLines = 40
)

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

const commandHelp = `{{wrap .Command.Description 0}}

Usage: evalfleet {{.Command.Name}} [FLAGS]{{if .Command.ArgsUsage}} {{.Command.ArgsUsage}}{{end}}
{{if .Examples}}
Examples:
{{range .Examples}}  {{.}}
{{end}}{{end}}{{range .Groups}}
{{.Title}}:
{{range .Flags}}{{names .}}{{wrap (usage .) 32}}
{{end}}{{end}}
{{if .More}}{{wrap .More 0}}
{{else}}` + flagHelp + `{{end}}`

const flagHelp = `Flags may come before or after arguments; -- ends them. Each flag can also be set by an environment
variable: --out-dir by EVALFLEET_OUT_DIR.
`

// commandPage is what the help of a command shows.
type commandPage struct {
	Command  *cli.Command
	Examples []string
	Groups   []shownGroup
	More     string // what is left out, and how to see it
}

type shownGroup struct {
	Title string
	Flags []cli.Flag
}

// writeCommandHelp prints the common flags of a command and as many groups of the others as
// fit into helpLines; with all set, every group.
func writeCommandHelp(to io.Writer, command *cli.Command, all bool) error {
	page := commandPage{Command: command, Examples: examples[command.Name], Groups: groupsOf(command.Flags)}
	for full := page.Groups; ; page.Groups = page.Groups[:len(page.Groups)-1] {
		if left := full[len(page.Groups):]; len(left) > 0 {
			titles := make([]string, len(left))
			for i, group := range left {
				titles[i] = fmt.Sprintf("%s (%d)", group.Title, len(group.Flags))
			}
			page.More = "More flags with --help-all: " + strings.Join(titles, ", ") + "."
		}
		var text strings.Builder
		if err := printHelp(&text, commandHelp, page); err != nil {
			return err
		}
		if all || len(page.Groups) == 1 || strings.Count(text.String(), "\n") <= helpLines {
			_, err := io.WriteString(to, text.String())
			return err
		}
	}
}

// groupsOf are a command's flags by group, the common ones first.
func groupsOf(flags []cli.Flag) []shownGroup {
	groups := []shownGroup{{Title: "Flags"}}
	for _, f := range flags {
		if !slices.ContainsFunc(flagGroups, func(g flagGroup) bool { return slices.Contains(g.flags, f.Names()[0]) }) {
			groups[0].Flags = append(groups[0].Flags, f)
		}
	}
	for _, group := range flagGroups {
		shown := shownGroup{Title: group.title}
		for _, f := range flags {
			if slices.Contains(group.flags, f.Names()[0]) {
				shown.Flags = append(shown.Flags, f)
			}
		}
		if len(shown.Flags) > 0 {
			groups = append(groups, shown)
		}
	}
	return groups
}

// printHelp writes one of the templates above.
func printHelp(to io.Writer, template string, data any) error {
	var text strings.Builder
	cli.HelpPrinterCustom(&text, template, data, map[string]any{
		"wrapAt": func() int { return helpWidth },
		"names":  namesColumn,
		"usage":  helpUsage,
	})
	if text.Len() == 0 { // the library keeps a template's error to itself
		return errors.New("print help: the template failed")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// namesColumn is a flag's names, up to the column in which its usage begins: on the same line
// or, below long names, on the next.
func namesColumn(f cli.Flag) string {
	names := "  " + helpNames(f)
	if len(names) > nameWidth {
		names += "\n"
		return names + strings.Repeat(" ", nameWidth+2)
	}
	return fmt.Sprintf("%-*s", nameWidth+2, names)
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
