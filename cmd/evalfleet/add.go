package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const opponentsFlag = "opponents"

func addCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "add",
		Usage:     "Add candidates to a ranking",
		ArgsUsage: "DIR|ID FILE…",
		Description: "Ranks the candidates whose answers are in FILE among those of an evaluation that has ended. DIR is its output folder. " +
			"Judges are asked only about the newcomers: first against all parts of the ranking, then against the candidates closest " +
			"to them. Everything else is as in the evaluation. The folder then has the new ranking and its history. " +
			"To resume after an interruption, repeat the command.",
		Flags: append([]cli.Flag{
			&cli.IntFlag{
				Name: opponentsFlag, Value: plan.Opponents,
				Usage: "compare each answer of a newcomer with at most `N` others",
			},
			&cli.StringFlag{Name: budgetFlag, Usage: "start no call that could exceed `USD` (default the evaluation's budget, again)"},
			dryRunOption(), failOnOption(), detailsOption(), openOption(), yesOption(),
		}, workFlags(metricsOff)...),
		Action: func(c *cli.Context) error { return p.add(c) },
	}
}

// board is an evaluation in an output folder to which candidates are added.
type board struct {
	*savedRun
	ended bool
}

// add adds the candidates of files to a ranking.
func (p *process) add(c *cli.Context) error {
	if c.NArg() < 2 {
		return usageError("add needs the output folder of an evaluation, and files with answers of newcomers")
	}
	if n := c.Int(opponentsFlag); n < 1 || n > plan.MostOpponents {
		return usageError("--%s must be from 1 to %s, got %d", opponentsFlag, wording.Count(plan.MostOpponents), n)
	}
	if c.IsSet(outDirFlag) {
		return usageError("add works in the output folder that it names first; remove --%s", outDirFlag)
	}
	b, err := p.openBoard(c)
	if err != nil {
		return err
	}
	defer b.reader.Close()

	grown, err := p.grow(c, b)
	if err != nil {
		return err
	}
	for _, name := range grown.Known {
		fmt.Fprintln(p.stderr, p.folded(fmt.Sprintf("%s is in the ranking already, with these answers", name)))
	}
	switch {
	case grown.Submission == nil && b.ended:
		if fmt.Fprintln(p.stderr, "nothing to ask"); c.IsSet(dryRunFlag) {
			return nil
		}
	case grown.Submission == nil && b.Evaluation.Board != nil: // an earlier command was interrupted
		if begun, n := b.Evaluation.Pairwise.Pairs.Opponents, c.Int(opponentsFlag); c.IsSet(opponentsFlag) && n != begun {
			return usageError("this add has begun with --%s %d, which cannot be changed until it has ended", opponentsFlag, begun)
		}
		p.warn(grown.Resumed.Warnings)
		b.Submission = grown.Resumed
	case !b.ended && b.Evaluation.Board != nil:
		return usageError("%s has not ended yet: finish it with evalfleet resume %s, or, if its budget is spent, repeat its add with "+
			"a higher --%s", b.Evaluation.Name, wording.ShellWord(b.dir), budgetFlag)
	case !b.ended:
		return usageError("%s has not ended yet: finish it with evalfleet resume %s", b.Evaluation.Name, wording.ShellWord(b.dir))
	default:
		for _, line := range grown.Submission.Taken {
			fmt.Fprintln(p.stderr, p.folded(line))
		}
		p.warn(grown.Submission.Warnings)
		b.Submission = grown.Submission
	}

	if c.IsSet(dryRunFlag) {
		if c.Int(dryRunFlag) < 1 {
			return usageError("--%s must be at least 1, got %d", dryRunFlag, c.Int(dryRunFlag))
		}
		return p.dryRunOf(b.Submission, c.Int(dryRunFlag))
	}
	return p.runBoard(c, b)
}

// openBoard opens the evaluation that the first argument names.
func (p *process) openBoard(c *cli.Context) (*board, error) {
	dir, err := place(c, c.Args().First())
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, usageError("add works in an output folder: collect %s into one first", c.Args().First())
	}
	if outdir.InUse(dir) {
		return nil, failure.With(failure.Usage, fmt.Errorf("output folder %s is %w; wait for it", dir, outdir.ErrInUse))
	}

	b := &board{}
	if b.savedRun, err = p.openSaved(c, dir); err != nil {
		return nil, err
	}
	stored, err := b.reader.Evaluation(c.Context, b.saved.Evaluation)
	if err != nil {
		b.reader.Close()
		return nil, err
	}
	b.ended = !stored.Finished.IsZero() || stored.Stopped != nil && stored.Stopped.Known != nil
	return b, nil
}

// grow reads the answers of the newcomers and adds them to the board.
func (p *process) grow(c *cli.Context, b *board) (config.Grown, error) {
	on := config.Board{Submission: b.Submission, Opponents: c.Int(opponentsFlag)}
	var err error
	if b.Evaluation.Pairwise != nil {
		if on.Pairs, err = results.Compared(c.Context, b.reader, b.saved.Evaluation, b.Evaluation); err != nil {
			return config.Grown{}, outdir.StoreError(err)
		}
	}
	in, err := config.InputOf(c.Args().Tail())
	if err != nil {
		return config.Grown{}, failure.With(failure.Usage, err)
	}
	if b.ended && len(on.Pairs) > 0 {
		r, err := report.Build(c.Context, b.reader, b.saved.Evaluation, report.Options{})
		if err != nil {
			return config.Grown{}, err
		}
		on.History = []eval.Standing{r.Standing()}
		if of := b.Evaluation.Board; of != nil {
			on.History = append(slices.Clone(of.History), on.History...)
		}
	}
	return on.Grow(in, config.Options{Fleet: b.fleet, Compare: config.Compare{Budget: c.String(budgetFlag)}})
}

// runBoard asks what is new, and reports.
func (p *process) runBoard(c *cli.Context, b *board) error {
	how, err := workOf(c)
	if err != nil {
		return err
	}
	if b.Evaluation.ID() != b.saved.Evaluation {
		if err := p.confirmCost(c, b.Submission, how.slots); err != nil {
			return err
		}
	}

	j := p.jobOf(c, b.Submission, b.out, b.log)
	j.redis, j.how = b.redis, how
	j.Place, j.StoreURL = b.saved.Place(b.dir), b.saved.ResultsURL
	j.Resume, j.Raise = resumeWith(c, b.dir), "continue with a higher budget: "+p.again(c, budgetFlag)+" --"+budgetFlag+" USD"
	if j.failOn, err = failOnOf(c); err != nil {
		return err
	}
	return j.run(c.Context)
}
