package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// failOn selects which outcomes make a command exit with code 1.
type failOn string

const (
	failOnAny   failOn = "any"   // some run failed
	failOnAll   failOn = "all"   // every run failed
	failOnNever failOn = "never" //
)

// conclusion ranks and reports an evaluation with complete results.
type conclusion struct {
	reader  results.Reader
	id      eval.ID
	place   results.Place
	failOn  failOn
	again   string                     // the command that rewrites the files without new calls
	answers *[]string                  // receives the paths of the answers; nil: not called
	part    bool                       // answers that are judged next: writes the files, and prints nothing
	ended   func(*report.Report) error // tells the fleet the result; nil: there is no fleet
	printing
	stdout  io.Writer
	console io.Writer
}

// conclude ranks, writes every file, prints the result and where the files are, and returns an error if runs failed.
// For an evaluation of listed runs only, stdout has the paths of the answers and nothing else.
func conclude(ctx context.Context, c conclusion) error {
	r, err := report.Build(ctx, c.reader, c.id, report.Options{})
	if err != nil {
		return err
	}
	done, unwritten := outdir.Export(ctx, c.place, c.reader, r, c.again)
	if codeOf(unwritten) == exitUnreachable {
		return unwritten
	}
	page, err := outdir.WriteReport(ctx, c.place.Dir, c.reader, r, outdir.HTML)
	if err != nil {
		return err
	}

	if c.ended != nil {
		if err := c.ended(r); err != nil {
			return err
		}
	}

	if c.part {
		return cmp.Or(unwritten, failedRuns(r.Phases, c.failOn))
	}
	text := c.stdout
	if r.ListedOnly() {
		text = c.console
	}
	if err := c.print(text, r, c.place.Dir, append(done.Files, page...)); err != nil {
		return err
	}
	c.show(ctx, page)
	if c.answers != nil {
		*c.answers = done.Answers
	}
	for _, path := range done.Answers {
		fmt.Fprintln(c.stdout, path)
	}
	return cmp.Or(unwritten, failedRuns(r.Phases, c.failOn))
}

// failedRuns returns an error with exit code 1 if on counts the failed runs as a failure; nil otherwise.
func failedRuns(phases []results.PhaseCounts, on failOn) error {
	ended, failed := 0, 0
	for _, p := range phases {
		ended += p.Succeeded + p.Failed + p.Cancelled
		failed += p.Failed
	}
	if failed == 0 || on == failOnNever || (on == failOnAll && failed < ended) {
		return nil
	}
	return failure.With(failure.RunsFailed, fmt.Errorf("%s of %s failed", wording.Count(failed), wording.Counted(ended, "run")))
}
