package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const (
	requireFlag = "require"
	junitFlag   = "junit"
)

// requirements reads the values of --require. A value that was split at a comma, which
// names of candidates may contain, is joined again.
func requirements(values []string) (all []report.Requirement, err error) {
	for len(values) > 0 {
		n := 0
		for n < len(values) {
			n++
			q, problem := report.ParseRequirement(strings.Join(values[:n], ","))
			if problem == nil {
				all, err = append(all, q), nil
				break
			}
			err = cmp.Or(err, problem)
		}
		if err != nil {
			return nil, usageError("--%s: %w", requireFlag, err)
		}
		values = values[n:]
	}
	return all, nil
}

// require prints whether a report meets requirements, and writes that as JUnit XML to a file if the command line names
// one. It returns an error unless all are met.
func (p *process) require(c *cli.Context, r *report.Report, required []report.Requirement) error {
	out, junit := p.stdout, c.String(junitFlag)
	if onlyJSON(c) {
		out = p.stderr
	}
	var all []report.Checked
	unmet := 0
	for _, q := range required {
		checked, err := q.Check(r)
		if err != nil {
			return usageError("--%s: %w", requireFlag, err)
		}
		all = append(all, checked)
		verdict := "met"
		if !checked.Met {
			verdict = "NOT MET"
			unmet++
		}
		fmt.Fprintf(out, "%-8s %s: %s\n", verdict, harmless.OneLine(checked.Requirement), harmless.OneLine(checked.Got))
	}

	if junit != "" {
		var text bytes.Buffer
		if err := report.WriteJUnit(&text, r.Evaluation.Plan.Name, all); err != nil {
			return err
		}
		if err := os.WriteFile(junit, text.Bytes(), 0o600); err != nil {
			return outdir.Failed(fmt.Errorf("--%s: %w", junitFlag, err))
		}
	}

	if unmet > 0 {
		return failure.With(failure.RunsFailed, fmt.Errorf("%d of %s not met", unmet, wording.Counted(len(all), "requirement")))
	}
	return nil
}

// requiredOf returns the requirements of a command line.
func requiredOf(c *cli.Context) ([]report.Requirement, error) {
	required, err := requirements(c.StringSlice(requireFlag))
	if err == nil && c.IsSet(junitFlag) && len(required) == 0 {
		err = usageError("--%s needs at least one --%s", junitFlag, requireFlag)
	}
	return required, err
}
