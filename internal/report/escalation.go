package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	planned "github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Escalation says which of the pairs a strong judge saw, and how the ranking follows from that.
type Escalation struct {
	Judge string
	// Pairs is how many pairs the first judges saw. Contested of them are contested, and Sampled of the others were drawn.
	// Contested is −1 if the pairs have not been chosen yet.
	Pairs, Contested, Sampled int
	// SeenContested and SeenSampled are those of them on which the strong judge has given a verdict.
	SeenContested, SeenSampled int
	// Confirmed is on how many of SeenSampled it prefers the same document as the first judges together, or neither as they
	// do.
	Confirmed int
	// Asked is how many runs the strong judge has, and Whole how many it would have with all pairs.
	Asked, Whole int
	// Corrected is set if the ranking is the strong judge's. Before it has given verdicts on pairs of both kinds, the
	// ranking is that of the first judges.
	Corrected bool
	// Lambda is rank.Correction.Lambda.
	Lambda float64
}

// escalation collects what the ranking by a strong judge needs.
type escalation struct {
	strong    int // position of the judge
	phase     int // in which it is asked
	contested map[[2]int32]bool
	weights   [2]float64 // of a verdict on a pair that is not contested, and on one that is
}

// newEscalation returns nil if the evaluation has no strong judge.
func (b *builder) newEscalation() (*escalation, error) {
	r := b.report
	e := r.Evaluation.Plan
	if e.Strong() < 0 {
		return nil, nil
	}
	x := &escalation{strong: e.Strong(), contested: map[[2]int32]bool{}}
	r.Escalation = &Escalation{Judge: e.Judges[x.strong].Name, Contested: -1}
	for !planned.Escalated(e, x.phase) {
		x.phase++
	}
	sizes := planned.PairSizes(e)
	if x.phase >= len(sizes) {
		return nil, errors.New("the evaluation has a strong judge, but no phase that asks it")
	}
	for _, phase := range r.Phases {
		switch phase.Phase {
		case x.phase - 1:
			r.Escalation.Pairs = phase.Runs / sizes[x.phase-1]
		case x.phase:
			r.Escalation.Asked = phase.Runs
		}
	}
	r.Escalation.Whole = r.Escalation.Pairs * sizes[x.phase]
	if x.phase >= len(r.Evaluation.Phases) || r.Evaluation.Phases[x.phase].Choice == nil {
		return x, nil
	}

	choice := r.Evaluation.Phases[x.phase].Choice
	pairs, err := planned.EscalatedPairs(e, choice.Contested)
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		x.contested[[2]int32{int32(pair[0]), int32(pair[1])}] = true
	}
	r.Escalation.Contested, r.Escalation.Sampled = len(choice.Contested), len(choice.Sampled)
	return x, nil
}

// mainRaters returns the raters whose verdicts rank the candidates: judges, or people without any.
func (b *builder) mainRaters() []int {
	var raters []int
	for k, judge := range b.report.Judges {
		if b.report.ranksBy(judge.Name) {
			raters = append(raters, k)
		}
	}
	if len(raters) == 0 {
		return b.annotators()
	}
	return raters
}

// rateAll ranks by the verdicts of the main raters.
func (b *builder) rateAll(ctx context.Context) (*rating, error) {
	if x := b.escalation; x != nil && b.report.Escalation.Corrected {
		return b.rateStrong(ctx, x)
	}
	return b.rate(ctx, b.mainRaters())
}

// escalate counts the pairs that the strong judge has seen, and decides whether the ranking can be its own: it must have
// seen some pairs of each kind.
func (b *builder) escalate() error {
	x, err := b.newEscalation()
	if x == nil || err != nil {
		return err
	}
	b.escalation = x
	of := b.report.Escalation
	seen, all := [2]int{}, [2]int{}
	for _, p := range b.paired(x) {
		kind := x.kind(p.low, p.high)
		if p.askedFirst || kind == 1 {
			all[kind]++
		}
		if p.asked() {
			seen[kind]++
			if kind == 0 && p.confirmed() {
				of.Confirmed++
			}
		}
	}

	all[1] = max(all[1], len(x.contested)) // also those without any verdict
	of.SeenSampled, of.SeenContested = seen[0], seen[1]
	of.Corrected = of.Contested >= 0 && (seen[0] > 0 || all[0] == 0) && (seen[1] > 0 || all[1] == 0) && seen[0]+seen[1] > 0
	for kind := range x.weights {
		x.weights[kind] = float64(all[kind]) / float64(max(seen[kind], 1))
	}
	return nil
}

// kind returns 1 for a contested pair, and 0 for another one.
func (x *escalation) kind(low, high int32) int {
	if x.contested[[2]int32{low, high}] {
		return 1
	}
	return 0
}

// pairedCells are the verdicts on a pair of documents.
type pairedCells struct {
	low, high  int32
	pair       int32 // as pairClusters numbers it
	first      rank.Counts
	askedFirst bool           // a first judge was asked
	shown      [2]bool        // the orders in which it was: with low first, with high first
	strong     [2]rank.Counts // in these orders
	decided    *cell          // a verdict that follows from the texts; nil: none
}

func (p *pairedCells) asked() bool { return p.strong[0].Total()+p.strong[1].Total() > 0 }

// confirmed reports whether the strong judge prefers the same document as the first judges.
func (p *pairedCells) confirmed() bool {
	lead := func(c rank.Counts) int { return cmp.Compare(c.FirstWins, c.SecondWins) }
	return lead(p.first) == lead(p.said())
}

// said returns the strong judge's verdicts, as wins of low.
func (p *pairedCells) said() rank.Counts {
	return p.strong[0].Plus(p.strong[1].Swapped())
}

// paired returns the verdicts of judges by pair of documents.
func (b *builder) paired(x *escalation) []pairedCells {
	var pairs []pairedCells
	number := int32(-1)
	for _, c := range b.verdicts.ranked() {
		low, high := c.pair()
		if len(pairs) == 0 || pairs[len(pairs)-1].low != low || pairs[len(pairs)-1].high != high {
			number++
			pairs = append(pairs, pairedCells{low: low, high: high, pair: number})
		}

		p := &pairs[len(pairs)-1]
		order := 0
		if c.first != low {
			order = 1
		}
		counts := c.counts()

		switch {
		case int(c.rater) >= len(b.report.Judges): // people
		case c.won+c.lost+c.identical > 0:
			if p.decided == nil {
				p.decided = &c
			}
		case int(c.rater) == x.strong:
			p.strong[order] = p.strong[order].Plus(counts)
		default:
			p.askedFirst = p.askedFirst || counts.Total() > 0
			p.shown[order] = true
			if order == 1 {
				counts = counts.Swapped()
			}
			p.first = p.first.Plus(counts)
		}
	}
	return pairs
}

// rateStrong ranks as the strong judge would if it saw all pairs (rank.FromSample).
func (b *builder) rateStrong(ctx context.Context, x *escalation) (*rating, error) {
	r := b.report
	raters := []int{x.strong}
	places, count := b.places(raters)
	documents, byItem, trials := r.Evaluation.Plan.Documents, b.clusterBy() == ByItem, r.Evaluation.Plan.Pairwise.Trials
	var others []rank.Observed
	var units []rank.Unit
	for _, p := range b.paired(x) {
		low, high := documents[p.low], documents[p.high]
		if low.Candidate == high.Candidate {
			continue
		}
		cluster := p.pair
		if byItem {
			cluster = int32(low.Item)
		}
		if p.decided != nil {
			others = append(others, b.decidedOf(*p.decided, cluster, count))
			continue
		}
		u := rank.Unit{
			Cluster: cluster, First: int32(b.candidate[low.Candidate]), Second: int32(b.candidate[high.Candidate]),
			Predicted: halves(p.first), True: p.strong,
		}
		if r.Options.Length {
			u.Longer = longerOf(low, high)
		}
		for order, shown := range p.shown {
			if shown {
				u.Each[order] = trials
			}
		}
		if p.asked() {
			u.Weight = max(1, x.weights[x.kind(p.low, p.high)])
		}
		units = append(units, u)
	}

	corrected, err := rank.FromSample(len(r.candidates), count, others, units, b.rankOptions(raters))
	if err != nil {
		return nil, err
	}
	out, err := b.ratingOf(ctx, corrected)
	if err != nil {
		return nil, err
	}
	out.places = places
	return out, nil
}

// ratingOf returns a corrected ranking with its uncertainty. Win rates are those of the pairs that were seen, which are not
// all, so they have no limits.
func (b *builder) ratingOf(ctx context.Context, c *rank.Correction) (*rating, error) {
	r := b.report
	of := &rating{fit: c.Fit, lambda: c.Lambda, winRates: make([]rank.Limits, len(r.candidates))}
	for i := range of.winRates {
		of.winRates[i] = rank.Limits{SE: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	var err error
	of.uncertainty, err = of.fit.Uncertainty(ctx, c.Observed, rank.Drawing{Draws: r.Options.Draws, Seed: r.Options.Seed, Joint: b.joint()})
	return of, err
}

// decidedOf returns a verdict that follows from the texts. Every judge has the same, so it counts once.
func (b *builder) decidedOf(c cell, cluster int32, judges int) rank.Observed {
	documents := b.report.Evaluation.Plan.Documents
	o := rank.Observed{
		Cluster: cluster,
		First:   int32(b.candidate[documents[c.first].Candidate]), Second: int32(b.candidate[documents[c.second].Candidate]),
	}
	switch {
	case c.won > 0:
		o.FirstWins = 1
	case c.lost > 0:
		o.SecondWins = 1
	default:
		o.Identical = 1
	}
	if c.won+c.lost > 0 && b.gated {
		o.Judge = int32(judges - 1) // as apartGates says
	}
	return o
}

// EscalationLine says whose ranking it is, and which pairs the strong judge saw. It is empty if every judge sees
// everything, or nothing is ranked.
func (r *Report) EscalationLine() string {
	if r.Escalation == nil || r.Verdicts == 0 {
		return ""
	}
	return r.Escalation.line()
}

func (e *Escalation) line() string {
	name := called(e.Judge)
	if !e.Corrected {
		return "The ranking is still that of the first judges. " + name + " " + e.waiting() + "."
	}
	words := fmt.Sprintf("The ranking is that of %s on all %s. It saw %s: %s contested, and %s others by chance, of which it confirms %s.",
		name, wording.Counted(e.Pairs, "pair"), wording.Count(e.SeenContested+e.SeenSampled), wording.Count(e.SeenContested),
		wording.Count(e.SeenSampled), wording.Count(e.Confirmed))
	if saved := e.Whole - e.Asked; saved > 0 {
		words += fmt.Sprintf(" That saved %s of %s.", wording.Count(saved), wording.Counted(e.Whole, "call"))
	}
	return words
}

func (e *Escalation) waiting() string {
	if e.Contested < 0 {
		return "sees pairs when these have judged all"
	}
	return fmt.Sprintf("has not judged enough of its %s yet", wording.Counted(e.Contested+e.Sampled, "pair"))
}

// escalationNotes says what is unusual about a ranking by a strong judge.
func (r *Report) escalationNotes() []string {
	e := r.Escalation
	if e == nil || r.Verdicts == 0 {
		return nil
	}
	if !e.Corrected {
		return []string{e.line()}
	}
	var notes []string
	if missing := e.Contested + e.Sampled - e.SeenContested - e.SeenSampled; missing > 0 {
		notes = append(notes, fmt.Sprintf("%s saw %s of its %s; the others are taken to be like these, so intervals are wider.",
			called(e.Judge), wording.Count(e.SeenContested+e.SeenSampled), wording.Counted(e.Contested+e.Sampled, "pair")))
	}
	return append(notes, fmt.Sprintf("%s sees the contested pairs, and only a sample of the others. So its wins and losses are "+
		"not those on all pairs; the ranking weighs them.", called(e.Judge)))
}

// doubtWords lists what makes a pair contested.
func doubtWords(when []eval.Doubt) string {
	words := make([]string, len(when))
	for i, doubt := range when {
		words[i] = string(doubt)
	}
	return strings.Join(words, ", ")
}

// escalationJSON is the JSON form of Escalation; docs/formats.md describes its fields.
type escalationJSON struct {
	Judge         string       `json:"judge"`
	When          []eval.Doubt `json:"when"`
	Share         float64      `json:"share"`
	Pairs         int          `json:"pairs"`
	Contested     *int         `json:"contested"`
	Sampled       *int         `json:"sampled"`
	SeenContested int          `json:"seen_contested"`
	SeenSampled   int          `json:"seen_sampled"`
	Confirmed     int          `json:"confirmed"`
	Runs          int          `json:"runs"`
	RunsOfAll     int          `json:"runs_of_all"`
	Corrected     bool         `json:"corrected"`
	Lambda        *number      `json:"lambda"`
}

func (r *Report) escalationJSON() *escalationJSON {
	e := r.Escalation
	if e == nil {
		return nil
	}
	how := r.Evaluation.Plan.Escalate
	out := &escalationJSON{
		Judge: e.Judge, When: how.When, Share: how.Share, Pairs: e.Pairs, SeenContested: e.SeenContested, SeenSampled: e.SeenSampled,
		Confirmed: e.Confirmed,
		Runs:      e.Asked, RunsOfAll: e.Whole, Corrected: e.Corrected,
	}
	if e.Contested >= 0 {
		out.Contested, out.Sampled = &e.Contested, &e.Sampled
	}
	if e.Corrected {
		lambda := number(e.Lambda)
		out.Lambda = &lambda
	}
	return out
}
