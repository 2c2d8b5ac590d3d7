package main

import (
	"fmt"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/reuse"
)

// sayKnown prints how many runs `run` would take from earlier evaluations, if any.
func (p *process) sayKnown(c *cli.Context, s *config.Submission) error {
	_, answered, err := p.known(c, s)
	if err == nil && answered != "" {
		fmt.Fprint(p.stderr, p.folded(answered+": `run` does not ask them again\n"))
	}
	return err
}

// known returns the runs that `run` would not ask, because they are recorded or an earlier evaluation has answered them.
// answered says how many of the latter there are, and of which evaluations; empty: none.
func (p *process) known(c *cli.Context, s *config.Submission) (known estimate.Known, answered string, err error) {
	ctx, dir := c.Context, evaluationDir(c, s)
	var own results.Reader
	if url, _, err := p.storeIn(c, dir); err == nil { // else nothing is recorded yet
		if own, err = results.OpenReadOnly(ctx, url); err != nil {
			return known, "", outdir.StoreError(err)
		}
		defer own.Close()
	}
	record, plans, err := enqueue.Plan(s.Evaluation.ID(), s.Evaluation, s.Settings)
	if err != nil {
		return known, "", failure.With(failure.Usage, err)
	}
	if own != nil {
		for phase := range plans {
			ended, err := reuse.EndedIn(ctx, own, record.ID, phase)
			if err != nil {
				return known, "", outdir.StoreError(err)
			}
			known.Recorded = append(known.Recorded, ended)
		}
	}
	if s.NoReuse {
		return known, "", nil
	}

	others, closeAll := reuse.Open(ctx, p.own.Earlier(dir, s.Providers), zerolog.Nop())
	defer closeAll()
	if own == nil && len(others) == 0 {
		return known, "", nil
	}
	found, err := reuse.Find(ctx, reuse.Asking{Evaluation: s.Evaluation, Record: record, Plans: plans}, own, others...)
	if err != nil {
		return known, "", outdir.StoreError(err)
	}
	if found.Runs() > 0 {
		known.Answered, answered = found.ByPhase(), found.String()
	}
	return known, answered, nil
}
