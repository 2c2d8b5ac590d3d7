package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/report"
	"github.com/evalfleet/evalfleet/results"
)

const (
	formatFlag    = "format"
	tiesFlag      = "ties"
	fallbacksFlag = "fallbacks"
)

// What `report` can write.
const (
	formatHTML = "html"
	formatCSV  = "csv"
)

func reportCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "rank what has been recorded, and write the report",
		ArgsUsage: "ID|DIR",
		Description: "Reads an output folder, or the sink of an evaluation in Redis, prints the ranking and writes report.html " +
			"and the CSVs. It may be run at any time, also before the evaluation is complete.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: formatFlag, Value: cli.NewStringSlice(formatHTML, formatCSV), Usage: "`FORMATS` to write, separated by commas: html, csv"},
			&cli.BoolFlag{Name: fallbacksFlag, Usage: "count verdicts that a fallback model gave in a judge's place"},
			&cli.StringFlag{Name: tiesFlag, Value: "davidson", Usage: "how ties count: `MODEL` is davidson or half"},
		},
		Action: func(c *cli.Context) error {
			argument, err := oneArgument(c, "ID|DIR")
			if err != nil {
				return err
			}
			return p.report(c, argument)
		},
	}
}

func (p *process) report(c *cli.Context, argument string) error {
	options := report.Options{Fallback: c.Bool(fallbacksFlag)}
	switch ties := c.String(tiesFlag); ties {
	case "davidson":
	case "half":
		options.Ties = rank.HalfWins
	default:
		return usageError("--%s: %q stands here, want davidson or half", tiesFlag, ties)
	}
	formats := c.StringSlice(formatFlag)
	for _, format := range formats {
		if format != formatHTML && format != formatCSV {
			return usageError("--%s: %q stands here, want %s or %s", formatFlag, format, formatHTML, formatCSV)
		}
	}
	reader, id, dir, err := p.resultsOf(c, argument)
	if err != nil {
		return err
	}
	defer reader.Close()
	r, err := report.Build(c.Context, reader, id, options)
	if err != nil {
		return err
	}
	var paths []string
	if slices.Contains(formats, formatCSV) {
		done, err := export(c.Context, results.Place{Dir: dir}, reader, r, p.again(c))
		if err != nil {
			return err
		}
		paths = append(done.Files, done.Answers...)
	}
	if slices.Contains(formats, formatHTML) {
		page, err := writeReport(dir, r)
		if err != nil {
			return err
		}
		paths = append(paths, page)
	}
	if err := r.WriteText(p.stdout, report.TextOptions{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "\n%s\n", strings.Join(paths, "\n"))
	return err
}

// resultsOf opens the results of a folder or of an evaluation in Redis, and
// says which folder its files belong into.
func (p *process) resultsOf(c *cli.Context, argument string) (results.Reader, eval.ID, string, error) {
	out := c.String(outDirFlag)
	if isFolder(argument) {
		reader, id, err := readFolder(c.Context, argument)
		if out == "" {
			out = argument
		}
		return reader, id, out, err
	}
	if c.String(redisFlag) == "" {
		return nil, "", "", usageError("%s is no folder; to report on an evaluation by its id, name its Redis with --%s", argument, redisFlag)
	}
	d, err := p.openDrain(c)
	if err != nil {
		return nil, "", "", err
	}
	defer d.client.Close()
	return d.reader(c.Context, eval.ID(argument))
}

// reader opens the sink of an evaluation in Redis for reading.
func (d *drain) reader(ctx context.Context, id eval.ID) (results.Reader, eval.ID, string, error) {
	r, err := d.store.Evaluation(ctx, id)
	if err != nil {
		return nil, "", "", withCode(exitUsage, err)
	}
	dir := d.dir
	if dir == "" {
		dir = defaultFolder(r.Name, id)
	}
	url := r.SinkURL
	if url == "" {
		url = filepath.Join(dir, sinkFile)
	}
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, "", "", withCode(exitUnreachable, fmt.Errorf("%w; `evalfleet collect %s` brings its results here", err, id))
	}
	return reader, id, dir, nil
}
