package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/table"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// reportFiles maps file names to the forms of the report.
var reportFiles = map[string]func(*report.Report, io.Writer) error{
	"report.html": (*report.Report).WriteHTML,
	"report.json": (*report.Report).WriteJSON,
	"report.md":   (*report.Report).WriteMarkdown,
}

// Files is the page of an evaluation's files that can be downloaded.
type Files struct {
	Part
	Files []string         `json:"files"`
	Sizes map[string]int64 `json:"sizes"` // in bytes, with the results recorded so far; empty if there are many
}

// mostSized is the largest number of runs of an evaluation whose files are measured. Files are made when they are
// downloaded, so their size is known only by making them.
const mostSized = 2000

// Size returns a file's size in words; empty if it is not known.
func (f Files) Size(name string) string {
	size, ok := f.Sizes[name]
	if !ok {
		return ""
	}
	return wording.Bytes(size)
}

// Title returns the title of the page.
func (f Files) Title() string { return "Files of " + f.Name }

// files lists the downloads: the files that `evalfleet report` writes.
func (s *Server) files(r *http.Request) (Files, error) {
	reader, e, err := s.asked(r.Context(), eval.ID(r.PathValue("id")))
	if err != nil {
		return Files{}, err
	}
	defer reader.Close()
	names, err := fileNames(r.Context(), reader, e)
	if err != nil {
		return Files{}, err
	}
	page := Files{partOf(e.ID, e.Plan.Name, r), names, map[string]int64{}}

	counts, err := reader.Counts(r.Context(), e.ID)
	if err != nil {
		return Files{}, err
	}
	runs := 0
	for _, c := range counts {
		runs += c.Runs
	}
	if runs > mostSized {
		return page, nil
	}
	state, err := recordedState(r.Context(), reader, e)
	if err != nil {
		return Files{}, err
	}
	if sizes, err := s.sizes.Get(r.Context(), reported{e.ID, state}); err == nil {
		page.Sizes = sizes
	} else {
		s.cfg.Log.Debug().Err(err).Msg("files not measured")
	}
	return page, nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// measure makes every file of an evaluation to count its bytes. A file without content so far has no size.
func (s *Server) measure(ctx context.Context, of reported) (map[string]int64, error) {
	reader, e, err := s.asked(ctx, of.id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	names, err := fileNames(ctx, reader, e)
	if err != nil {
		return nil, err
	}
	built, err := s.reports.Get(ctx, of)
	if err != nil {
		return nil, err
	}

	sizes := map[string]int64{}
	for _, name := range names {
		var n counter
		switch err := writeFile(ctx, &n, reader, e, built, name); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			sizes[name] = int64(n)
		}
	}
	return sizes, nil
}

// writeFile writes one of an evaluation's files. built is nil for a file that needs no report. The error is
// fs.ErrNotExist for a ranking if nothing is ranked yet.
func writeFile(ctx context.Context, out io.Writer, reader results.Reader, e results.Evaluation, built *report.Report, name string) error {
	switch form := reportFiles[name]; {
	case form != nil:
		return form(built, out)
	case name == report.AnswersFile:
		return built.WriteAnswers(ctx, out, reader)
	case built != nil:
		return results.WriteExport(ctx, out, reader, e, built.Rankings(), name)
	default:
		return results.WriteExport(ctx, out, reader, e, results.Rankings{}, name)
	}
}

// fileNames lists the files available from the results recorded so far: nothing is ranked before there is a verdict.
func fileNames(ctx context.Context, reader results.Reader, e results.Evaluation) ([]string, error) {
	counts, err := reader.Counts(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	names := results.ExportNames(ctx, reader, e, report.TablesOf(e, counts)...)
	for name := range reportFiles {
		names = append(names, name)
	}
	if report.HasAnswers(e.Plan) {
		names = append(names, report.AnswersFile)
	}
	slices.Sort(names)
	return names, nil
}

// file sends one of an evaluation's files, built from the results recorded so far.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	id, name := eval.ID(r.PathValue("id")), r.PathValue("name")
	reader, e, err := s.asked(r.Context(), id)
	if err != nil {
		failJSON(w, err)
		return
	}
	defer reader.Close()
	names, err := fileNames(r.Context(), reader, e)
	if err != nil {
		failJSON(w, err)
		return
	}
	if !slices.Contains(names, name) {
		failJSON(w, fmt.Errorf("%w: the evaluation has no file %q; /api/evaluations/%s/files lists them", errNotFound, name, id))
		return
	}
	var built *report.Report
	if reportFiles[name] != nil || name == report.AnswersFile || ofReport(name) {
		state, err := recordedState(r.Context(), reader, e) // files contain everything recorded so far, without a cache
		if err == nil {
			built, err = s.reports.Get(r.Context(), reported{id, state})
		}
		if err != nil {
			failJSON(w, err)
			return
		}
	}

	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	out := bufio.NewWriterSize(w, 1<<16)
	err = writeFile(r.Context(), out, reader, e, built, name)
	if built != nil && errors.Is(err, fs.ErrNotExist) { // there is nothing to rank yet
		header.Del("Content-Disposition")
		failJSON(w, fmt.Errorf("%w: nothing is ranked yet", errNotFound))
		return
	}

	if err = errors.Join(err, out.Flush()); err != nil {
		s.cfg.Log.Debug().Err(err).Str("file", name).Msg("file not sent")
		// The status is sent already. Closing the connection early shows the reader that the file is incomplete.
		panic(http.ErrAbortHandler)
	}
}

// ofReport reports whether a file contains what only the report computes.
func ofReport(name string) bool {
	of := strings.TrimSuffix(name, path.Ext(name))
	return name == results.ManifestFile || slices.ContainsFunc(report.Tables(), func(t table.Sheet) bool { return t.Name == of })
}
