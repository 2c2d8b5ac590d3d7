package web

import (
	"net/http"
	"net/url"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// pairsShown is how many pairs a page shows, unless each has very many runs.
const pairsShown = 20

// Pairs is a page of pairs, in the plan's order. Pairs without a recorded run are left out.
type Pairs struct {
	Part
	Pairs []Pair `json:"pairs"`
	Next  string `json:"next,omitempty"` // value of the next page's parameter "after"; empty: this is the last page

	Query  Query `json:"-"`
	People bool  `json:"-"` // there are votes
}

// Pair collects what all judges said about two documents.
type Pair struct {
	Phase      int        `json:"phase"`
	Number     int        `json:"number"` // in the phase
	Item       string     `json:"item"`
	Documents  [2]string  `json:"documents"` // sorted by ID
	Candidates [2]string  `json:"candidates"`
	Wins       [2]int     `json:"wins"` // of each document, over all judges, trials and orders
	Ties       int        `json:"ties"`
	Consistent int        `json:"consistent"` // judgments that are the same in both orders
	Both       int        `json:"both_orders"`
	Planned    int        `json:"planned"` // runs
	Recorded   int        `json:"recorded"`
	Rows       []Judgment `json:"judgments"`
	Votes      [3]int     `json:"votes"` // people's votes: for each document, and ties
	report.Marks
}

// Judgment is what a judge said about a pair in a trial, in each order.
type Judgment struct {
	Judge   string  `json:"judge"`
	Trial   int     `json:"trial"`
	Forward *Result `json:"forward" jsonschema:"nullable"` // first document shown first; null: not made (yet)
	Reverse *Result `json:"reverse" jsonschema:"nullable"`
	// Agrees compares both orders in words; empty unless there are two verdicts.
	Agrees string `json:"agrees,omitempty"`
}

// Title returns the title of the page.
func (p *Pairs) Title() string { return "Pairs of " + p.Name }

func (s *Server) pairs(r *http.Request) (*Pairs, error) {
	q, err := parse(r, ofPairs)
	if err != nil {
		return nil, err
	}
	if q.Value("n") == "" {
		q.Most = pairsShown
	}
	ctx, id := r.Context(), eval.ID(r.PathValue("id"))
	reader, e, err := s.asked(ctx, id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	of := &Pairs{Part: partOf(id, e.Plan.Name, r), Pairs: []Pair{}, Query: q}
	if e.Plan.Pairwise == nil {
		return of, nil
	}
	c, err := s.scan(ctx, reader, e, q)
	if err != nil {
		return nil, err
	}

	pairs, next, err := c.after(ctx, q.After, q.Most)
	if err != nil {
		return nil, err
	}
	of.Pairs = append(of.Pairs, pairs...)
	of.People = c.votes != nil
	if next != nil {
		of.Next = cursor(next, false)
	}
	return of, nil
}

func samePair(a, b results.RunRow, sizes []int) bool {
	return a.Phase == b.Phase && a.Index/sizes[a.Phase] == b.Index/sizes[a.Phase]
}

// wholePairs moves the last pair of a page to the next, unless it is the page's only one, because the rest of its runs
// may be there.
func wholePairs(page results.Page, sizes []int) ([]results.RunRow, *results.Mark) {
	rows, n := page.Runs, len(page.Runs)
	if page.Next == nil || n == 0 {
		return rows, page.Next
	}
	last := rows[n-1]
	size := sizes[last.Phase]
	if page.Next.Phase != last.Phase || page.Next.Index/size != last.Index/size || last.Index%size == size-1 {
		return rows, page.Next
	}
	cut := n
	for cut > 0 && samePair(rows[cut-1], last, sizes) {
		cut--
	}
	if cut == 0 {
		return rows, page.Next
	}
	before := rows[cut-1]
	return rows[:cut], &results.Mark{Phase: before.Phase, Index: before.Index}
}

func pairOf(row results.RunRow, sizes []int) Pair {
	size := sizes[row.Phase]
	p := Pair{Phase: row.Phase, Number: row.Index / size, Item: row.Item, Planned: size}
	copy(p.Documents[:], row.Documents)
	copy(p.Candidates[:], row.Candidates)
	if p.Documents[0] > p.Documents[1] {
		p.Documents[0], p.Documents[1] = p.Documents[1], p.Documents[0]
		p.Candidates[0], p.Candidates[1] = p.Candidates[1], p.Candidates[0]
	}
	return p
}

// add adds a run to the judgment that has the same judge and trial.
func (p *Pair) add(r Result) {
	p.Recorded++
	switch r.Winner {
	case "":
	case eval.Tie:
		p.Ties++
	case p.Documents[0]:
		p.Wins[0]++
	default:
		p.Wins[1]++
	}

	var of *Judgment
	for i := range p.Rows {
		if p.Rows[i].Judge == r.Judge && p.Rows[i].Trial == r.Trial {
			of = &p.Rows[i]
		}
	}

	if of == nil {
		p.Rows = append(p.Rows, Judgment{Judge: r.Judge, Trial: r.Trial})
		of = &p.Rows[len(p.Rows)-1]
	}

	if r.Order == results.OrderForward {
		of.Forward = &r
	} else {
		of.Reverse = &r
	}
}

// judge compares both orders of each judge and trial, in words, and sums them up for the pair.
func (p *Pair) judge(of votes) {
	p.Votes = of[p.Documents]
	p.Marks = report.MarksOf(p.preferences(), p.Votes)
	for i := range p.Rows {
		of := &p.Rows[i]
		if of.Forward == nil || of.Reverse == nil || of.Forward.Winner == "" || of.Reverse.Winner == "" {
			continue
		}
		var swaps rank.Swaps
		swaps.Add(preferred(of.Forward), preferred(of.Reverse))
		p.Both++
		p.Consistent += swaps.Consistent
		switch {
		case swaps.Consistent > 0:
			of.Agrees = "the same"
		case swaps.AlwaysFirst > 0:
			of.Agrees = "always the first shown"
		case swaps.AlwaysSecond > 0:
			of.Agrees = "always the second shown"
		default:
			of.Agrees = "a tie in one order"
		}
	}
}

// preferred returns a verdict in terms of the order in which the documents were shown.
func preferred(r *Result) rank.Outcome {
	switch r.Winner {
	case eval.Tie:
		return rank.Tied
	case r.Documents[0]:
		return rank.FirstWins
	}
	return rank.SecondWins
}

// Results returns the address of the list of the pair's runs.
func (p Pair) Results(id eval.ID) string {
	to := url.URL{Path: "/evaluations/" + string(id) + "/results", RawQuery: url.Values{"document": p.Documents[:]}.Encode()}
	return to.String()
}
