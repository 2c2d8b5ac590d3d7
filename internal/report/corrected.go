package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	planned "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Corrected is the ranking that people would give on all pairs that judges have verdicts on: these predict people's votes,
// and votes on a random sample of the pairs correct them.
type Corrected struct {
	// Why says why there is no such ranking; the fields of the ranking are then zero.
	Why string
	// Pairs is how many pairs of different texts judges have verdicts on. Voted are those of the random sample among them
	// that people voted on, with Votes votes.
	Pairs, Voted, Votes int
	// Groups is as People.Groups.
	Groups    []Group
	Intervals *Intervals
	// Lambda is rank.Correction.Lambda.
	Lambda float64
	// Halved is on how many more pairs people would have to vote so that intervals become half as wide; 0: votes on all pairs
	// would not suffice.
	Halved int
}

// leastVoted returns on how many pairs of the sample people must have voted: the simulations of `make coverage` go down to
// this number.
func leastVoted(candidates int) int { return max(30, 3*candidates) }

// sampledVotes counts what people voted on each pair of the random sample, as wins of the document with the lower position.
type sampledVotes map[[2]int32]rank.Counts

func (v sampledVotes) add(documents [2]int, outcome rank.Outcome) {
	key := [2]int32{int32(documents[0]), int32(documents[1])}
	var one rank.Counts
	one.Add(outcome)
	if key[0] > key[1] {
		key[0], key[1] = key[1], key[0]
		one = one.Swapped()
	}
	v[key] = v[key].Plus(one)
}

// correct sets People.Corrected, if there are judges and votes.
func (b *builder) correct(ctx context.Context) error {
	r := b.report
	if r.People == nil || r.People.Votes == 0 || len(r.Judges) == 0 || r.Verdicts == 0 {
		return nil
	}
	c := &Corrected{}
	r.People.Corrected = c
	units := b.votedUnits(c)
	if c.Why = b.uncorrected(c); c.Why != "" {
		return nil
	}
	options := b.rankOptions(b.annotators())
	all, err := rank.FromSample(len(r.candidates), 1, nil, units, options)
	if errors.Is(err, rank.ErrTooManyCandidates) {
		c.Why = "there are too many candidates"
		return nil
	}
	if err != nil {
		return fmt.Errorf("people's votes on a sample: %w", err)
	}

	of, err := b.ratingOf(ctx, all)
	if err != nil {
		return err
	}
	c.Groups, c.Intervals, c.Lambda = b.bare(of), b.intervals(of), all.Lambda
	c.Halved = halved(c.Pairs, c.Voted, all.Sampling(units))
	return nil
}

// uncorrected says why votes correct no ranking; empty: they do.
func (b *builder) uncorrected(c *Corrected) string {
	r := b.report
	least := leastVoted(len(r.candidates))
	switch {
	case r.People.Sample == 0:
		return "no vote is known to be on a random sample of the pairs"
	case b.chosenInRounds():
		return "the pairs of this evaluation are chosen in rounds, so no sample is of all of them"
	case b.clusterBy() == ByVerdict:
		return "nothing says which verdicts belong together"
	case c.Voted < least:
		return fmt.Sprintf("people voted on %s of the random sample that judges compared, and %d are needed",
			wording.Counted(c.Voted, "pair"), least)
	}
	return ""
}

// chosenInRounds reports whether results decide which pairs judges compare. People may have voted on a sample of the first
// ones, before the others were known.
func (b *builder) chosenInRounds() bool {
	e, pairwise := b.report.Evaluation, 0
	for k, phase := range e.Phases {
		if phase.Kind == eval.KindPairwise && !planned.Escalated(e.Plan, k) {
			pairwise++
		}
	}
	return pairwise > 1
}

// votedUnits returns the pairs of different texts that judges have verdicts on. Those without a vote, which include pairs
// that were skipped, have the weight 0. All verdicts of judges predict, also those that follow from gates.
func (b *builder) votedUnits(c *Corrected) []rank.Unit {
	r := b.report
	documents, byItem := r.Evaluation.Plan.Documents, b.clusterBy() == ByItem
	var units []rank.Unit
	var low, high, pair int32 = -1, -1, -1
	var open bool // the last unit is of the pair
	for _, one := range b.verdicts.ranked() {
		if l, h := one.pair(); l != low || h != high {
			low, high, pair, open = l, h, pair+1, false
		}
		first, second := documents[low], documents[high]
		counts := one.counts()
		if int(one.rater) >= len(r.Judges) || first.Candidate == second.Candidate || first.Hash == second.Hash || counts.Total() == 0 {
			continue
		}
		if !open {
			open = true
			u := rank.Unit{
				Cluster: pair, First: int32(b.candidate[first.Candidate]), Second: int32(b.candidate[second.Candidate]),
				Each: [2]int{1, 0}, Once: true, True: [2]rank.Counts{b.sampled[[2]int32{low, high}]},
			}
			if byItem {
				u.Cluster = int32(first.Item)
			}
			if r.Options.Length {
				u.Longer = longerOf(first, second)
			}
			if votes := u.True[0].Total(); votes > 0 {
				c.Voted++
				c.Votes += votes
			}
			units = append(units, u)
		}

		if one.first != low {
			counts = counts.Swapped()
		}
		u := &units[len(units)-1]
		u.Predicted = u.Predicted.Plus(halves(counts))
	}

	c.Pairs = len(units)
	for k := range units {
		if units[k].True[0].Total() > 0 {
			units[k].Weight = float64(c.Pairs) / float64(c.Voted)
		}
	}
	return units
}

// halves returns verdicts as predictions of others, in halves of a win: a tie is one half for each text. That says as much
// about abilities, and how often the others tie is known from their own verdicts alone.
func halves(c rank.Counts) rank.Counts {
	return rank.Counts{FirstWins: 2*c.FirstWins + c.Ties, SecondWins: 2*c.SecondWins + c.Ties}
}

// halved returns on how many more pairs people would have to vote so that intervals become half as wide, and thus variances
// a quarter. sampling is rank.Correction.Sampling: the share of variances that falls as pairs/voted − 1 does.
func halved(pairs, voted int, sampling float64) int {
	left := sampling - 0.75
	if left < 0 || voted == 0 || pairs <= voted {
		return 0
	}
	weight := 1 + (float64(pairs)/float64(voted)-1)*left/sampling
	return int(math.Ceil(float64(pairs)/weight)) - voted
}

// line says in a sentence what votes on a random sample changed, or why they changed nothing. judges is the ranking without
// them.
func (c *Corrected) line(judges []Group) string {
	if c.Why != "" {
		return "Votes correct no ranking: " + c.Why + "."
	}
	words := fmt.Sprintf("corrected by %s on %s of a random sample, of the %s that judges compared",
		wording.Counted(c.Votes, "vote"), wording.Counted(c.Voted, "pair"), wording.Counted(c.Pairs, "pair"))
	if len(c.Groups) == 1 {
		words = "On all pairs, people would rank " + firstOf(c.Groups[0]) + " first" + asJudges(c.Groups[0], judges) + ": " + words + "." +
			openWords(c.Groups[0])
	} else {
		words = "People's ranking on all pairs has several groups, " + words + "."
	}
	if c.Lambda == 0 {
		words += " Judges' verdicts on a pair do not predict people's votes on it better than the candidates alone do, so only the votes count."
	}
	if c.Halved > 0 {
		words += fmt.Sprintf(" Votes on about %s would halve the intervals.", wording.Counted(c.Halved, "more pair"))
	}
	return words
}

// worstJudge says which judge agrees with people less than every other one beyond doubt; empty: none does, or not all votes
// are on the random sample, and judges may differ on other pairs.
func (p *People) worstJudge() string {
	if len(p.Judges) < 2 || p.Votes > p.Sample {
		return ""
	}
	worst := slices.MinFunc(p.Judges, func(a, b AgainstPeople) int { return cmp.Compare(a.CohenLimits.High, b.CohenLimits.High) })
	for _, j := range p.Judges {
		if j.Judge != worst.Judge && !(worst.CohenLimits.High < j.CohenLimits.Low) {
			return ""
		}
	}
	return fmt.Sprintf("%s agrees with people less than every other judge (kappa %s): replace it first.",
		called(worst.Judge), coefficientLimits(worst.Cohen, worst.CohenLimits))
}

// asJudges compares who is first with the judges' ranking, which is the one without votes.
func asJudges(people Group, judges []Group) string {
	switch {
	case len(judges) != 1:
		return ""
	case firstOf(people) == firstOf(judges[0]):
		return ", as judges do"
	}
	return ", and not " + firstOf(judges[0]) + " as judges do"
}

// openWords says in a sentence, after a space, how many candidates could be first; empty if one is.
func openWords(g Group) string {
	if open := contenders(g); open > 1 {
		return fmt.Sprintf(" At 95 %% confidence, any of %s could be first.", wording.Count(open))
	}
	return ""
}

// contenders counts the candidates that could be first.
func contenders(g Group) (n int) {
	for _, c := range g.Ranked {
		if c.Contender {
			n++
		}
	}
	return n
}

// firstOf names the candidates on the first rank.
func firstOf(g Group) string {
	var names []string
	for _, c := range g.Ranked {
		if c.Rank == g.Ranked[0].Rank {
			names = append(names, called(c.Name))
		}
	}
	if len(names) > 3 {
		return wording.Counted(len(names), "candidate")
	}
	return strings.Join(names, " and ")
}

// ranks reports whether votes on a random sample give one ranking of all candidates. It is then the ranking by people, and
// that by their votes alone is one of its columns.
func (c *Corrected) ranks() bool { return c != nil && len(c.Groups) == 1 }

// correctedSection shows the ranking that people would give on all pairs, beside those by their votes alone, by judges and by
// each person.
func (r *Report) correctedSection(candidates, width int) (section, bool) {
	c := r.People.Corrected
	if c == nil {
		return section{}, false
	}
	s := section{title: "People's ranking on all pairs", lines: []string{c.line(r.Groups)}}
	if words := r.People.worstJudge(); c.Why == "" && words != "" {
		s.lines = append(s.lines, words)
	}
	if !c.ranks() {
		return s, true
	}

	shown := c.Groups[0].Ranked[:min(candidates, len(c.Groups[0].Ranked))]
	table := append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads("rank", winsHead, "95 % interval")...)
	for _, one := range shown {
		table.Add(harmless.Line(one.Name), rankIn(c.Groups, one.Name), winsOf(one), winsInterval(one))
	}
	others := []lines.Column{rankColumn("all judges", shown, r.Groups)}
	if len(r.People.Groups) == 1 {
		others = append(others, rankColumn("votes alone", shown, r.People.Groups))
	}
	var left int
	if s.table, left = table.Widened(append(others, r.People.ownColumns(shown)...), width); left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more ranking")+" in report.json.")
	}
	return s, true
}

// correctedJSON is the JSON form of Corrected; docs/formats.md describes its fields.
type correctedJSON struct {
	Why      string           `json:"why"`
	Pairs    int              `json:"pairs"`
	Voted    int              `json:"voted"`
	Votes    int              `json:"votes"`
	Lambda   number           `json:"lambda"`
	Halved   *int             `json:"pairs_to_halve"`
	Rankings array[groupJSON] `json:"rankings"`
}

func (r *Report) correctedJSON() *correctedJSON {
	c := r.People.Corrected
	if c == nil {
		return nil
	}
	out := &correctedJSON{Why: c.Why, Pairs: c.Pairs, Voted: c.Voted, Votes: c.Votes, Lambda: number(c.Lambda)}
	if c.Why != "" {
		out.Lambda = number(math.NaN())
	}
	if c.Halved > 0 {
		out.Halved = &c.Halved
	}
	for _, g := range c.Groups {
		out.Rankings = append(out.Rankings, r.groupJSON(g, true))
	}
	return out
}
