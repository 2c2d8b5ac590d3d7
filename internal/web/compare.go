package web

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
)

// maxCompared bounds how many evaluations a page sets side by side.
const maxCompared = 8

// Comparable returns the evaluations that are known to have a ranking, which can be compared.
func (o *Overview) Comparable() (list []Evaluation) {
	for _, e := range o.Evaluations {
		if e.Shown.Report || e.Shown.Result != "" {
			list = append(list, e)
		}
	}
	return list
}

// compare answers with the comparison of the evaluations that the address names. Their reports may be some seconds old.
func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	ids, err := comparedIn(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var all []*report.Report
	for _, id := range ids {
		built, err := s.recent(r.Context(), id)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		all = append(all, built)
	}

	var page bytes.Buffer // of bounded size
	if err := report.Compare(all...).WriteServedHTML(&page); err != nil {
		s.fail(w, r, err)
		return
	}
	servesHTML(w, report.Policy()+reportPolicy)
	if _, err := page.WriteTo(w); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("comparison not sent")
	}
}

// comparedIn returns the evaluations that an address names.
func comparedIn(r *http.Request) (ids []eval.ID, err error) {
	for name, values := range r.URL.Query() {
		if name != "evaluation" {
			return nil, badRequest("unknown parameter %q; want evaluation, twice or more", name)
		}
		for _, value := range values {
			if !slices.Contains(ids, eval.ID(value)) {
				ids = append(ids, eval.ID(value))
			}
		}
	}
	if len(ids) < 2 || len(ids) > maxCompared {
		return nil, badRequest("got %d evaluations; choose two different ones, or up to %d", len(ids), maxCompared)
	}
	return ids, nil
}
