package report

import (
	"fmt"
	"math"

	"github.com/evalfleet/evalfleet/eval/rank"
)

// matrix is how often each candidate of a group won against each other, over all
// judges and both orders.
type matrix struct {
	Rows []matrixRow
}

type matrixRow struct {
	Number string // its rank's column
	Name   string
	Cells  []heatCell
}

// heatCell is a number with a shade: Shade is 0 to 10, 5 being even; −1 is none.
type heatCell struct {
	Text, Title string
	Shade       int
}

func (r *Report) matrix(group Group) *matrix {
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
	m := &matrix{}
	for i, c := range group.Ranked {
		row := matrixRow{Number: fmt.Sprint(i + 1), Name: c.Name}
		for j, other := range group.Ranked {
			row.Cells = append(row.Cells, winCell(c.Name, other.Name, i == j, against[i][j]))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func addRecord(r *rank.Record, wins, losses, ties int) {
	r.Wins += wins
	r.Losses += losses
	r.Ties += ties
}

func winCell(name, other string, self bool, record rank.Record) heatCell {
	switch {
	case self:
		return heatCell{Text: "", Title: "", Shade: -1}
	case record.Games() == 0:
		return heatCell{Text: "–", Title: called(name) + " and " + called(other) + " were not compared", Shade: -1}
	}
	rate := record.WinRate()
	return heatCell{
		Text: fmt.Sprintf("%.0f", 100*rate),
		Title: fmt.Sprintf("%s against %s: %s won, %s lost, %s tied", called(name), called(other),
			count(record.Wins), count(record.Losses), count(record.Ties)),
		Shade: shade(rate),
	}
}

// shade of a share between 0 and 1.
func shade(share float64) int {
	return int(math.Round(10 * min(max(share, 0), 1)))
}

// scoreView is the mean scores of candidates and the means that judges gave.
type scoreView struct {
	Criteria   []string
	Scale      string
	Candidates []scoreRow
	Left       int // candidates beyond openRows
	Judges     []scoreRow
}

type scoreRow struct {
	Name  string
	Cells []heatCell
}

func (r *Report) scoreView() *scoreView {
	if r.Scored == 0 {
		return nil
	}
	scale := r.Evaluation.Plan.Single.Scale
	v := &scoreView{Criteria: r.Criteria, Scale: fmt.Sprintf("%d to %d", scale.Min, scale.Max)}
	cells := func(scores []Score) []heatCell {
		var row []heatCell
		for _, s := range scores {
			if s.N == 0 {
				row = append(row, heatCell{Text: "–", Shade: -1})
				continue
			}
			above := (s.Mean() - float64(scale.Min)) / max(float64(scale.Max-scale.Min), 1)
			row = append(row, heatCell{Text: mean(s), Title: "mean of " + counted(s.N, "score"), Shade: shade(above)})
		}
		return row
	}
	all := make([]Ranked, 0, r.ranked()+len(r.Unranked))
	for _, g := range r.Groups {
		all = append(all, g.Ranked...)
	}
	all = append(all, r.Unranked...)
	for _, c := range all {
		if c.Overall.N == 0 {
			continue
		}
		if len(v.Candidates) == openRows {
			v.Left++
			continue
		}
		v.Candidates = append(v.Candidates, scoreRow{c.Name, append(cells(c.Scores), cells([]Score{c.Overall})...)})
	}
	for _, j := range r.Judges {
		var all Score
		for _, s := range j.Scores {
			all.N += s.N
			all.sum += s.sum
		}
		v.Judges = append(v.Judges, scoreRow{j.Name, append(cells(j.Scores), cells([]Score{all})...)})
	}
	return v
}
