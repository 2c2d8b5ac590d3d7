package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
)

// People sums up people's votes on pairs of documents, and how far judges agree with them.
type People struct {
	Votes      int
	Annotators []Annotator // in the order of their first votes
	// Groups is the ranking by all people together, as Report.Groups but without scores and reasons; Intervals is as
	// Report.Intervals. The order in which people saw the texts is not known, so no position effect is estimated.
	Groups    []Group
	Intervals *Intervals
	// Agreement compares the annotators; nil if no pair was judged by two of them.
	Agreement *Agreement
	// Pairs counts the pairs that people voted on. Undecided counts those of them without a single most frequent
	// vote.
	Pairs, Undecided int
	// Sample, Contested and Narrow count the votes given on the page where people vote, by why their pair was shown.
	Sample, Contested, Narrow int
	Judges                    []AgainstPeople // in the order of the plan
	// Everyone compares the judges and the annotators, judges first. It is nil without judges, or if no pair was
	// judged by two of them.
	Everyone *Agreement
	// Pooled counts the annotators who share one propensity to tie. They have fewer than fewVotes votes, or are not
	// among the mostTies with the most votes.
	Pooled int
	// Assumed names the annotators whose propensity to tie has no finite estimate, so that a prior was used. The
	// empty name means the pooled annotators.
	Assumed []string
	// Corrected is the ranking that people would give on all pairs; nil without judges or votes.
	Corrected *Corrected
}

const (
	// fewVotes is the number of votes below which a person has neither an own propensity to tie nor an own ranking.
	// With a parameter for each person, estimates get worse, not better, with more people (Neyman and Scott 1948,
	// "Consistent estimates based on partially consistent observations").
	fewVotes = 20
	mostTies = 100 // people with an own propensity to tie
	mostOwn  = 20  // people with an own ranking
)

// Annotator summarises one person's votes.
type Annotator struct {
	Name        string
	Votes, Ties int
	Own         int // votes on two documents of one candidate, which are not ranked
	// Groups is the ranking by this person alone, as People.Groups; nil if there are no other people, or the person
	// has few votes.
	Groups []Group
}

// AgainstPeople compares all verdicts of a judge with the majority of people. It covers the pairs that have both. The
// numbers are those of rank.Confusion; NaN without pairs.
type AgainstPeople struct {
	Judge                           string
	Pairs                           int
	Accuracy, Precision, Recall, F1 float64
	Mostly                          float64
	Cohen                           float64 // Cohen's kappa
	CohenLimits                     rank.Limits
	groups                          int // the value of rank.ClusteredAgreement.Groups
}

// readVotes adds people's votes to the verdicts. Annotators are raters whose positions follow those of the judges.
func (b *builder) readVotes(ctx context.Context, source Source) error {
	if !b.report.Evaluation.Voted() {
		return nil
	}
	b.report.People, b.sampled = &People{}, sampledVotes{}
	annotators := map[string]int{}
	err := each(source.Votes(ctx, b.report.Evaluation.ID), func(row results.VoteRow) error { return b.addVote(row, annotators) })
	b.own = b.report.People.often(mostTies)
	return err
}

func (b *builder) addVote(row results.VoteRow, annotators map[string]int) error {
	people := b.report.People
	k, ok := annotators[row.Annotator]
	if !ok {
		k = len(people.Annotators)
		annotators[row.Annotator] = k
		people.Annotators = append(people.Annotators, Annotator{Name: row.Annotator})
	}

	var documents [2]int
	for i, id := range []string{row.Document1, row.Document2} {
		if documents[i], ok = b.document[id]; !ok {
			return fmt.Errorf("a vote of %q names document %q, which the plan does not have", row.Annotator, id)
		}
	}

	outcome, ok := winnerOf(row.Winner, row.Document1, row.Document2)
	if !ok {
		return fmt.Errorf("a vote of %q: winner %q is neither of its documents", row.Annotator, row.Winner)
	}
	annotator := &people.Annotators[k]
	annotator.Votes++
	people.Votes++
	switch row.Chosen {
	case results.ChosenSample:
		people.Sample++
		b.sampled.add(documents, outcome)
	case results.ChosenContested:
		people.Contested++
	case results.ChosenNarrow:
		people.Narrow++
	}
	if outcome == rank.Tied {
		annotator.Ties++
	}
	plan := b.report.Evaluation.Plan
	if plan.Documents[documents[0]].Candidate == plan.Documents[documents[1]].Candidate {
		annotator.Own++
	} else if len(plan.Judges) == 0 {
		b.report.Verdicts++
	}

	if b.readings.votes != nil {
		key := [2]int{min(documents[0], documents[1]), max(documents[0], documents[1])}
		votes := b.readings.votes[key]
		switch {
		case outcome == rank.Tied:
			votes[2]++
		case (outcome == rank.FirstWins) == (documents[0] == key[0]):
			votes[0]++
		default:
			votes[1]++
		}
		b.readings.votes[key] = votes
	}

	b.verdicts.add(len(plan.Judges)+k, documents[0], documents[1], outcome, 0, true)
	return nil
}

// often returns the annotators with at least fewVotes votes on different candidates. If there are more than `most`,
// it returns those with the most votes.
func (p *People) often(most int) map[int]bool {
	var all []int
	for k, a := range p.Annotators {
		if a.Votes-a.Own >= fewVotes {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(i, j int) int { return cmp.Compare(p.Annotators[j].Votes, p.Annotators[i].Votes) })
	often := map[int]bool{}
	for _, k := range all[:min(most, len(all))] {
		often[k] = true
	}
	return often
}

// places numbers raters that are ranked together, for the fit. Pooled people share the last number. count is how many
// numbers there are. If verdicts by gates are one more judge, it is the last.
func (b *builder) places(raters []int) (places map[int32]int32, count int) {
	places = map[int32]int32{}
	var pooled []int
	for _, rater := range raters {
		if k := rater - len(b.report.Judges); k >= 0 && len(raters) > 1 && !b.own[k] {
			pooled = append(pooled, rater)
			continue
		}
		places[int32(rater)] = int32(count)
		count++
	}
	for _, rater := range pooled {
		places[int32(rater)] = int32(count)
	}
	if len(pooled) > 0 || len(raters) > 0 && b.apartGates(raters[0]) {
		count++
	}
	return places, count
}

// annotators returns the positions of people among the raters.
func (b *builder) annotators() []int {
	var places []int
	if people := b.report.People; people != nil {
		for k := range people.Annotators {
			places = append(places, len(b.report.Judges)+k)
		}
	}
	return places
}

// rankPeople ranks by the votes of all people, and returns that rating. It also ranks by each person alone, if there
// are several. It returns nil without votes, or with too many candidates.
func (b *builder) rankPeople(ctx context.Context) (*rating, error) {
	people, places := b.report.People, b.annotators()
	if people == nil || len(people.Annotators) == 0 || len(b.report.candidates) > rank.MaxCandidates {
		return nil, nil
	}
	all, err := b.rate(ctx, places)
	if err != nil {
		return nil, fmt.Errorf("people: %w", err)
	}

	people.Groups, people.Intervals = b.bare(all), b.intervals(all)
	if len(places) == 1 {
		return all, nil
	}
	people.Pooled = len(places) - len(b.own)
	people.Assumed = make([]string, 0)
	for k, a := range people.Annotators {
		if b.own[k] && all.fit.Judges[all.places[int32(places[k])]].Regularised {
			people.Assumed = append(people.Assumed, a.Name)
		}
	}

	if last := len(all.fit.Judges) - 1; people.Pooled > 0 && all.fit.Judges[last].Regularised {
		people.Assumed = append(people.Assumed, "")
	}
	alone := people.often(mostOwn)
	for k := range people.Annotators {
		annotator := &people.Annotators[k]
		if !alone[k] {
			continue
		}
		own, err := b.rate(ctx, places[k:k+1])
		if err != nil {
			return nil, fmt.Errorf("annotator %s: %w", annotator.Name, err)
		}
		annotator.Groups = b.bare(own)
	}

	return all, nil
}

// compareWithPeople computes how far annotators agree, and how far judges agree with them.
func (b *builder) compareWithPeople() {
	people := b.report.People
	if people == nil {
		return
	}
	var names, judges []string
	for _, a := range people.Annotators {
		names = append(names, a.Name)
	}
	for _, j := range b.report.Judges {
		judges = append(judges, j.Name)
	}
	people.Agreement = b.agreement(len(judges), names, nil)
	if len(judges) == 0 {
		b.verdicts.units(0, len(names), func(_, _ int, said []rank.Shares) { people.count(said) })
		return
	}
	people.Everyone = b.agreement(0, append(judges, names...), nil)
	tables, kappas := make([]rank.Confusion, len(judges)), make([]*rank.ClusteredAgreement, len(judges))
	cluster := b.clusters()
	for k := range kappas {
		kappas[k] = rank.NewClusteredAgreement(2)
	}
	b.verdicts.units(0, len(judges)+len(names), func(document, other int, said []rank.Shares) {
		most, ok := people.count(said[len(judges):])
		if !ok {
			return
		}
		for k, shares := range said[:len(judges)] {
			if b.report.ByScore() {
				shares = b.scored.verdict(k, document, other)
			}
			if shares.Known() {
				tables[k].Add(most, shares)
				kappas[k].AddShares(cluster(document), []rank.Shares{most.Only(), shares})
			}
		}
	})

	for k, name := range judges {
		one := AgainstPeople{
			Judge: name, Pairs: tables[k].Total(), Accuracy: tables[k].Accuracy(), Mostly: tables[k].Mostly(),
			Cohen: kappas[k].Cohen(0, 1), CohenLimits: cohenLimits(kappas[k], 0, 1),
			groups: kappas[k].Groups(),
		}
		one.Precision, one.Recall, one.F1 = tables[k].Macro()
		people.Judges = append(people.Judges, one)
	}
}

// count counts a pair, given people's votes. It returns the most frequent vote; ok is false if there is no single one.
func (p *People) count(said []rank.Shares) (most rank.Outcome, ok bool) {
	var votes rank.Shares
	for _, shares := range said {
		for outcome, share := range shares {
			votes[outcome] += share
		}
	}
	if !votes.Known() {
		return 0, false
	}

	p.Pairs++
	for _, outcome := range []rank.Outcome{rank.SecondWins, rank.Tied} {
		if votes[outcome] > votes[most] {
			most = outcome
		}
	}
	for outcome, n := range votes {
		if rank.Outcome(outcome) != most && n == votes[most] {
			p.Undecided++
			return 0, false
		}
	}
	return most, true
}
