package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

const (
	formatFlag    = "format"
	tiesFlag      = "ties"
	fallbacksFlag = "fallbacks"
	lengthFlag    = "length"
	drawsFlag     = "draws"
	positionFlag  = "position-effect"
	scaleFlag     = "judge-scale"
	flipsFlag     = "flips"
	seedFlag      = "seed"
)

// The additional formats of `report`: the CSV files of an evaluation, its tables as Parquet, and its records in
// the schema of Every Eval Ever.
const (
	formatCSV       = "csv"
	formatParquet   = "parquet"
	formatEveryEval = "every-eval-ever"
)

var formats = []string{outdir.HTML, formatCSV, formatParquet, outdir.JSON, outdir.Markdown, formatEveryEval}

// comparisonFolder is the folder for a comparison if none is given.
var comparisonFolder = filepath.Join(outdir.Root, "comparison")

func reportCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "Rank recorded results and write the report",
		ArgsUsage: "ID|DIR...",
		Description: "Reads an output folder, or the results store of an evaluation in Redis. Prints a summary, or all tables " +
			"with --" + detailsFlag + ", and writes " +
			"report.html, the CSV files and the answers of listed runs to the output folder only. It can run at any time, " +
			"even before the evaluation is complete. Given several, compares the others with the first, in " +
			comparisonFolder + " or --" + outDirFlag + ".",
		Flags: append(
			reportFlags(outdir.HTML, formatCSV), &cli.BoolFlag{Name: fallbacksFlag, Usage: "include verdicts by fallback models"},
		),

		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				_, err := oneArgument(c, "ID|DIR")
				return err
			}
			return p.report(c, c.Args().Slice())
		},
	}
}

// reportFlags returns the flags that say how verdicts are ranked and how the report is written; formats are the default.
func reportFlags(formats ...string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{
			Name: formatFlag, Value: cli.NewStringSlice(formats...),
			Usage: "`FORMATS` to write, comma-separated: html, csv, parquet, json, md, every-eval-ever; json alone is also printed",
		},
		detailsOption(), openOption(),

		&cli.StringFlag{Name: tiesFlag, Value: "davidson", Usage: "`MODEL` of ties: davidson or half"},
		&cli.BoolFlag{Name: lengthFlag, Usage: "adjust the ranking for the estimated effect of text length"},
		&cli.BoolFlag{
			Name: positionFlag, Value: true,
			Usage: "adjust the ranking for each judge's preference for the text shown first (default true)",
		},
		&cli.StringFlag{
			Name: flipsFlag, Value: "verdicts",
			Usage: "how to count a judge whose preferred text changes with the order: `COUNT` is verdicts (two verdicts) or tie",
		},
		&cli.BoolFlag{Name: scaleFlag, Usage: "weight judges by how well they tell candidates apart"},
		&cli.IntFlag{
			Name:  drawsFlag,
			Usage: "estimate each candidate's probability of being best from `N` random draws, at most 100000 (default 2000)",
		},

		&cli.StringSliceFlag{
			Name: requireFlag, KeepSpace: true,
			Usage: "end with exit code 1 unless the report meets a `REQUIREMENT`, such as 'trust >= sound' or 'new >= old @ " +
				"0.95'; can be repeated (default none)",
		},
		&cli.StringFlag{
			Name:  junitFlag,
			Usage: "also write the requirements and whether they are met to `FILE`, as JUnit XML (default no file)",
		},
		&cli.Uint64Flag{Name: seedFlag, Usage: "random seed `NUMBER` (default 0); the same seed gives the same result"},
	}
}

func (p *process) report(c *cli.Context, arguments []string) error {
	options, err := reportOptions(c)
	if err != nil {
		return err
	}
	required, err := requiredOf(c)
	switch {
	case err != nil:
		return err
	case len(arguments) > 1 && len(required) > 0:
		return usageError("--%s takes one evaluation, got %d", requireFlag, len(arguments))
	case len(arguments) > 1:
		for _, format := range []string{formatParquet, formatEveryEval} {
			if slices.Contains(c.StringSlice(formatFlag), format) {
				return usageError("--%s %s takes one evaluation, got %d", formatFlag, format, len(arguments))
			}
		}
		return p.compare(c, arguments, options)
	}

	reader, id, dir, err := p.resultsOf(c, arguments[0])
	if err != nil {
		return err
	}
	defer reader.Close()
	r, err := report.Build(c.Context, reader, id, options)
	if err != nil {
		return err
	}

	place := results.Place{Dir: dir} // nothing is written elsewhere: the folder may belong to another person
	if before, err := outdir.ReadResumption(arguments[0]); err == nil {
		place.CSV = before.CSV
	}
	if err := p.publish(c, place, reader, r); err != nil {
		return err
	}
	return p.require(c, r, required)
}

// publish writes a report in the formats of --format, and prints it.
func (p *process) publish(c *cli.Context, place results.Place, reader results.Reader, r *report.Report) error {
	if err := madeFolder(place.Dir); err != nil {
		return err
	}
	var paths, answers []string
	if slices.Contains(c.StringSlice(formatFlag), formatCSV) {
		done, err := outdir.Export(c.Context, place, reader, r, p.again(c))
		if err != nil {
			return err
		}
		paths, answers = done.Files, done.Answers
	}

	if slices.Contains(c.StringSlice(formatFlag), formatParquet) {
		tables, err := results.ExportParquet(c.Context, place.Dir, reader, r.Evaluation, r.Rankings())
		if err != nil {
			return failure.With(failure.Unavailable, err)
		}
		paths = append(paths, tables...)
	}

	written, err := outdir.WriteReport(c.Context, place.Dir, reader, r, c.StringSlice(formatFlag)...)
	if err != nil {
		return err
	}
	if slices.Contains(c.StringSlice(formatFlag), formatEveryEval) {
		records, err := outdir.WriteEveryEvals(place.Dir, r.EveryEvals(ownVersion()))
		if err != nil {
			return err
		}
		paths = append(paths, records...)
	}

	if onlyJSON(c) {
		if err := r.WriteJSON(p.stdout); err != nil {
			return err
		}
		return nil
	}
	printing := p.printing(c)
	if err := printing.print(p.stdout, r, place.Dir, append(paths, written...)); err != nil {
		return err
	}
	printing.show(c.Context, written)
	for _, path := range answers {
		fmt.Fprintln(p.stdout, path)
	}
	return nil
}

// madeFolder makes an output folder unless it exists.
func madeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return outdir.Failed(fmt.Errorf("output folder: %w", err))
	}
	return nil
}

// onlyJSON reports whether JSON is the only format. Standard output then has it, and nothing else.
func onlyJSON(c *cli.Context) bool {
	return slices.Equal(c.StringSlice(formatFlag), []string{outdir.JSON})
}

func reportOptions(c *cli.Context) (report.Options, error) {
	options := report.Options{
		Fallback: c.Bool(fallbacksFlag), Length: c.Bool(lengthFlag), NoPosition: !c.Bool(positionFlag),
		Scales: c.Bool(scaleFlag), Draws: c.Int(drawsFlag), Seed: c.Uint64(seedFlag),
	}
	switch ties := c.String(tiesFlag); ties {
	case "davidson":
	case "half":
		options.Ties = rank.HalfWins
	default:
		return options, usageError("--%s: got %q, want davidson or half", tiesFlag, ties)
	}

	switch flips := c.String(flipsFlag); flips {
	case "verdicts":
	case "tie":
		options.FlipsTie = true
	default:
		return options, usageError("--%s: invalid value %q: want verdicts or tie", flipsFlag, flips)
	}

	if n := options.Draws; n < 0 || n > rank.MaxDraws {
		return options, usageError("--%s: invalid number %d: want 0 to %d", drawsFlag, n, rank.MaxDraws)
	}

	for _, format := range c.StringSlice(formatFlag) {
		if !slices.Contains(formats, format) {
			return options, usageError("--%s: got %q, want one of %s", formatFlag, format, strings.Join(formats, ", "))
		}
	}

	return options, nil
}

// compare writes a report that shows several evaluations side by side.
func (p *process) compare(c *cli.Context, arguments []string, options report.Options) error {
	var all []*report.Report
	for _, argument := range arguments {
		r, err := p.built(c, argument, options)
		if err != nil {
			return err
		}
		all = append(all, r)
	}

	dir := cmp.Or(c.String(outDirFlag), comparisonFolder)
	if err := madeFolder(dir); err != nil {
		return err
	}
	compared := report.Compare(all...)
	var paths []string
	if slices.Contains(c.StringSlice(formatFlag), formatCSV) {
		var err error
		if paths, err = results.ExportTable(dir, compared.Table()); err != nil {
			return failure.With(failure.Unavailable, err)
		}
	}

	written, err := outdir.WriteForms(dir, "comparison", compared, c.StringSlice(formatFlag)...)
	if err != nil {
		return err
	}
	if onlyJSON(c) {
		return compared.WriteJSON(p.stdout)
	}
	if err := compared.WriteText(terminal.Raw(p.stdout), p.printing(c).on(p.stdout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(p.stdout, "\n%s\n", strings.Join(append(paths, written...), "\n")); err != nil {
		return err
	}
	p.printing(c).show(c.Context, written)
	return nil
}

// built returns the report on one of several arguments.
func (p *process) built(c *cli.Context, argument string, options report.Options) (*report.Report, error) {
	reader, id, _, err := p.resultsOf(c, argument)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return report.Build(c.Context, reader, id, options)
}

// resultsOf opens the results of a folder or of an evaluation in Redis, and returns the folder for its files.
func (p *process) resultsOf(c *cli.Context, argument string) (results.Reader, eval.ID, string, error) {
	out := c.String(outDirFlag)
	if outdir.Is(argument) {
		reader, id, err := p.folder(c, argument).Read(c.Context)
		if out == "" {
			out = argument
		}
		return reader, id, out, err
	}
	if c.String(redisFlag) == "" {
		return nil, "", "", usageError("%s is not a folder; to report on an evaluation by its id, set its Redis with --%s", argument, redisFlag)
	}
	d, err := p.openConnection(c, false)
	if err != nil {
		return nil, "", "", err
	}
	defer d.Close()
	return d.Reader(c.Context, eval.ID(argument))
}
