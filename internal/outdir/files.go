package outdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// Export writes an evaluation's files, but not its report, to place. again is the command that
// writes them again; the error names it. Unless the error's code is failure.Unavailable, only
// answers are missing, and another place may work for them.
func Export(ctx context.Context, place results.Place, reader results.Reader, r *report.Report, again string) (results.Exported, error) {
	done, err := results.Export(ctx, place, reader, r.Evaluation.ID, r.Rankings())
	unwritten := exportError(err, again)
	if failure.KindOf(unwritten) == failure.Unavailable {
		return done, unwritten
	}
	if err := WriteLogs(ctx, place.Dir, reader, r.Evaluation.ID); err != nil {
		return done, exportError(err, again)
	}
	return done, unwritten
}

// WriteEveryEvals writes records in the schema of Every Eval Ever below a folder of their own in dir, and returns their
// paths.
func WriteEveryEvals(dir string, records []report.EveryEval) (paths []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, Failed(fmt.Errorf("output folder: %w", err))
	}
	defer root.Close()
	for _, one := range records {
		name := filepath.Join(everyEvals, filepath.FromSlash(one.Path))
		if err := results.WriteFile(root, name, one.Write); err != nil {
			return paths, failure.With(failure.Unavailable, err)
		}
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths, nil
}

// everyEvals is the folder of records in the schema of Every Eval Ever.
const everyEvals = "every_eval_ever"

// exportError returns the error for files that could not be written. The results are safe in the
// results store; an answer may only need another place.
func exportError(err error, again string) error {
	if err == nil {
		return nil
	}
	var unwritten *results.AnswerError
	failed := fmt.Errorf("%w\nthe results are safe; fix this, then write the files with: %s", err, again)
	if errors.As(err, &unwritten) {
		return Failed(failed)
	}
	return failure.With(failure.Unavailable, failed)
}

// The formats of reports and comparisons.
const (
	HTML     = "html"
	JSON     = "json"
	Markdown = "md"
)

// Forms is a report, or a comparison of several evaluations.
type Forms interface {
	WriteHTML(io.Writer) error
	WriteJSON(io.Writer) error
	WriteMarkdown(io.Writer) error
}

// WriteReport writes an evaluation's report to dir as WriteForms does, and beside the HTML the page of its answers if
// it has any. It returns the paths, with the report first.
func WriteReport(ctx context.Context, dir string, reader results.Reader, r *report.Report, formats ...string) (paths []string, err error) {
	paths, err = WriteForms(dir, ReportName, r, formats...)
	if err != nil || !slices.Contains(formats, HTML) || !r.HasAnswers() {
		return paths, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return paths, Failed(fmt.Errorf("write %s: %w", report.AnswersFile, err))
	}
	defer root.Close()
	err = results.WriteFile(root, report.AnswersFile, func(w io.Writer) error { return r.WriteAnswers(ctx, w, reader) })
	if err != nil {
		return paths, failure.With(failure.Unavailable, err)
	}
	return append(paths, filepath.Join(dir, report.AnswersFile)), nil
}

// WriteForms writes a report or a comparison to dir, as one file called name for each of the
// formats, and returns their paths: HTML first, then JSON and Markdown. It ignores other formats.
func WriteForms(dir, name string, of Forms, formats ...string) (paths []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, Failed(fmt.Errorf("write %s: %w", name, err))
	}
	defer root.Close()
	for _, form := range []struct {
		format string
		write  func(io.Writer) error
	}{{HTML, of.WriteHTML}, {JSON, of.WriteJSON}, {Markdown, of.WriteMarkdown}} {
		if !slices.Contains(formats, form.format) {
			continue
		}
		file := name + "." + form.format
		if err := results.WriteFile(root, file, form.write); err != nil {
			return paths, failure.With(failure.Unavailable, err)
		}
		paths = append(paths, filepath.Join(dir, file))
	}
	return paths, nil
}
