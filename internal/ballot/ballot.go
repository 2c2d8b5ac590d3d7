// Package ballot decides about which pairs of texts people are asked, in which order and on which side each text is.
//
// It chooses pairs from an evaluation's plan and results; it neither stores votes nor shows pages. Everything that is
// random follows from a hash of names, so that a page that is loaded again shows the same.
package ballot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
)

// ErrNothing means that people cannot vote on an evaluation, or that no pair is chosen. The error says why.
var ErrNothing = errors.New("nothing to vote on")

// MostPairs is how many pairs a ballot can have.
const MostPairs = 10_000

// Settings say which pairs are asked about.
type Settings struct {
	// Chosen is results.ChosenSample, results.ChosenContested or results.ChosenNarrow.
	Chosen string
	// Sample is the size of the random sample, at most MostPairs.
	Sample int
}

// Pair is two documents of an evaluation, by their positions in the plan; the one whose ID sorts first comes first.
type Pair [2]int

// Ballot lists pairs in the order in which people are asked about them.
type Ballot struct {
	Evaluation results.Evaluation
	Settings
	Pairs []Pair
	All   int // pairs that the choice was made from
}

// Draw chooses the pairs of an evaluation. built returns its report, which only results.ChosenNarrow needs.
func Draw(
	ctx context.Context, reader results.Reader, e results.Evaluation, s Settings, built func(context.Context) (*report.Report, error),
) (*Ballot, error) {
	of := &drawing{Ballot: &Ballot{Evaluation: e, Settings: s}}
	if err := of.check(); err != nil {
		return nil, err
	}

	var err error
	switch s.Chosen {
	case results.ChosenSample:
		err = of.sample(ctx, reader)
	case results.ChosenContested:
		err = of.contested(ctx, reader)
	case results.ChosenNarrow:
		err = of.narrow(ctx, built)
	default:
		err = fmt.Errorf("unknown choice of pairs %q", s.Chosen)
	}
	if err != nil {
		return nil, err
	}
	of.Pairs = of.lots.pairs(of.most())
	return of.Ballot, nil
}

// drawing is a Ballot while its pairs are chosen.
type drawing struct {
	*Ballot
	lots    lots
	unknown bool // a pair was left out because the text of a document is not known
}

// check reports why people cannot vote on the evaluation, if so.
func (d *drawing) check() error {
	e := d.Evaluation.Plan
	switch {
	case e.Pairwise != nil || d.ranksByVotes():
		return nil
	case e.Single != nil || e.Panel != nil:
		return fmt.Errorf("%w: this evaluation scores texts one by one, and people vote on pairs of texts", ErrNothing)
	}
	return fmt.Errorf("%w: this evaluation compares no pairs of texts", ErrNothing)
}

// ranksByVotes reports whether people's votes alone rank the documents: no judge compares them.
func (d *drawing) ranksByVotes() bool {
	e := d.Evaluation.Plan
	return len(e.Judges) == 0 && len(e.Documents) > 0 && d.Evaluation.Voted()
}

// most bounds the pairs of the ballot.
func (d *drawing) most() int {
	if d.Chosen == results.ChosenSample {
		return min(d.Sample, MostPairs)
	}
	return MostPairs
}

// add adds a pair, unless its texts are the same or not known. Pairs of a lower class come first, those of one class in
// the order of their lots.
func (d *drawing) add(a, b, class int) {
	documents := d.Evaluation.Plan.Documents
	if documents[a].ID > documents[b].ID {
		a, b = b, a
	}
	first, second := documents[a], documents[b]
	switch {
	case first.Hash == "" || second.Hash == "":
		d.unknown = true
		return
	case first.Hash == second.Hash: // there is nothing to compare
		return
	}
	d.lots.add(drawn{Pair{a, b}, class, LotOf(d.Evaluation.ID, first.ID, second.ID)}, d.most())
}

// none returns the error if no pair was chosen.
func (d *drawing) none(why string) error {
	switch {
	case len(d.lots.kept) > 0:
		return nil
	case d.unknown:
		return fmt.Errorf("%w: the texts of this evaluation are not in its results store, as `evalfleet rank` reads verdicts alone", ErrNothing)
	}
	return fmt.Errorf("%w: %s", ErrNothing, why)
}

// sample draws from all pairs that judges compare. If verdicts were given elsewhere, these are the pairs that have one.
func (d *drawing) sample(ctx context.Context, reader results.Reader) error {
	take := func(a, b int) {
		d.All++
		d.add(a, b, 0)
	}
	var err error
	switch {
	case d.ranksByVotes():
		d.within(func(a, b eval.Document) bool { return a.Candidate != b.Candidate }, take)
	case d.Evaluation.Plan.Given != nil:
		err = d.recorded(ctx, reader, func(pair Pair, _ []report.Preference) { take(pair[0], pair[1]) })
	default:
		err = d.planned(ctx, take)
	}
	if err != nil {
		return err
	}
	return d.none("this evaluation has no pairs of different texts")
}

// planned yields the pairs that judges compare. A pair that two rounds compare may come twice. Rounds whose pairs are
// not chosen yet are left out.
func (d *drawing) planned(ctx context.Context, yield func(a, b int)) error {
	e := d.Evaluation.Plan
	sizes := plan.PairSizes(e)
	for k, phase := range d.Evaluation.Phases {
		if phase.Kind != eval.KindPairwise || phase.Open {
			continue
		}
		queues := slices.Repeat([]string{"any"}, len(e.JudgesOf(phase.Kind))) // queues do not change what a run asks
		runs, err := plan.New(e, k, plan.Options{JudgeQueues: queues, Choice: phase.Choice})
		if err != nil {
			return err
		}

		for index := 0; index < min(phase.Runs, runs.Runs()); index += sizes[k] {
			run := runs.Run(index)
			yield(run.First, run.Second)
			if index%(1<<16*sizes[k]) == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// within yields the pairs of documents of each item that fit.
func (d *drawing) within(fits func(a, b eval.Document) bool, yield func(a, b int)) {
	documents := d.Evaluation.Plan.Documents
	of := map[int][]int{}
	for k, document := range documents {
		for _, other := range of[document.Item] {
			if fits(documents[other], document) {
				yield(other, k)
			}
		}
		of[document.Item] = append(of[document.Item], k)
	}
}

// contested chooses the pairs on which judges disagree, or a judge changes with the order of the texts.
func (d *drawing) contested(ctx context.Context, reader results.Reader) error {
	err := d.recorded(ctx, reader, func(pair Pair, said []report.Preference) {
		d.All++
		if marks := report.MarksOf(said, [3]int{}); marks.Disagree || marks.Flipped {
			d.add(pair[0], pair[1], 0)
		}
	})
	if err != nil {
		return err
	}
	return d.none("judges agree on every pair that is recorded so far: ask about a random sample instead")
}

// recorded yields the pairs with a recorded verdict, and what judges said that answered themselves.
func (d *drawing) recorded(ctx context.Context, reader results.Reader, yield func(Pair, []report.Preference)) error {
	e := d.Evaluation.Plan
	if e.Pairwise == nil {
		return nil
	}
	position := map[string]int{}
	for k, document := range e.Documents {
		position[document.ID] = k
	}

	sizes := plan.PairSizes(e)
	var said []report.Preference
	var of *results.PairwiseRow
	end := func() {
		if of != nil {
			yield(Pair{position[of.Document1], position[of.Document2]}, said)
		}
		said = nil
	}
	for row, err := range reader.PairwiseRows(ctx, d.Evaluation.ID) {
		if err != nil {
			return err
		}
		if row.Phase < 0 || row.Phase >= len(sizes) {
			return fmt.Errorf("a verdict is of phase %d, and the evaluation has %d", row.Phase, len(sizes))
		}
		if of == nil || row.Phase != of.Phase || row.Index/sizes[of.Phase] != of.Index/sizes[of.Phase] {
			end()
		}
		of = &row
		if row.AnsweredBy == row.Model && row.Model != "" {
			said = append(said, preference(row))
		}
	}

	end()
	return nil
}

// preference returns a verdict in terms of the documents sorted by their IDs.
func preference(row results.PairwiseRow) report.Preference {
	two := []string{row.Document1, row.Document2}
	p := report.Preference{Judge: row.Judge, Trial: row.Trial, Reverse: two[0] > two[1]}
	slices.Sort(two)
	p.Winner = slices.Index(two, row.Winner) // -1: a tie
	return p
}

// narrow chooses the pairs of candidates that are neighbours in the ranking and whose order is open.
func (d *drawing) narrow(ctx context.Context, built func(context.Context) (*report.Report, error)) error {
	r, err := built(ctx)
	if err != nil {
		return err
	}
	class := map[[2]string]int{}
	for k, open := range r.OpenNeighbours() {
		class[open], class[[2]string{open[1], open[0]}] = k, k
	}
	d.within(func(a, b eval.Document) bool {
		_, open := class[[2]string{a.Candidate, b.Candidate}]
		return open
	}, func(a, b int) {
		d.All++
		documents := d.Evaluation.Plan.Documents
		d.add(a, b, class[[2]string{documents[a].Candidate, documents[b].Candidate}])
	})
	return d.none("no neighbours in the ranking whose order is open: ask about a random sample instead")
}

// drawn is a pair that may be on the ballot.
type drawn struct {
	Pair
	class int
	lot   uint64
}

func (a drawn) compare(b drawn) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.lot, b.lot), slices.Compare(a.Pair[:], b.Pair[:]))
}

// lots keeps the pairs that come first of any number.
type lots struct{ kept []drawn }

func (l *lots) add(d drawn, most int) {
	l.kept = append(l.kept, d)
	if len(l.kept) >= 4*most+1024 {
		l.cut(most)
	}
}

// cut drops pairs that were added twice, and those after the first most.
func (l *lots) cut(most int) {
	slices.SortFunc(l.kept, drawn.compare)
	l.kept = slices.Compact(l.kept)
	l.kept = l.kept[:min(most, len(l.kept))]
}

func (l *lots) pairs(most int) (pairs []Pair) {
	l.cut(most)
	for _, d := range l.kept {
		pairs = append(pairs, d.Pair)
	}
	return pairs
}

// LotOf returns the lot of a pair, which orders a random sample. It depends on the evaluation and on the pair alone, so no
// verdict and no vote can influence which pairs are in a sample, and a larger sample has the pairs of a smaller one.
func LotOf(id eval.ID, first, second string) uint64 {
	return binary.BigEndian.Uint64(hash("lot", string(id), first, second))
}

// Swapped reports whether a voter sees the second document of a pair first, or on the left.
func Swapped(id eval.ID, voter, first, second string) bool {
	return hash("side", string(id), voter, first, second)[0]&1 == 1
}

// hash hashes names. Their lengths keep apart where each ends.
func hash(names ...string) []byte {
	all := make([]byte, 0, 256)
	for _, name := range names {
		all = binary.AppendUvarint(all, uint64(len(name)))
		all = append(all, name...)
	}
	sum := sha256.Sum256(all)
	return sum[:]
}
