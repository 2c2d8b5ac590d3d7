package commandline

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Widths of help in columns, and the maximum number of lines that --help prints.
const (
	HelpWidth  = 100
	HelpLines  = 40
	nameWidth  = 30 // of flags
	usageBelow = 6  // indent of a flag's description on a line of its own
	narrow     = 80 // below this width, descriptions have lines of their own
)

const commandHelp = `{{wrap .Command.Description 0}}

{{wrap (synopsis .Command) 0}}
{{if .Examples}}
Examples:
{{range .Examples}}{{example .}}{{end}}{{end}}{{range .Groups}}
{{.Title}}:
{{range .Flags}}{{names .}}{{wrap (usage .) usageIndent}}
{{end}}{{end}}
{{if .More}}{{wrap .More 0}}
{{else}}{{wrap "` + FlagHelp + `" 0}}
{{end}}`

// FlagHelp explains how flags are written.
const FlagHelp = `Flags can come before or after arguments; -- ends the flags. Each flag can also be set by an ` +
	`environment variable: --out-dir by EVALFLEET_OUT_DIR.`

// commandPage is the data of a command's help.
type commandPage struct {
	Command  *cli.Command
	Examples []string
	Groups   []shownGroup
	More     string // says what is left out, and how to see it
}

type shownGroup struct {
	Title string
	Flags []cli.Flag
}

// Group is a list of flags, by their first names, that help shows together.
type Group struct {
	Title string
	Flags []string
}

// WriteCommandHelp writes the common flags of a command and as many groups of the others as fit
// into HelpLines; if all is set, every group.
func (a App) WriteCommandHelp(to io.Writer, command *cli.Command, all bool) error {
	page := commandPage{Command: command, Examples: a.Examples[command.Name], Groups: a.groupsOf(command.Flags)}
	for full := page.Groups; ; page.Groups = page.Groups[:len(page.Groups)-1] {
		if left := full[len(page.Groups):]; len(left) > 0 {
			titles := make([]string, len(left))
			for i, group := range left {
				titles[i] = fmt.Sprintf("%s (%d)", group.Title, len(group.Flags))
			}
			page.More = "More flags with --help-all: " + strings.Join(titles, ", ") + "."
		}
		var text strings.Builder
		if err := a.print(&text, commandHelp, page); err != nil {
			return err
		}
		if all || len(page.Groups) == 1 || strings.Count(text.String(), "\n") <= HelpLines {
			_, err := io.WriteString(to, text.String())
			return err
		}
	}
}

// groupsOf returns a command's flags by group, the common ones first.
func (a App) groupsOf(flags []cli.Flag) []shownGroup {
	groups := []shownGroup{{Title: "Flags"}}
	for _, f := range flags {
		if !slices.ContainsFunc(a.Groups, func(g Group) bool { return slices.Contains(g.Flags, f.Names()[0]) }) {
			groups[0].Flags = append(groups[0].Flags, f)
		}
	}
	for _, group := range a.Groups {
		shown := shownGroup{Title: group.Title}
		for _, f := range flags {
			if slices.Contains(group.Flags, f.Names()[0]) {
				shown.Flags = append(shown.Flags, f)
			}
		}
		if len(shown.Flags) > 0 {
			groups = append(groups, shown)
		}
	}
	return groups
}

// WriteHelp writes the program's help from a template for its commands.
func (a App) WriteHelp(to io.Writer, template string) error {
	return a.print(to, template, a.Commands)
}

func (a App) print(to io.Writer, template string, data any) error {
	width := a.Width
	if width == 0 || width > HelpWidth {
		width = HelpWidth
	}
	indent := nameWidth + 2
	if width < narrow {
		indent = usageBelow
	}
	var text strings.Builder
	cli.HelpPrinterCustom(&text, template, data, map[string]any{
		"wrapAt":      func() int { return width },
		"usageIndent": func() int { return indent },
		"names":       func(f cli.Flag) string { return namesColumn(f, indent) },
		"usage":       Usage,
		"example":     func(line string) string { return example(line, width) },
		"synopsis": func(c *cli.Command) string {
			return strings.TrimSpace("Usage: evalfleet " + c.Name + " [FLAGS] " + c.ArgsUsage)
		},
	})

	if text.Len() == 0 { // the library does not return a template's error
		return errors.New("print help: the template failed")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// namesColumn returns a flag's names, padded to the column where its usage begins: on the same line
// or, after long names, on the next.
func namesColumn(f cli.Flag, indent int) string {
	names := "  " + Names(f)
	if len(names)+2 > indent {
		return names + "\n" + strings.Repeat(" ", indent)
	}
	return fmt.Sprintf("%-*s", indent, names)
}

// example breaks a command line into lines that can be copied together. It ends lines with a
// backslash, and never breaks within quotes.
func example(line string, width int) string {
	var out strings.Builder
	current, quoted := "  ", false
	for k, word := range strings.Split(line, " ") {
		switch {
		case k == 0:
		case !quoted && len(current)+1+len(word)+len(` \`) > width:
			out.WriteString(current + " \\\n")
			current = "      "
		default:
			current += " "
		}
		current += word
		if strings.Count(word, "'")%2 == 1 {
			quoted = !quoted
		}
	}
	return out.String() + current + "\n"
}

// Names returns a flag in its written form: "--judge MODEL, -j MODEL".
func Names(f cli.Flag) string {
	placeholder, _ := SplitUsage(f)
	var names []string
	for _, name := range f.Names() {
		name = dashed(name)
		if _, optional := f.(OptionalInt); optional {
			name += " [" + placeholder + "]"
		} else if TakesValue(f) {
			name += " " + placeholder
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Usage returns what a flag does, with its default.
func Usage(f cli.Flag) string {
	_, usage := SplitUsage(f)
	if documented, ok := f.(cli.DocGenerationFlag); ok && TakesValue(f) {
		if value := documented.GetValue(); value != "" && value != "0" && value != "0s" {
			usage += " (default " + strings.ReplaceAll(value, `"`, "") + ")"
		}
	}
	return usage
}

// SplitUsage splits off the name of a flag's value, which is in backquotes in its usage.
func SplitUsage(f cli.Flag) (placeholder, usage string) {
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
