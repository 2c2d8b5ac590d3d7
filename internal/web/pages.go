package web

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/ballot"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/web/moment"
)

//go:embed assets
var assets embed.FS

//go:embed pages/*.html
var pageFiles embed.FS

// templates are parsed when a page is first asked for: a worker has none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"text":  harmless.Line,
		"said":  func(s string) template.HTML { return wording.TiedPercents(harmless.Line(s)) },
		"exact": exact,
		"count": count,
		"date":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
		"at":    func(prefix string, i int, field string) string { return fmt.Sprintf("%s.%d.%s", prefix, i, field) },
		"run":   runLink,
		"bar":   func(phase Phase, path string) barOf { return barOf{phase, path} },
	}).Funcs(explorerFuncs).ParseFS(pageFiles, "pages/*.html"))
})

//go:embed assets/style.css
var pageStyle string

// style returns the style of the pages: what they share with reports, and their own.
func style() string { return report.BaseStyle() + pageStyle }

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = io.WriteString(w, style())
}

// serveTables serves the script that sorts and searches tables, which reports contain.
func serveTables(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = io.WriteString(w, report.TableScript())
}

// exact returns a name as the value of a form field, by which runs are found. It is unchanged unless it contains hidden
// characters.
func exact(name string) string {
	if harmless.IsName(name) {
		return name
	}
	return harmless.Line(name)
}

// barOf is a phase's bar and the position of its numbers in the page's JSON.
type barOf struct {
	Phase Phase
	Path  string
}

// pageData is the data for a template.
type pageData struct {
	Title string
	Page  string // its name, as used by the navigation
	API   string // the page's twin; empty: the page does not change
	Now   string // the page's time
	Said  *note  // the result of an action
	Acts  bool   // the user may perform actions
	Fleet bool   // there is a Redis, so show what only a fleet has
	Votes bool   // the user sees nothing but the page where people vote
	Data  any
}

// page answers with a template filled from what read returns.
func page[T any](s *Server, name string, read func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := read(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		v := s.view(r, name, data)
		v.API = "/api" + r.URL.EscapedPath()
		if len(r.URL.Query()["page"]) > 0 { // its twin would show the first page
			v.API = ""
		}
		if name == "evaluations" {
			v.API = "/api/evaluations"
		}
		v.Said = s.notes.read(r.URL.Query().Get("said"))
		s.write(w, http.StatusOK, name, v)
	}
}

// still answers as page does, with a page that does not update itself.
func still[T any](s *Server, name string, read func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := read(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.write(w, http.StatusOK, name, s.view(r, name, data))
	}
}

// view returns the data for a page's template. The title is the one of the data, or else the page's name.
func (s *Server) view(r *http.Request, page string, data any) pageData {
	v := pageData{Title: page, Page: page, Now: now(), Fleet: s.fleet != nil, Acts: s.mayAct(r), Votes: s.onlyVotes(r), Data: data}
	if of, ok := data.(interface{ Title() string }); ok {
		v.Title = harmless.Line(of.Title())
	}
	return v
}

// write sends a page, complete or not at all.
func (s *Server) write(w http.ResponseWriter, status int, name string, v pageData) {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, name+".html", v); err != nil {
		s.cfg.Log.Error().Err(err).Str("page", name).Msg("cannot render a page")
		http.Error(w, "this page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}

// api answers with a page's data as JSON, or with a stream of it.
func api[T any](s *Server, read func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if wantsEvents(r) {
			s.stream(w, r, func(ctx context.Context) event { return eventOf(read(r.WithContext(ctx))) })
			return
		}
		data, err := read(r)
		if err != nil {
			failJSON(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(data)
	}
}

// fail answers with an error page.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status != http.StatusNotFound && r.Context().Err() == nil {
		s.cfg.Log.Debug().Err(err).Str("path", r.URL.Path).Msg("page not served")
	}
	message := err.Error()
	if status == http.StatusServiceUnavailable && s.onlyVotes(r) { // it may contain names of folders and servers
		message = "the results store cannot be read or written now: try again"
	}
	v := s.view(r, "nothing to show", struct{ Status, Message string }{http.StatusText(status), message})
	s.write(w, status, "error", v)
}

// statusOf returns the HTTP status for an error. It distinguishes a missing page, a page that cannot be served, and an
// unreachable Redis.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errNotFound), errors.Is(err, ErrNotHere), errors.Is(err, ballot.ErrNothing):
		return http.StatusNotFound
	case errors.Is(err, errForbidden):
		return http.StatusForbidden
	case errors.Is(err, errBadRequest):
		return http.StatusBadRequest
	case errors.Is(err, moment.ErrBusy):
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// count writes a whole number of any type as wording.Count and assets/live.js do.
func count(n any) string { return wording.Count(reflect.ValueOf(n).Int()) }
