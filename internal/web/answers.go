package web

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
)

// answers answers with a part of the grid of an evaluation's questions and answers. Its numbers are those of the
// report, which may be some seconds old.
func (s *Server) answers(w http.ResponseWriter, r *http.Request) {
	window, err := windowOf(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	id := eval.ID(r.PathValue("id"))
	reader, err := s.results(r.Context(), id)
	if err != nil {
		s.fail(w, r, noResults(err))
		return
	}
	defer reader.Close()
	built, err := s.reports.Get(r.Context(), reported{id: id})
	if err != nil {
		s.fail(w, r, err)
		return
	}

	var page bytes.Buffer // of bounded size
	if err := built.WriteServedAnswers(r.Context(), &page, reader, window); err != nil {
		s.fail(w, r, err)
		return
	}
	servesHTML(w, report.AnswersPolicy()+"; frame-ancestors 'none'")
	if _, err := page.WriteTo(w); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("answers not sent")
	}
}

// windowOf returns the part of the grid that an address selects.
func windowOf(r *http.Request) (window report.AnswersWindow, err error) {
	for name, values := range r.URL.Query() {
		to, known := map[string]*int{"row": &window.Row, "column": &window.Column}[name]
		if !known {
			return window, badRequest("unknown parameter %q; want row or column", name)
		}
		n, err := strconv.ParseUint(values[0], 10, 31)
		if err != nil {
			return window, badRequest("%s: got %q, want a position from 0", name, values[0])
		}
		*to = int(n)
	}
	return window, nil
}
