package commandline

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// ManPages returns the manual pages by name, in the language of man(7).
func (a App) ManPages() map[string]string {
	var list strings.Builder
	pages := map[string]string{}
	for _, command := range a.Commands {
		name := "evalfleet-" + command.Name
		pages[name] = a.manPage(name, command)
		fmt.Fprintf(&list, ".TP\n.BR %s (1)\n%s\n", roff(name), roff(command.Usage))
	}
	pages["evalfleet"] = manHead("evalfleet", "rank documents with LLM judges") +
		".SH SYNOPSIS\n.B evalfleet\n.I COMMAND\n[\\fIFLAGS\\fR] [\\fIARGUMENTS\\fR]\n.SH COMMANDS\n" + list.String() +
		".SH ENVIRONMENT\n" + roff(strings.Join(strings.Fields(FlagHelp), " ")) + "\n"
	return pages
}

func (a App) manPage(name string, command *cli.Command) string {
	var page strings.Builder
	page.WriteString(manHead(name, strings.ToLower(command.Usage[:1])+command.Usage[1:]))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n.B evalfleet %s\n[\\fIFLAGS\\fR] %s\n", roff(command.Name), roff(command.ArgsUsage))
	fmt.Fprintf(&page, ".SH DESCRIPTION\n%s\n", roff(command.Description))
	for _, group := range a.groupsOf(command.Flags) {
		fmt.Fprintf(&page, ".SH %s\n", roff(strings.ToUpper(group.Title)))
		for _, f := range group.Flags {
			fmt.Fprintf(&page, ".TP\n.B %s\n%s\n", roff(Names(f)), roff(Usage(f)))
		}
	}
	page.WriteString(".SH EXAMPLES\n.nf\n")
	for _, example := range a.Examples[command.Name] {
		page.WriteString(roff(example) + "\n")
	}
	page.WriteString(".fi\n.SH SEE ALSO\n.BR evalfleet (1)\n")
	return page.String()
}

func manHead(name, about string) string {
	return fmt.Sprintf(
		".TH %s 1 \"\" \"evalfleet\" \"evalfleet\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), roff(name),
		roff(about),
	)
}

// roff escapes a text so that none of its characters is an instruction.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
