package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// errBadRequest means that an address has an invalid parameter.
var errBadRequest = errors.New("invalid request")

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBadRequest, fmt.Sprintf(format, args...))
}

// Bounds on the parameters of an address.
const (
	runsShown = 50  // runs on a page, unless n is set
	mostShown = 200 // maximum of n
	mostText  = 500 // maximum bytes of a value
)

// Query holds the parameters of the address of a page of runs.
type Query struct {
	results.Search
	path   string
	values url.Values // without empty ones
}

// setting parses one parameter's value into a search; its error says which values are valid.
type setting func(s *results.Search, value string) error

// everything lists the search parameters of runs.
var everything = map[string]setting{
	"phase":     phaseOf,
	"kind":      kindOf,
	"state":     stateOf,
	"class":     func(s *results.Search, value string) error { s.Class = value; return nil },
	"judge":     func(s *results.Search, value string) error { s.Judge = value; return nil },
	"model":     func(s *results.Search, value string) error { s.Model = value; return nil },
	"item":      itemOf,
	"candidate": candidateOf,
	"document":  documentOf,
	"order":     orderOf,
	"trial":     trialOf,
	"winner":    func(s *results.Search, value string) error { s.Winner = value; return nil },
	"text":      func(s *results.Search, value string) error { s.Text = value; return nil },
	"sort":      sortOf,
}

// ofPairs lists the search parameters of pairs: those that apply to all runs of a pair alike, and those that a scan
// examines.
var ofPairs = map[string]setting{
	"phase": phaseOf, "item": itemOf, "candidate": candidateOf, "document": documentOf,
	"only": onlyOf, "text": func(*results.Search, string) error { return nil },
}

func itemOf(s *results.Search, value string) error      { s.Item = value; return nil }
func candidateOf(s *results.Search, value string) error { s.Candidate = value; return nil }

func phaseOf(s *results.Search, value string) error {
	phase, err := strconv.Atoi(value)
	if err != nil || phase < 0 {
		return errors.New("want the number of a phase, from 0")
	}
	s.Phase = &phase
	return nil
}

func kindOf(s *results.Search, value string) error {
	kinds := []eval.Kind{eval.KindSingle, eval.KindPairwise, eval.KindPanel, eval.KindRuns, eval.KindPrompts}
	if s.Kind = eval.Kind(value); !slices.Contains(kinds, s.Kind) {
		return errors.New("want single, pairwise, panel, runs or prompts")
	}
	return nil
}

func stateOf(s *results.Search, value string) error {
	for _, state := range []eval.State{eval.StateSucceeded, eval.StateFailed, eval.StateCancelled} {
		if value == state.String() {
			s.State = state
			return nil
		}
	}
	return errors.New("want succeeded, failed or cancelled")
}

func documentOf(s *results.Search, value string) error {
	if len(s.Documents) == 2 {
		return errors.New("want at most two documents: no run shows more")
	}
	s.Documents = append(s.Documents, value)
	return nil
}

func orderOf(s *results.Search, value string) error {
	if s.Order = value; value != results.OrderForward && value != results.OrderReverse {
		return errors.New("want forward or reverse")
	}
	return nil
}

func trialOf(s *results.Search, value string) (err error) {
	if s.Trial, err = strconv.Atoi(value); err != nil || s.Trial < 1 {
		return errors.New("want the number of a trial, from 1")
	}
	return nil
}

func sortOf(s *results.Search, value string) error {
	if s.Newest = value == "newest"; !s.Newest && value != "plan" {
		return errors.New("want plan or newest")
	}
	return nil
}

// parse parses a search from an address, with the page's size and beginning.
func parse(r *http.Request, by map[string]setting) (Query, error) {
	q := Query{path: r.URL.Path, values: url.Values{}}
	q.Most = runsShown
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, badRequest("its address is invalid after the question mark")
	}

	for name, values := range given {
		set := by[name]
		switch {
		case name == "n":
			set = sizeOf
		case name == "after":
			continue
		case set == nil:
			return q, badRequest("unknown parameter %q", name)
		}
		for i, value := range values {
			if value == "" {
				continue
			}
			if i > 0 && name != "document" {
				return q, badRequest("%s: set more than once", name)
			}
			if len(value) > mostText {
				return q, badRequest("%s: got %d bytes, want at most %d", name, len(value), mostText)
			}
			if err := set(&q.Search, value); err != nil {
				return q, badRequest("%s: got %q, %v", name, value, err)
			}
			q.values.Add(name, value)
		}
	}

	return q, q.begin(given["after"])
}

func sizeOf(s *results.Search, value string) (err error) {
	if s.Most, err = strconv.Atoi(value); err != nil || s.Most < 1 || s.Most > mostShown {
		return fmt.Errorf("want 1 to %d", mostShown)
	}
	return nil
}

// begin parses where the page begins, once the sort order of the runs is known.
func (q *Query) begin(after []string) error {
	if len(after) == 0 || after[0] == "" {
		return nil
	}
	mark, ok := markOf(after[0], q.Newest)
	if !ok || len(after) > 1 {
		return badRequest("after: got %q, want the value of next from the previous page", after[0])
	}
	q.After = mark
	return nil
}

// cursor formats a mark for addresses: "0.17", or, if the newest runs come first, "2026-01-02T03:04:05.678Z_0.17".
func cursor(m *results.Mark, newest bool) string {
	run := eval.RunID{Phase: m.Phase, Index: m.Index}.Short()
	if !newest {
		return run
	}
	return m.Ended.UTC().Format(time.RFC3339Nano) + "_" + run
}

func markOf(text string, newest bool) (*results.Mark, bool) {
	ended, run, timed := strings.Cut(text, "_")
	if timed != newest {
		return nil, false
	}
	m := &results.Mark{}
	if timed {
		var err error
		if m.Ended, err = time.Parse(time.RFC3339Nano, ended); err != nil {
			return nil, false
		}
	} else {
		run = text
	}
	id, ok := eval.ParseShort(run)
	m.Phase, m.Index = id.Phase, id.Index
	return m, ok
}

// Value returns the value of a parameter for the form.
func (q Query) Value(name string) string { return exact(q.values.Get(name)) }

// Second returns the second document of the query, for the form; "" if there is none.
func (q Query) Second() string {
	if documents := q.values["document"]; len(documents) > 1 {
		return exact(documents[1])
	}
	return ""
}

// Filtered reports whether the address selects only some runs.
func (q Query) Filtered() bool {
	for name := range q.values {
		if name != "n" && name != "sort" {
			return true
		}
	}
	return false
}

// With returns the address of the first page after setting one parameter. An empty value removes the parameter.
func (q Query) With(name, value string) string {
	values := url.Values{}
	for name, of := range q.values {
		values[name] = of
	}
	values.Set(name, value)
	if value == "" {
		values.Del(name)
	}
	to := url.URL{Path: q.path, RawQuery: values.Encode()}
	return to.String()
}
