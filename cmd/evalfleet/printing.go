package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

const detailsFlag = "details"

func detailsOption() cli.Flag {
	return &cli.BoolFlag{Name: detailsFlag, Usage: "print all tables of the report instead of a summary"}
}

const openFlag = "open"

func openOption() cli.Flag {
	return &cli.BoolFlag{Name: openFlag, Usage: "open the report in a browser"}
}

// leastColumns is the least width for which text is laid out; narrower terminals get lines of this width.
const leastColumns = 60

// printing holds the options for printing results.
type printing struct {
	details bool // all tables instead of a card
	open    bool // opens the page
	notices io.Writer
	env     config.Lookup
}

func (p *process) printing(c *cli.Context) printing {
	return printing{details: c.Bool(detailsFlag), open: c.Bool(openFlag), notices: p.stderr, env: p.env}
}

// show opens the page among files if a flag asks for it. A failure to open it is not an error: the page is there.
func (p printing) show(ctx context.Context, files []string) {
	if !p.open {
		return
	}
	page := pageOf(files)
	if page < 0 {
		fmt.Fprintf(p.notices, "evalfleet: no page to open: --%s needs --%s %s\n", openFlag, formatFlag, outdir.HTML)
		return
	}
	if err := terminal.Open(ctx, files[page], p.env); err != nil {
		fmt.Fprintf(p.notices, "evalfleet: cannot open the report: %v; open it yourself: %s\n", err, files[page])
	}
}

// pageOf returns the index of the HTML page among files, or -1 if there is none.
func pageOf(files []string) int {
	return slices.IndexFunc(files, func(path string) bool { return filepath.Ext(path) == ".html" })
}

// on returns text options for a writer. On a terminal, text has the terminal's width and colours, unless NO_COLOR
// forbids them (no-color.org). Otherwise text has 100 columns and no colour.
func (p printing) on(out io.Writer) report.TextOptions {
	file := terminal.Of(out)
	if file == nil {
		return report.TextOptions{}
	}
	options := report.TextOptions{Colour: !p.set("NO_COLOR")}
	if name, _ := p.env("TERM"); name == "dumb" {
		options.Colour = false
	}
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
		options.Width = max(columns, leastColumns)
	}
	return options
}

// columns returns the width of text on a writer: its terminal's width, or 100.
func (p *process) columns(out io.Writer) int {
	return cmp.Or(printing{env: p.env}.on(out).Width, plain.Width)
}

// folded returns a text for printing: on a terminal, lines that are too wide are broken between words.
func (p *process) folded(text string) string {
	if width := (printing{env: p.env}).on(p.stdout).Width; width > 0 {
		return lines.Fold(text, width)
	}
	return text
}

func (p printing) set(variable string) bool {
	value, _ := p.env(variable)
	return value != ""
}

// print prints a report and the paths of its files; dir is its output folder.
func (p printing) print(out io.Writer, r *report.Report, dir string, files []string) error {
	if p.details {
		if err := r.WriteText(terminal.Raw(out), p.on(out)); err != nil || len(files) == 0 {
			return err
		}
		_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(files, "\n"))
		return err
	}
	card := report.CardOptions{TextOptions: p.on(out), Details: "evalfleet report " + wording.ShellWord(dir) + " --" + detailsFlag}
	page := pageOf(files)
	if page >= 0 {
		card.Page = files[page]
	}
	for k, path := range files {
		if k != page && filepath.Dir(path) == filepath.Clean(dir) {
			card.Beside = append(card.Beside, filepath.Base(path))
		}
	}
	if last := len(card.Beside) - 1; page < 0 && last >= 0 {
		card.Page = files[len(files)-1]
		card.Beside = card.Beside[:last]
	}
	return r.WriteCard(terminal.Raw(out), card)
}
