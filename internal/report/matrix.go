package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// matrix compares each of several things with every other one.
type matrix struct {
	Title, Hint string
	Of          string // what the rows are
	Rows        []matrixRow
}

type matrixRow struct {
	Number string // number of the row and its column
	Name   string
	Cells  []heatCell
}

// heatCell is a coloured cell of a table. Shade is 0 to 10, where 5 is even, or -1 for no colour.
type heatCell struct {
	Text, Title string
	Shade       int
	Sure        bool // the difference is more than chance
}

// headToHead returns the matrix of a group: how often each candidate won against each other one, and, if that is
// known, which of the two is better with 95 % confidence. If there are many candidates, it shows the best ones.
func (r *Report) headToHead(group Group) *matrix {
	who := ""
	if n := len(group.Ranked); n > matrixCandidates {
		group.Ranked = group.Ranked[:bestCandidates]
		who = fmt.Sprintf(" The best %d of %s; every verdict is in pairwise_results.csv.", bestCandidates, wording.Count(n))
	}
	m := r.wins(group)
	if group.tests != nil {
		m.Hint += " A frame: a test of the two alone says at 95 % that one is better."
	}
	m.Hint += who
	return m
}

// wins returns the matrix of win rates, over all judges and both orders.
func (r *Report) wins(group Group) *matrix {
	n := len(group.Ranked)
	place := map[int]int{} // candidate → row
	for k, c := range group.Ranked {
		place[c.Candidate] = k
	}
	against := make([][]rank.Record, n) // row against column
	for k := range against {
		against[k] = make([]rank.Record, n)
	}
	for _, tally := range r.tallies {
		for pair, c := range tally.Cells() {
			i, inside := place[pair.First]
			j, inside2 := place[pair.Second]
			if !inside || !inside2 {
				continue
			}
			addRecord(&against[i][j], c.FirstWins, c.SecondWins, c.Ties)
			addRecord(&against[j][i], c.SecondWins, c.FirstWins, c.Ties)
		}
	}

	m := &matrix{
		Title: "Head to head",
		Of:    "candidate",
		Hint: "How many of 100 verdicts the candidate on the left won against the one above, a tie being half; all " +
			r.raters() + r.inOrders(" and both orders") + ". Columns have the rows' numbers.",
	}
	m.fill(group, func(i, j int) heatCell {
		cell, p := winCell(group.Ranked[i].Name, group.Ranked[j].Name, against[i][j]), group.Beats(i, j)
		if !math.IsNaN(p) {
			cell.Title += fmt.Sprintf("; better with a probability of %s", probability(p))
			cell.Sure = p <= 0.05 || p >= 0.95
		}
		return cell
	})
	return m
}

func (m *matrix) fill(group Group, cell func(i, j int) heatCell) {
	for i, c := range group.Ranked {
		row := matrixRow{Number: fmt.Sprint(i + 1), Name: c.Name}
		for j := range group.Ranked {
			next := heatCell{Shade: -1}
			if i != j {
				next = cell(i, j)
			}
			row.Cells = append(row.Cells, next)
		}
		m.Rows = append(m.Rows, row)
	}
}

// outOfHundred formats a share in percent, without the sign. It rounds to 0 or 100 only where that is exact, and
// otherwise returns "<1" or ">99".
func outOfHundred(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "<1"
	case share < 1 && share > 0.99:
		return ">99"
	}
	return fmt.Sprintf("%.0f", 100*share)
}

func addRecord(r *rank.Record, wins, losses, ties int) {
	r.Wins += wins
	r.Losses += losses
	r.Ties += ties
}

func winCell(name, other string, record rank.Record) heatCell {
	if record.Games() == 0 {
		return heatCell{Text: "–", Title: called(name) + " and " + called(other) + " were not compared", Shade: -1}
	}
	rate := record.WinRate()
	return heatCell{
		Text: fmt.Sprintf("%.0f", 100*rate),
		Title: fmt.Sprintf("%s against %s: %s won, %s lost, %s tied", called(name), called(other),
			wording.Count(record.Wins), wording.Count(record.Losses), wording.Count(record.Ties)),
		Shade: shade(rate),
	}
}

func shade(share float64) int {
	return int(math.Round(10 * min(max(share, 0), 1)))
}
