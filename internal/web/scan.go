package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// scan reads the pairs of an evaluation and tests each against the query of an address.
type scan struct {
	reader results.Reader
	e      results.Evaluation
	asks   results.Search
	sizes  []int  // runs of a pair, by phase
	only   string // the required mark of a pair; empty: any
	text   string // text to find, in lower case
	votes  votes
	has    map[string]bool // whether a document's text contains text, by hash
	began  time.Time
}

// votes holds people's votes by pair of documents, sorted by ID: for each document, and ties.
type votes map[[2]string][3]int

// The marks of pairs in addresses.
const (
	onlyDisagree = "disagree"
	onlyFlipped  = "flipped"
	onlyUnlike   = "people"
)

func onlyOf(_ *results.Search, value string) error {
	if !slices.Contains([]string{onlyDisagree, onlyFlipped, onlyUnlike}, value) {
		return errors.New("want disagree, flipped or people")
	}
	return nil
}

func (s *Server) scan(ctx context.Context, reader results.Reader, e results.Evaluation, q Query) (*scan, error) {
	c := &scan{
		reader: reader, e: e, asks: narrowed(e.Plan, q.Search), sizes: plan.PairSizes(e.Plan),
		only: q.values.Get("only"), text: strings.ToLower(q.values.Get("text")), has: map[string]bool{}, began: time.Now(),
	}
	c.asks.Kind = eval.KindPairwise
	var err error
	c.votes, err = s.votes.Get(ctx, voted{e.ID, e.Settings.Votes, e.OnPage.Changes})
	return c, err
}

// runs returns how many runs to read in one search for a number of pairs: whole pairs, unless a single one exceeds the
// bound of a search.
func (c *scan) runs(pairs int) int {
	most := slices.Max(c.sizes)
	return min(pairs*most, max(results.MostFound/most, 1)*most, results.MostFound)
}

// filters reports whether each pair has to be examined.
func (c *scan) filters() bool { return c.only != "" || c.text != "" }

// after returns at most most pairs after a mark, and where the scan continues; nil: at the end.
func (c *scan) after(ctx context.Context, mark *results.Mark, most int) (found []Pair, next *results.Mark, err error) {
	asks := c.asks
	asks.After, asks.Most = mark, c.runs(most)
	if c.filters() {
		asks.Most = c.runs(results.MostFound)
	}

	for {
		page, err := search(ctx, c.reader, c.e.ID, asks)
		if err != nil {
			return nil, nil, err
		}
		rows, next := wholePairs(page, c.sizes)
		pairs, err := c.pick(ctx, rows)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, pairs...)
		if len(found) > most {
			found = found[:most]
			last := found[most-1]
			return found, &results.Mark{Phase: last.Phase, Index: (last.Number+1)*c.sizes[last.Phase] - 1}, nil
		}
		if next == nil || len(found) == most || !c.filters() || time.Since(c.began) >= patience {
			return found, next, nil
		}
		asks.After = next
	}
}

// before returns the last matching pair before one; nil if there is none. all is false if the time was over before
// every pair was examined.
func (c *scan) before(ctx context.Context, phase, number int) (found *Pair, all bool, err error) {
	for ; phase >= 0; phase-- {
		if c.e.Phases[phase].Kind != eval.KindPairwise {
			continue
		}
		size := c.sizes[phase]
		window := max(1, results.MostFound/size)
		if number < 0 {
			number = (c.e.Phases[phase].Runs + size - 1) / size
		}
		for number > 0 {
			from := max(0, number-window)
			asks := c.asks
			asks.Phase, asks.Most = &phase, c.runs(number-from)
			if from > 0 {
				asks.After = &results.Mark{Phase: phase, Index: from*size - 1}
			}
			page, err := search(ctx, c.reader, c.e.ID, asks)
			if err != nil {
				return nil, false, err
			}
			rows := slices.DeleteFunc(page.Runs, func(r results.RunRow) bool { return r.Index >= number*size })
			pairs, err := c.pick(ctx, rows)
			if err != nil {
				return nil, false, err
			}
			if n := len(pairs); n > 0 {
				return &pairs[n-1], true, nil
			}
			if number = from; time.Since(c.began) >= patience {
				return nil, false, nil
			}
		}
		number = -1
	}

	return nil, true, nil
}

// pick groups runs into pairs and keeps those that match the query.
func (c *scan) pick(ctx context.Context, rows []results.RunRow) ([]Pair, error) {
	var pairs []Pair
	for i, row := range rows {
		if i == 0 || !samePair(rows[i-1], row, c.sizes) {
			pairs = append(pairs, pairOf(row, c.sizes))
		}
		pairs[len(pairs)-1].add(resultOf(c.e, row))
	}
	kept := pairs[:0]
	for _, p := range pairs {
		p.judge(c.votes)
		fits, err := c.fits(ctx, p)
		if err != nil {
			return nil, err
		}
		if fits {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

func (c *scan) fits(ctx context.Context, p Pair) (bool, error) {
	if c.only == onlyDisagree && !p.Disagree || c.only == onlyFlipped && !p.Flipped || c.only == onlyUnlike && !p.Unlike {
		return false, nil
	}
	if c.text == "" {
		return true, nil
	}

	for _, text := range p.words() {
		if c.contained(text) {
			return true, nil
		}
	}

	for _, d := range c.e.Plan.Documents {
		if !slices.Contains(p.Documents[:], d.ID) {
			continue
		}
		if c.contained(c.e.Plan.Items[d.Item].Question) {
			return true, nil
		}
		has, known := c.has[d.Hash]
		if !known {
			text, err := c.reader.Text(ctx, d.Hash)
			if err != nil && !errors.Is(err, results.ErrNoText) {
				return false, err
			}
			has = c.contained(d.Readable(text))
			c.has[d.Hash] = has
		}
		if has {
			return true, nil
		}
	}

	return false, nil
}

func (c *scan) contained(text string) bool { return strings.Contains(strings.ToLower(text), c.text) }

// words returns the texts by which a pair can be found, apart from its documents' texts.
func (p *Pair) words() []string {
	words := append([]string{p.Item}, append(p.Documents[:], p.Candidates[:]...)...)
	for _, row := range p.Rows {
		for _, r := range []*Result{row.Forward, row.Reverse} {
			if r != nil {
				words = append(words, r.Reason, r.Error)
			}
		}
	}
	return words
}

// preferences returns the verdicts of judges that answered themselves, on texts that differ.
func (p *Pair) preferences() (all []report.Preference) {
	for _, row := range p.Rows {
		for k, r := range []*Result{row.Forward, row.Reverse} {
			if r == nil || r.Winner == "" || r.AnsweredBy == "" || r.AnsweredBy != r.Model {
				continue
			}
			said := report.Preference{Judge: row.Judge, Trial: row.Trial, Reverse: k == 1, Winner: slices.Index(p.Documents[:], r.Winner)}
			all = append(all, said)
		}
	}
	return all
}

// voted identifies the votes of an evaluation: the hash of those in a file, empty if there are none, and how often those
// of the page have changed.
type voted struct {
	id      eval.ID
	hash    string
	changes int64
}

// countVotes reads the votes of people.
func (s *Server) countVotes(ctx context.Context, of voted) (votes, error) {
	if of.hash == "" && of.changes == 0 {
		return nil, nil
	}
	reader, err := s.results(ctx, of.id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	all := votes{}
	for row, err := range reader.Votes(ctx, of.id) {
		if err != nil {
			return nil, err
		}
		key := [2]string{row.Document1, row.Document2}
		counts := all[key]
		switch row.Winner {
		case row.Document1:
			counts[0]++
		case row.Document2:
			counts[1]++
		default:
			counts[2]++
		}
		all[key] = counts
	}

	return all, nil
}
