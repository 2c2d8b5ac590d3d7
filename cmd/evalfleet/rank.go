package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/given"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

const (
	orderFlag    = "order"
	winnersFlag  = "winners"
	baselineFlag = "baseline"
	textsFlag    = "texts"
)

func rankCommand(p *process) *cli.Command {
	flags := append([]cli.Flag{
		&cli.StringFlag{
			Name:  kindFlag,
			Usage: "`KIND` of FILE: " + kindsOfVerdicts() + " (default detected for each file)",
		},
		&cli.StringFlag{
			Name:  orderFlag,
			Usage: "whether the first model of a row was shown first: `ORDER` is shown, random or unknown (default as the kind of file tells)",
		},
		&cli.StringFlag{
			Name:  winnersFlag,
			Usage: "what a winner means that is a position and a model's name: `MEANING` is positions or names (default as the other rows tell)",
		},
		&cli.StringFlag{
			Name:  baselineFlag,
			Usage: "`NAME` of the baseline of arena-hard judgments that do not name it (default baseline)",
		},
		&cli.BoolFlag{Name: textsFlag, Value: true, Usage: "keep questions and answers for the report (default true)"},
	}, reportFlags(outdir.HTML, formatCSV, outdir.JSON)...)

	return &cli.Command{
		Name:      "rank",
		Usage:     "Rank verdicts from files, without asking a model",
		ArgsUsage: "FILE...",
		Description: "Reads verdicts that people, judges or other tools have given, and writes the same report as an evaluation. " +
			"It needs no key, no Redis and no network. A FILE is JSON Lines, a JSON list, CSV or TSV: rows with model_a, model_b and winner, " +
			"or the output of another tool. Rows without a verdict are counted and named in the report.",
		Flags: flags,
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				_, err := oneArgument(c, "FILE")
				return err
			}
			return p.rank(c, c.Args().Slice())
		},
	}
}

// kindsOfVerdicts lists the formats of verdicts in words.
func kindsOfVerdicts() string {
	var words []string
	for _, f := range judgments.Formats {
		words = append(words, string(f))
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// rank stores the verdicts in files as the runs of an evaluation, in an output folder, and reports on it.
func (p *process) rank(c *cli.Context, files []string) error {
	how, err := rankOptions(c)
	if err != nil {
		return err
	}
	options, err := reportOptions(c)
	if err != nil {
		return err
	}
	required, err := requiredOf(c)
	if err != nil {
		return err
	}
	verdicts, err := given.Read(files, how)
	if err != nil {
		return failure.With(failure.Usage, err)
	}

	id := verdicts.Evaluation.ID()
	dir := cmp.Or(c.String(outDirFlag), outdir.Default(verdicts.Evaluation.Name, id))
	out, err := outdir.Open(dir)
	if err != nil {
		return err
	}
	defer out.Close()
	db, err := out.OpenStore(c.Context, "")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := verdicts.Store(c.Context, db); err != nil {
		return outdir.StoreError(err)
	}

	r, err := report.Build(c.Context, db, id, options)
	if err != nil {
		return err
	}
	if err := p.publish(c, results.Place{Dir: dir}, db, r); err != nil {
		return err
	}
	return p.require(c, r, required)
}

func rankOptions(c *cli.Context) (given.Options, error) {
	how := given.Options{
		Format: judgments.Format(c.String(kindFlag)), Order: c.String(orderFlag), Winners: c.String(winnersFlag),
		Baseline: c.String(baselineFlag), NoTexts: !c.Bool(textsFlag),
	}
	if how.Format != "" && !slices.Contains(judgments.Formats, how.Format) {
		return how, usageError("--%s: got %q, want %s", kindFlag, how.Format, kindsOfVerdicts())
	}
	for flag, values := range map[string][]string{
		orderFlag:   {given.OrderShown, given.OrderRandom, given.OrderUnknown},
		winnersFlag: {given.WinnersPositions, given.WinnersNames},
	} {
		if value := c.String(flag); value != "" && !slices.Contains(values, value) {
			last := len(values) - 1
			return how, usageError("--%s: got %q, want %s or %s", flag, value, strings.Join(values[:last], ", "), values[last])
		}
	}
	return how, nil
}
