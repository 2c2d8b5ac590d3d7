package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/report"
	"github.com/evalfleet/evalfleet/results"
)

// failOn says which outcomes make a command exit with 1.
type failOn string

const (
	failOnAny   failOn = "any"   // some run failed
	failOnAll   failOn = "all"   // every run failed
	failOnNever failOn = "never" //
)

// conclusion is what is done when an evaluation's results are complete.
type conclusion struct {
	reader results.Reader
	id     eval.ID
	dir    string
	failOn failOn
	stdout io.Writer
}

// conclude ranks, writes every file of the output folder, prints the ranking,
// and fails when runs did.
func conclude(ctx context.Context, c conclusion) error {
	r, err := report.Build(ctx, c.reader, c.id, report.Options{})
	if err != nil {
		return err
	}
	paths, err := results.Export(ctx, c.dir, c.reader, c.id, r.Rankings())
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	page := filepath.Join(c.dir, reportFile)
	if err := writeReport(page, r); err != nil {
		return withCode(exitUnreachable, err)
	}
	if err := r.WriteText(c.stdout, report.TextOptions{}); err != nil {
		return err
	}
	fmt.Fprintln(c.stdout)
	for _, path := range append(paths, page) {
		fmt.Fprintln(c.stdout, path)
	}
	return failedRuns(r.Phases, c.failOn)
}

// failedRuns is the error that failed runs amount to, if any.
func failedRuns(phases []results.PhaseCounts, on failOn) error {
	ended, failed := 0, 0
	for _, p := range phases {
		ended += p.Succeeded + p.Failed + p.Cancelled
		failed += p.Failed
	}
	if failed == 0 || on == failOnNever || (on == failOnAll && failed < ended) {
		return nil
	}
	return withCode(exitRunsFailed, fmt.Errorf("%d of %d runs failed", failed, ended))
}

// writeReport replaces the page in one step.
func writeReport(path string, r *report.Report) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	defer os.Remove(file.Name())
	if err := r.WriteHTML(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("write report: %w", err)
	}
	if err := file.Chmod(0o644); err != nil {
		_ = file.Close()
		return fmt.Errorf("write report: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
