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
	Files []string `json:"files"`
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
	return Files{partOf(e.ID, e.Plan.Name, r), names}, err
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
	form := reportFiles[name]
	if form != nil || name == report.AnswersFile || ofReport(name) {
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
	switch {
	case form != nil:
		err = form(built, out)
	case name == report.AnswersFile:
		err = built.WriteAnswers(r.Context(), out, reader)
	case built != nil:
		err = results.WriteExport(r.Context(), out, reader, e, built.Rankings(), name)
		if errors.Is(err, fs.ErrNotExist) { // there is nothing to rank yet
			header.Del("Content-Disposition")
			failJSON(w, fmt.Errorf("%w: nothing is ranked yet", errNotFound))
			return
		}
	default:
		err = results.WriteExport(r.Context(), out, reader, e, results.Rankings{}, name)
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
