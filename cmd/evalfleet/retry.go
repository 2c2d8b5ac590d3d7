package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
)

const classFlag = "class"

func retryCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "Retry failed runs",
		ArgsUsage: "ID|DIR",
		Description: "Repeats the failed runs of an evaluation: all, or those of the given error classes. `evalfleet status DIR` " +
			"counts them by class. Classes come from the results store, so they are unknown for results not yet collected. " +
			"With the output folder of a finished `evalfleet run`, the command executes the runs itself, like resume.",
		Flags: append(workFlags(metricsOff), failOnOption(), detailsOption(), sinkFlag(),
			&cli.StringSliceFlag{Name: classFlag, Usage: "retry only runs that failed with this error `CLASS`, such as timeout; repeatable (default all)"}),
		Action: func(c *cli.Context) error {
			classes, err := classesOf(c)
			if err != nil {
				return err
			}
			going, err := p.going(c)
			if err != nil {
				return err
			}
			if !going {
				return p.continueRun(c, classes)
			}
			t, err := p.target(c)
			if err != nil {
				return err
			}
			defer t.client.Close()
			return t.tell(t.retry(c.Context, classes, c.String(sinkFlagName)))
		},
	}
}

// retry makes failed runs of an evaluation in Redis again, and says how many.
func (t *target) retry(ctx context.Context, classes []string, sinkURL string) (string, error) {
	r, err := t.store.Evaluation(ctx, t.id)
	if err != nil {
		return "", t.failure(ctx, err)
	}
	pick := everyFailed
	if len(classes) > 0 {
		if pick, err = t.failedIn(ctx, r, classes, sinkURL); err != nil {
			return "", err
		}
	}
	retried, err := t.enqueuer().Retry(ctx, t.id, pick)
	if err != nil {
		return "", t.failure(ctx, err)
	}
	said := fmt.Sprintf("%s: retrying %s", t.name, wording.Counted(retried.Runs, "failed run"))
	if retried.Runs == 0 {
		said = fmt.Sprintf("%s: %s", t.name, nothingToRetry(classes))
	}
	if retried.Exhausted > 0 {
		said = fmt.Sprintf("%s cannot be retried: they have failed %d times, the maximum\n%s",
			wording.Counted(retried.Exhausted, "run"), record.MaxGeneration+1, said)
	}
	return said, nil
}

func nothingToRetry(classes []string) string {
	if len(classes) > 0 {
		return "no run failed with " + strings.Join(classes, " or ") + ": nothing to retry"
	}
	return "no run failed: nothing to retry"
}

// nothingFailed reports whether an evaluation is complete without a failed run of the
// classes, and says so.
func (p *process) nothingFailed(ctx context.Context, reader results.Reader, id eval.ID, classes []string) (bool, error) {
	e, err := reader.Evaluation(ctx, id)
	if err != nil || e.Finished.IsZero() {
		return false, folder.StoreError(err)
	}
	phases, err := reader.Counts(ctx, id)
	if err != nil {
		return false, folder.StoreError(err)
	}
	for _, phase := range phases {
		failed := phase.Failed
		if len(classes) > 0 {
			failed = 0
			for _, class := range classes {
				failed += phase.Classes[class]
			}
		}
		if failed > 0 || phase.Succeeded+phase.Failed+phase.Cancelled < phase.Runs {
			return false, nil
		}
	}
	_, err = fmt.Fprintln(p.stderr, nothingToRetry(classes))
	return true, err
}

// failedIn picks failed runs by class from the evaluation's sink, which must be
// here.
func (t *target) failedIn(ctx context.Context, r record.Evaluation, classes []string, sinkURL string) (func(enqueue.Recorded) bool, error) {
	dir := cmp.Or(t.dir, folder.Default(r.Name, r.ID))
	if folder.Is(t.name) {
		dir = t.name
	}
	named := ""
	if sinkURL == "" {
		var err error
		if named, err = t.allowed.of(r); err != nil {
			return nil, withCode(exitUsage, err)
		}
	}
	url := cmp.Or(sinkURL, named, filepath.Join(dir, folder.ResultsFile))
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, withCode(codeOf(folder.StoreError(err)), fmt.Errorf("classes of failed runs are in the results store: %w; name it with --%s, or retry without --%s", err, sinkFlagName, classFlag))
	}
	defer reader.Close()
	if r.Sink != "" && reader.ID() != r.Sink {
		return nil, usageError("%s is not the results store of %s: name that one with --%s, or retry without --%s", folder.PublicURL(url), r.ID, sinkFlagName, classFlag)
	}
	return failedIn(ctx, reader, r.ID, classes)
}

// classesOf are the error classes asked for; none is not nil.
func classesOf(c *cli.Context) ([]string, error) {
	classes := append([]string{}, c.StringSlice(classFlag)...)
	return classes, checkClasses(classes)
}

// checkClasses refuses anything but error classes.
func checkClasses(classes []string) error {
	var known []string
	for _, class := range providers.Classes {
		known = append(known, string(class))
	}
	for _, class := range classes {
		if slices.Contains(known, class) {
			continue
		}
		if near := wording.Nearest(class, known); near != "" {
			return usageError("--%s: no error class is called %s; did you mean %s?", classFlag, class, near)
		}
		return usageError("--%s: no error class is called %s; there are %s", classFlag, class, strings.Join(known, ", "))
	}
	return nil
}
