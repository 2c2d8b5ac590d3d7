package web

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
)

// mostAnchored bounds how many evaluations of anchors the page of judges shows, the newest ones. Each has the history of
// its judges.
const mostAnchored = 20

// judges answers with the page that shows each judge over time.
func (s *Server) judges(w http.ResponseWriter, r *http.Request) {
	overview, err := s.overview(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var asked []Evaluation
	for _, e := range overview.Evaluations {
		if eval.AsksAnchors(e.Name) {
			asked = append(asked, e)
		}
	}
	slices.SortStableFunc(asked, func(a, b Evaluation) int { return b.Created.Compare(a.Created) })

	var all []*report.Report
	for _, e := range asked[:min(len(asked), mostAnchored)] {
		if built, err := s.recent(r.Context(), e.ID); err == nil { // others have no results that can be read
			all = append(all, built)
		} else if r.Context().Err() != nil {
			s.fail(w, r, err)
			return
		}
	}

	var page bytes.Buffer // of bounded size
	if err := report.WriteServedJudges(&page, all); err != nil {
		s.fail(w, r, err)
		return
	}
	servesHTML(w, report.Policy()+reportPolicy)
	if _, err := page.WriteTo(w); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("page of judges not sent")
	}
}
