package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/ratelimit"
)

const yesFlag = "yes"

func yesOption() cli.Flag {
	return &cli.BoolFlag{
		Name: yesFlag, Aliases: []string{"y"},
		Usage: "do not ask before an expensive evaluation (default ask on a terminal, above confirm_above)",
	}
}

// The bounds above which a person is asked before an evaluation starts: its cost in nano-USD if the file sets no
// confirm_above, and its calls if their price is unknown.
const (
	defaultConfirmAbove = 5 * ratelimit.Dollar
	mostUnpriced        = 1000
)

// confirmCost tells a person at a terminal what an evaluation may cost, and asks before an expensive one starts. It does
// not ask if the evaluation has a budget, or has made calls before. Without a terminal it does not ask, and warns of an
// expensive evaluation that has no budget. It always warns of old prices, by which a budget counts, too.
func (p *process) confirmCost(c *cli.Context, s *config.Submission, slots int) error {
	person, bounded := terminal.Interactive(p.stdin), s.Settings.Budget() > 0
	latency, err := p.recordedLatency(c, s, evaluationDir(c, s))
	if err == nil && latency > 0 { // the evaluation itself reports a store that cannot be read
		return nil
	}

	asked := []record.Settings{s.Settings}
	if s.Judging != nil {
		asked = append(asked, s.Judging.Planned.Settings)
	}
	if s.Anchors != nil {
		asked = append(asked, s.Anchors.Settings)
	}
	p.warnOfOldPrices(estimate.OldPrices(p.now(), asked...))
	if !person && bounded { // no one would read an estimate
		return nil
	}

	q := estimate.Question{Now: p.now(), Slots: slots}
	if person {
		if q.Known, _, err = p.known(c, s); err != nil {
			return err
		}
	}
	made, err := estimateBy(s, q)
	if err != nil {
		return err
	}
	bound := cmp.Or(s.ConfirmAbove, int64(defaultConfirmAbove))
	expensive := isExpensive(made, bound) && !bounded
	switch {
	case person:
		fmt.Fprintln(p.stderr, made.Summary())
	case expensive && made.CostUSD != nil:
		fmt.Fprintf(p.stderr, "evalfleet: warning: %s; to bound the cost, add budget: {usd: …} to the file\n", made.Summary())
	}
	if !person || !expensive || c.Bool(yesFlag) {
		return nil
	}

	_, err = p.confirm(c.Context, p.stderr, "Start it?", "no calls were made")
	return err
}

// warnOfOldPrices says how old prices are by which a cost is estimated or bounded, if some are old.
func (p *process) warnOfOldPrices(old []estimate.OldPrice) {
	if about := estimate.AboutOldPrices(old); about != "" {
		fmt.Fprintln(p.stderr, "evalfleet: warning: prices "+about)
	}
}

// confirm asks a question on the terminal. The error says that the user declined or interrupted, and that nothing, such
// as "no calls were made", is done. Without a terminal asked is false, and the caller decides.
func (p *process) confirm(ctx context.Context, console io.Writer, question, nothing string) (asked bool, err error) {
	yes, asked, err := terminal.Confirm(ctx, p.stdin, console, question)
	switch {
	case err != nil:
		return asked, failure.With(failure.Interrupted, errors.New("interrupted: "+nothing))
	case asked && !yes:
		return asked, usageError("%s", nothing)
	}
	return asked, nil
}

// isExpensive reports whether an evaluation costs more than a bound in nano-USD, or its price is unknown and it makes
// many calls.
func isExpensive(e estimate.Estimate, bound int64) bool {
	if e.CostUSD == nil {
		return e.Total.Calls > mostUnpriced
	}
	return *e.CostUSD*ratelimit.Dollar > float64(bound)
}
