package main

import (
	"fmt"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// sayKnown prints how many runs `run` would take from earlier evaluations, if any.
func (p *process) sayKnown(c *cli.Context, s *config.Submission) error {
	if s.NoReuse {
		return nil
	}
	ctx, dir := c.Context, evaluationDir(c, s)
	var own results.Reader
	if url, _, err := p.storeIn(c, dir); err == nil { // else nothing is recorded yet
		if own, err = results.OpenReadOnly(ctx, url); err != nil {
			return outdir.StoreError(err)
		}
		defer own.Close()
	}
	others, closeAll := reuse.Open(ctx, p.own.Earlier(dir, s.Providers), zerolog.Nop())
	defer closeAll()
	if own == nil && len(others) == 0 {
		return nil
	}

	record, plans, err := enqueue.Plan(s.Evaluation.ID(), s.Evaluation, s.Settings)
	if err != nil {
		return failure.With(failure.Usage, err)
	}
	known, err := reuse.Find(ctx, reuse.Asking{Evaluation: s.Evaluation, Record: record, Plans: plans}, own, others...)
	if err != nil {
		return outdir.StoreError(err)
	}
	if known.Runs() > 0 {
		fmt.Fprint(p.stderr, p.folded(fmt.Sprintf("%s: `run` does not ask them again\n", known)))
	}
	return nil
}
