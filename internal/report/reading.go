package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	planned "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Bounds of the texts in a report. The page of a pair and the results store have the full texts.
const (
	pairsOfMark   = 15    // pairs with each mark, and without any
	textRunes     = 4_000 // of a document, or of a question
	saidOfPair    = 24    // verdicts
	readingsRunes = 1_000_000
)

// Pair holds the verdicts on two documents, with their texts.
type Pair struct {
	ID string // <phase>.<number>
	Marks
	Item, Question, Reference string
	Documents, Candidates     [2]string // in the order of the plan
	Texts                     [2]string // clipped to textRunes
	Images                    [2][]Picture
	Said                      []Said // at most saidOfPair
	More                      int    // verdicts that Said leaves out
	People                    [3]int // votes for each document, and ties

	again     bool // a strong judge saw it after others
	all       []Preference
	positions [2]int // of the documents in the plan
	lot       uint64
}

// Said is a judge's verdict on a pair.
type Said struct {
	Preference
	Run    string
	Winner string // a candidate; empty: a tie
	Better string // by how much the winner is better, such as "much better"; empty without degrees
	Reason string // clipped to reasonRunes
	By     []CriterionSaid
}

// CriterionSaid is a judge's verdict on a pair by one criterion.
type CriterionSaid struct{ Criterion, Winner, Better string } // as in Said

// Preference says which of two documents a judge preferred.
type Preference struct {
	Judge   string
	Trial   int
	Reverse bool // the second document was shown first
	Winner  int  // 0 or 1; -1: a tie
}

// Marks are the reasons for which a pair is worth reading.
type Marks struct {
	Disagree bool `json:"judges_disagree"`     // judges prefer different texts, or one ties
	Flipped  bool `json:"flipped_by_order"`    // a judge preferred the other text in the other order
	Unlike   bool `json:"differs_from_people"` // a judge differs from the majority of people
}

// MarksOf returns the marks of a pair, given all preferences of judges and the numbers of people's votes: for each
// document, and for a tie. A judge's side is the text that it preferred more often, over orders and trials, as in the
// agreement of judges. A judge that preferred both equally often is compared only with people, as a tie.
func MarksOf(said []Preference, people [3]int) (m Marks) {
	type key struct {
		judge string
		trial int
	}
	type judge struct{ lead, decided int }
	judges, orders := map[string]*judge{}, map[key]Preference{}
	for _, p := range said {
		j := judges[p.Judge]
		if j == nil {
			j = &judge{}
			judges[p.Judge] = j
		}
		if p.Winner >= 0 {
			j.lead += 1 - 2*p.Winner
			j.decided++
		}
		of := key{p.Judge, p.Trial}
		if other, ok := orders[of]; ok && other.Reverse != p.Reverse {
			m.Flipped = m.Flipped || p.Winner >= 0 && other.Winner >= 0 && p.Winner != other.Winner
		}
		orders[of] = p
	}

	most, known := majority(people)
	seen := map[int]bool{}
	for _, j := range judges {
		side := cmp.Compare(0, j.lead) // -1: the first; 0: a tie; 1: the second
		m.Unlike = m.Unlike || known && side != most
		if side != 0 || j.decided == 0 {
			seen[side] = true
		}
	}

	m.Disagree = len(seen) > 1
	return m
}

// majority returns the most frequent vote: -1 for the first document, 1 for the second, 0 for a tie. ok is false if
// there is no single most frequent vote.
func majority(people [3]int) (side int, ok bool) {
	most := max(people[0], people[1], people[2])
	for k, n := range people {
		if n < most {
			continue
		}
		if ok {
			return 0, false
		}
		side, ok = []int{-1, 1, 0}[k], most > 0
	}
	return side, ok
}

// readings selects pairs to read while the rows are read. Each mark has a shelf with a random sample of its pairs.
type readings struct {
	sizes   []int // runs of a pair, which are consecutive, by phase
	current *Pair
	kept    [4][]*Pair        // by Marks.shelf
	votes   map[[2]int][3]int // by documents, the first in the plan first
	shown   int               // bytes of images in the page
}

// size returns how many runs a pair of a phase has.
func (r *readings) size(phase int) int {
	if phase < len(r.sizes) {
		return r.sizes[phase]
	}
	return 1
}

func (b *builder) read(row results.PairwiseRow, documents [2]int, outcome rank.Outcome) {
	r := &b.readings
	id := eval.RunID{Phase: row.Phase, Index: row.Index / r.size(row.Phase)}.Short()
	if r.current == nil || r.current.ID != id {
		b.shelve()
		r.current = b.newPair(id, row, documents)
	}

	p := r.current
	said := Said{Preference: Preference{Judge: row.Judge, Trial: row.Trial, Reverse: documents[0] != p.positions[0], Winner: -1}}
	if outcome != rank.Tied {
		won := 0
		if outcome == rank.SecondWins {
			won = 1
		}
		if said.Reverse {
			won = 1 - won
		}
		said.Preference.Winner, said.Winner = won, p.Candidates[won]
	}

	p.all = append(p.all, said.Preference)
	if len(p.Said) == saidOfPair {
		p.More++
		return
	}
	said.Run = eval.RunID{Phase: row.Phase, Index: row.Index}.Short()
	said.Reason = wording.Clip(row.Reason, reasonRunes)
	degrees := b.report.Evaluation.Plan.Pairwise.Degrees
	said.Better = eval.DegreeWord(row.Degree, degrees)
	for _, c := range row.Criteria {
		by := CriterionSaid{Criterion: c.Criterion, Better: eval.DegreeWord(c.Degree, degrees)}
		if at := slices.Index(p.Documents[:], c.Winner); at >= 0 {
			by.Winner = p.Candidates[at]
		}
		said.By = append(said.By, by)
	}
	p.Said = append(p.Said, said)
}

func (b *builder) newPair(id string, row results.PairwiseRow, documents [2]int) *Pair {
	p := &Pair{
		ID: id, Item: row.Item, positions: documents, Documents: [2]string{row.Document1, row.Document2},
		Candidates: [2]string{row.Candidate1, row.Candidate2},
		lot:        rand.NewPCG(uint64(row.Phase), uint64(row.Index/b.readings.size(row.Phase))).Uint64(),
	}
	if documents[0] > documents[1] {
		slices.Reverse(p.positions[:])
		slices.Reverse(p.Documents[:])
		slices.Reverse(p.Candidates[:])
	}
	p.People = b.readings.votes[p.positions]
	p.again = planned.Escalated(b.report.Evaluation.Plan, row.Phase)
	return p
}

// shelve finishes the pair that was read last, and keeps it if it is in the sample of its shelf.
func (b *builder) shelve() {
	p := b.readings.current
	if p == nil {
		return
	}
	b.readings.current = nil
	if !p.again {
		b.report.Pairs++
	}
	b.repeat(p.all)
	p.Marks, p.all = MarksOf(p.all, p.People), nil
	b.mark(p)
	shelf := &b.readings.kept[p.shelf()]
	at, _ := slices.BinarySearchFunc(*shelf, p.lot, func(p *Pair, lot uint64) int { return cmp.Compare(p.lot, lot) })
	if at < pairsOfMark {
		*shelf = slices.Insert(*shelf, at, p)
		*shelf = (*shelf)[:min(len(*shelf), pairsOfMark)]
	}
}

// shelf returns the position of the most telling mark in readings.kept; 3 without a mark.
func (m Marks) shelf() int {
	switch {
	case m.Unlike:
		return 0
	case m.Disagree:
		return 1
	case m.Flipped:
		return 2
	}
	return 3
}

// addTexts reads the texts of the sampled pairs. They are ordered by their most telling mark, then by the plan.
func (b *builder) addTexts(ctx context.Context, source Source) error {
	b.shelve()
	e := b.report.Evaluation.Plan
	pairs := slices.Concat(b.readings.kept[:]...)
	slices.SortFunc(pairs, func(p, q *Pair) int {
		x, _ := eval.ParseShort(p.ID)
		y, _ := eval.ParseShort(q.ID)
		return cmp.Or(cmp.Compare(p.shelf(), q.shelf()), cmp.Compare(x.Phase, y.Phase), cmp.Compare(x.Index, y.Index))
	})
	left := readingsRunes
	for _, p := range pairs {
		most := min(textRunes, left/3)
		item := e.Items[e.Documents[p.positions[0]].Item]
		p.Question, p.Reference = wording.Clip(item.Question, most), wording.Clip(item.KnownReference(), most)
		left -= len(p.Question) + len(p.Reference)
		for k, d := range p.positions {
			text, err := source.Text(ctx, e.Documents[d].Hash)
			if err != nil && !errors.Is(err, results.ErrNoText) {
				return fmt.Errorf("text of %s: %w", e.Documents[d].ID, err)
			}
			p.Texts[k] = wording.Clip(e.Documents[d].Readable(text), most)
			left -= len(p.Texts[k])
			if p.Images[k], err = b.pictures(ctx, source, e.Documents[d]); err != nil {
				return err
			}
		}
	}

	b.report.Readings = pairs
	return nil
}
