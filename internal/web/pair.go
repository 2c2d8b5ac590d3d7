package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// readRunes bounds a document's text on the page of a pair.
const readRunes = 200_000

// Reading is the page of one pair: the question, both texts side by side, and what judges and
// people said.
type Reading struct {
	Part
	Pair      Pair    `json:"pair"`
	Question  string  `json:"question"`
	Reference string  `json:"reference,omitempty"` // an answer known to be correct
	Texts     [2]Text `json:"texts"`               // in the order of the pair's documents

	Query    Query  `json:"-"`
	Previous string `json:"-"` // address of the previous pair; empty: there is none
	Next     string `json:"-"`
	End      string `json:"-"` // the step that found no other pair and led here; empty: none
}

// Text is a document as it was shown.
type Text struct {
	Document  string `json:"document"`
	Candidate string `json:"candidate"`
	Text      string `json:"text"`
	Cut       bool   `json:"cut"` // there is more
	// Images are those that the text has a placeholder for.
	Images []Picture `json:"images,omitempty"`
}

// Title returns the title of the page.
func (p *Reading) Title() string { return "Pair " + p.Pair.Short() + " of " + p.Name }

// Short returns the pair's ID, "<phase>.<number>".
func (p Pair) Short() string { return eval.RunID{Phase: p.Phase, Index: p.Number}.Short() }

// Address returns the address of the pair's page, with the filter of q for its neighbours.
func (p Pair) Address(id eval.ID, q Query) string { return pairAddress(id, p.Short(), q, nil) }

func pairAddress(id eval.ID, short string, q Query, more map[string]string) string {
	values := url.Values{}
	for name, of := range q.values {
		if name != "n" && name != "end" {
			values[name] = of
		}
	}
	for name, value := range more {
		values.Set(name, value)
	}
	to := url.URL{Path: "/evaluations/" + string(id) + "/pairs/" + short, RawQuery: values.Encode()}
	return to.String()
}

// pairPage answers with the page of a pair, or redirects to the next or the previous pair with the same filter.
func (s *Server) pairPage(w http.ResponseWriter, r *http.Request) {
	switch step := r.URL.Query().Get("step"); step {
	case "":
		still(s, "pair", s.pair)(w, r)
	case stepNext, stepPrevious:
		to, err := s.step(r, step)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	default:
		s.fail(w, r, badRequest("step: got %q, want next or previous", step))
	}
}

// The steps from a pair, and the reasons why a step found no pair.
const (
	stepNext     = "next"
	stepPrevious = "previous"
	nearest      = "-nearest" // after a step: farther pairs were not examined
)

// ofPair returns the parameters that the address of one pair may have.
var ofPair = func() map[string]setting {
	all := maps.Clone(ofPairs)
	all["end"] = func(_ *results.Search, value string) error {
		if !slices.Contains([]string{stepNext, stepPrevious}, strings.TrimSuffix(value, nearest)) {
			return errors.New("want next or previous")
		}
		return nil
	}
	return all
}()

// opened opens the results store of the evaluation in an address, and returns the pair and the query in it. The caller
// closes the store unless there is an error.
func (s *Server) opened(r *http.Request) (reader results.Reader, e results.Evaluation, at eval.RunID, q Query, err error) {
	if q, err = parse(r, ofPair); err != nil {
		return nil, e, at, q, err
	}
	at, ok := eval.ParseShort(r.PathValue("pair"))
	if !ok {
		return nil, e, at, q, badRequest("%q is not a pair: want <phase>.<number>, such as 0.17", r.PathValue("pair"))
	}
	if reader, e, err = s.asked(r.Context(), eval.ID(r.PathValue("id"))); err != nil {
		return nil, e, at, q, err
	}
	if at.Phase >= len(e.Phases) || e.Phases[at.Phase].Kind != eval.KindPairwise {
		_ = reader.Close()
		return nil, e, at, q, fmt.Errorf("%w: phase %d has no pairs", errNotFound, at.Phase)
	}
	return reader, e, at, q, nil
}

func (s *Server) pair(r *http.Request) (*Reading, error) {
	reader, e, at, q, err := s.opened(r)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	ctx := r.Context()
	c, err := s.scan(ctx, reader, e, Query{})
	if err != nil {
		return nil, err
	}

	c.asks.Phase = &at.Phase
	pairs, _, err := c.after(ctx, markBefore(at, c.sizes[at.Phase]), 1)
	if err != nil {
		return nil, err
	}
	if len(pairs) == 0 || pairs[0].Number != at.Index {
		return nil, fmt.Errorf("%w: no run of this pair is recorded", errNotFound)
	}
	of := &Reading{Part: partOf(e.ID, e.Plan.Name, r), Pair: pairs[0], Query: q, End: q.values.Get("end")}
	q.values.Del("end")
	if err := of.read(ctx, reader, e); err != nil {
		return nil, err
	}
	return of, of.addSteps(ctx, c, e, at)
}

// addSteps adds the links to the pairs before and after. Finding out whether a filter selects any may take long, so
// that happens only when a link is followed.
func (p *Reading) addSteps(ctx context.Context, c *scan, e results.Evaluation, at eval.RunID) error {
	before, after := at.Index > 0 || at.Phase > firstPairs(e), !strings.HasPrefix(p.End, stepNext)
	if !p.Query.Filtered() {
		c.asks.Phase = nil
		pairs, _, err := c.after(ctx, &results.Mark{Phase: at.Phase, Index: (at.Index+1)*c.sizes[at.Phase] - 1}, 1)
		if err != nil {
			return err
		}
		after = len(pairs) > 0
	}
	step := func(name string) string {
		return pairAddress(e.ID, at.Short(), p.Query, map[string]string{"step": name})
	}
	if before && !strings.HasPrefix(p.End, stepPrevious) {
		p.Previous = step(stepPrevious)
	}
	if after {
		p.Next = step(stepNext)
	}
	return nil
}

// EndWords says that there is no other pair in a direction; empty: there may be one.
func (p *Reading) EndWords() string {
	step, near := strings.CutSuffix(p.End, nearest)
	like := ""
	if p.Query.Filtered() {
		like = " like this"
	}
	switch {
	case near:
		return "No " + step + " pair" + like + " among the nearest ones. The list of pairs looks further."
	case step != "":
		return "There is no " + step + " pair" + like + "."
	}
	return ""
}

// markBefore returns the mark before a pair's first run, where each pair has size runs; nil: the beginning.
func markBefore(at eval.RunID, size int) *results.Mark {
	if at.Index == 0 {
		return nil
	}
	return &results.Mark{Phase: at.Phase, Index: at.Index*size - 1}
}

// firstPairs returns the index of the first phase with pairs; the number of phases if there is none.
func firstPairs(e results.Evaluation) int {
	for k, phase := range e.Phases {
		if phase.Kind == eval.KindPairwise {
			return k
		}
	}
	return len(e.Phases)
}

// read adds the question and the texts.
func (p *Reading) read(ctx context.Context, reader results.Reader, e results.Evaluation) error {
	for _, d := range e.Plan.Documents {
		for k, id := range p.Pair.Documents {
			if d.ID != id {
				continue
			}
			text, err := reader.Text(ctx, d.Hash)
			if err != nil && !errors.Is(err, results.ErrNoText) {
				return err
			}
			text = d.Readable(text)
			short := wording.Clip(text, readRunes)
			p.Texts[k] = Text{Document: d.ID, Candidate: d.Candidate, Text: short, Cut: short != text, Images: picturesOf(e.ID, d)}
			p.Question, p.Reference = e.Plan.Items[d.Item].Question, e.Plan.Items[d.Item].KnownReference()
		}
	}
	return nil
}

// step returns the address of the next or the previous pair that matches a query. If there is none, it is the address
// of the same pair with a note.
func (s *Server) step(r *http.Request, step string) (string, error) {
	values := r.URL.Query()
	values.Del("step")
	plain := r.Clone(r.Context())
	plain.URL.RawQuery = values.Encode()
	reader, e, at, q, err := s.opened(plain)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	c, err := s.scan(r.Context(), reader, e, q)
	if err != nil {
		return "", err
	}

	var found *Pair
	var all bool
	if step == stepNext {
		pairs, more, err := c.after(r.Context(), &results.Mark{Phase: at.Phase, Index: (at.Index+1)*c.sizes[at.Phase] - 1}, 1)
		if err != nil {
			return "", err
		}
		if all = more == nil; len(pairs) > 0 {
			found = &pairs[0]
		}
	} else if found, all, err = c.before(r.Context(), at.Phase, at.Index); err != nil {
		return "", err
	}

	if found != nil {
		return found.Address(e.ID, q), nil
	}
	if !all {
		step += nearest
	}
	return pairAddress(e.ID, at.Short(), q, map[string]string{"end": step}), nil
}

// Voted reports whether people have voted on the pair.
func (p Pair) Voted() bool { return p.Votes != [3]int{} }

// List returns the address of the list of pairs that match the query.
func (q Query) List(id eval.ID) string {
	to := url.URL{Path: "/evaluations/" + string(id) + "/pairs", RawQuery: q.values.Encode()}
	return to.String()
}

// Words describes in words which pairs the query selects.
func (q Query) Words() string {
	var words []string
	if only := q.values.Get("only"); only != "" {
		words = append(
			words,
			map[string]string{onlyDisagree: "judges disagree", onlyFlipped: "flipped by order", onlyUnlike: "differs from people"}[only],
		)
	}
	for _, name := range []string{"text", "item", "candidate", "document", "phase"} {
		for _, value := range q.values[name] {
			words = append(words, name+" “"+harmless.Short(harmless.Line(value), 40)+"”")
		}
	}
	return strings.Join(words, ", ")
}
