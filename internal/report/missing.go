package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Missing holds the verdicts on pairs that are missing: their runs failed, or another model answered, whose verdicts do not
// count.
type Missing struct {
	Verdicts int
	// Candidates are those with missing verdicts; the one with the most comes first.
	Candidates []MissingOf
}

// MissingOf holds the missing verdicts on one candidate.
type MissingOf struct {
	Name     string
	Verdicts int
	Given    int // verdicts on it that count in the ranking
	// Won, Lost and Tied count the missing verdicts whose pair the judge decided in the other order, by the outcome
	// there.
	Won, Lost, Tied int
	// Uneven is set if wins or losses are missing more often than chance explains.
	Uneven bool
	Rank   int
	// Bounds are the ranks that the candidate could have with any outcome of its missing verdicts; nil if not
	// estimated.
	Bounds *rank.Bounds

	candidate int
}

const (
	// mostBounded is how many candidates get Bounds, and boundedCandidates how many an evaluation may have for any to
	// get them: each takes two more fits.
	mostBounded       = 20
	boundedCandidates = 200
	// unlikely is the probability below which failures are reported to depend on the outcome.
	unlikely = 0.01
)

// lacking is a missing verdict: judge and documents, in the order shown.
type lacking struct {
	judge, first, second int
}

// addMissing records the missing verdict, or scores, of a failed run.
func (b *builder) addMissing(row results.RunRow) {
	judge, known := b.judge[row.Judge]
	if row.Kind == eval.KindSingle && known && len(row.Documents) == 1 {
		if d, ok := b.document[row.Documents[0]]; ok {
			b.report.unscored[b.report.Evaluation.Plan.Documents[d].Candidate]++
		}
	}
	if row.Kind != eval.KindPairwise || !known || len(row.Documents) != 2 {
		return
	}

	first, known := b.document[row.Documents[0]]
	second, also := b.document[row.Documents[1]]
	documents := b.report.Evaluation.Plan.Documents
	if !known || !also || documents[first].Candidate == documents[second].Candidate {
		return
	}
	b.lack(lacking{judge, first, second}, row.Trial)
}

// lack records a missing verdict, and the judge's verdict in the other order if it has been read.
func (b *builder) lack(one lacking, trial int) {
	documents := b.report.Evaluation.Plan.Documents
	b.lacking = append(b.lacking, one)
	other, known := b.waiting[shown{one.judge, one.second, one.first, trial}]
	for k, d := range []int{one.first, one.second} {
		of := b.missingOf(documents[d].Candidate)
		of.Verdicts++
		switch {
		case !known:
		case other.outcome == rank.Tied:
			of.Tied++
		case (other.outcome == rank.SecondWins) == (k == 0): // showed it second
			of.Won++
		default:
			of.Lost++
		}
	}
}

func (b *builder) missingOf(candidate string) *MissingOf {
	i := b.candidate[candidate]
	if b.missing[i] == nil {
		b.missing[i] = &MissingOf{Name: candidate, candidate: i}
	}
	return b.missing[i]
}

// boundMissing computes how the missing verdicts could change the ranking.
func (b *builder) boundMissing(ctx context.Context, judges []int) error {
	r := b.report
	if len(b.lacking) == 0 {
		return nil
	}
	r.Missing = &Missing{Verdicts: len(b.lacking)}
	ranked := map[int]Ranked{}
	for _, group := range r.Groups {
		for _, c := range group.Ranked {
			ranked[c.Candidate] = c
		}
	}

	for i, one := range b.missing {
		c := ranked[i]
		one.Rank, one.Given = c.Rank, c.Games()
		one.Uneven = uneven(one.Lost, one.Won, c.Losses, c.Wins)
		r.Missing.Candidates = append(r.Missing.Candidates, *one)
	}

	slices.SortFunc(r.Missing.Candidates, func(x, y MissingOf) int {
		return cmp.Or(cmp.Compare(y.Verdicts, x.Verdicts), cmp.Compare(x.candidate, y.candidate))
	})
	if len(r.candidates) > boundedCandidates || b.escalation != nil {
		return nil
	}
	places, count := b.places(judges)
	observed, missing := b.observed(places), b.missingVerdicts()
	for k := range r.Missing.Candidates[:min(mostBounded, len(r.Missing.Candidates))] {
		one := &r.Missing.Candidates[k]
		bounds, err := rank.BoundsOf(ctx, one.candidate, len(r.candidates), count, observed, missing, b.rankOptions(judges))
		if err != nil {
			return fmt.Errorf("bounds of %s: %w", one.Name, err)
		}
		one.Bounds = &bounds
	}

	return nil
}

// missingVerdicts returns the verdicts that failed, each with the cluster of its pair or item.
func (b *builder) missingVerdicts() []rank.Missing {
	documents, byItem := b.report.Evaluation.Plan.Documents, b.clusterBy() == ByItem
	clusters := b.pairClusters()
	var out []rank.Missing
	for _, l := range b.lacking {
		first, second := documents[l.first], documents[l.second]
		one := rank.Missing{
			Cluster: int32(first.Item), Judge: int32(l.judge),
			First: int32(b.candidate[first.Candidate]), Second: int32(b.candidate[second.Candidate]),
		}
		if !byItem {
			pair := [2]int32{int32(min(l.first, l.second)), int32(max(l.first, l.second))}
			if _, known := clusters[pair]; !known {
				clusters[pair] = int32(len(clusters))
			}
			one.Cluster = clusters[pair]
		}
		if b.report.Options.Length {
			one.Longer = longerOf(first, second)
		}
		out = append(out, one)
	}
	return out
}

// uneven reports whether the missing verdicts lack losses or wins in a proportion that chance does not explain. lost
// and won are their outcomes in the other order, which a two-sided binomial test compares with the given verdicts.
func uneven(lost, won, givenLost, givenWon int) bool {
	n, given := lost+won, givenLost+givenWon
	if n == 0 || given == 0 {
		return false
	}
	chance := distuv.Binomial{N: float64(n), P: float64(givenLost) / float64(given)}
	atMost := chance.CDF(float64(lost))
	atLeast := 1 - chance.CDF(float64(lost)-1)
	return min(atMost, atLeast) < unlikely/2
}

// missingNotes warns if missing verdicts could change the first place, or if failures depend on the outcome.
func (r *Report) missingNotes() []string {
	if r.Missing == nil {
		return nil
	}
	var notes []string
	again := "; run `evalfleet retry`."
	if r.given() {
		again = "."
	}
	for _, m := range r.Missing.Candidates {
		if m.Uneven {
			notes = append(notes, fmt.Sprintf("Failures on %s are not random: in the other order it lost %s and won %s of "+
				"these pairs. Its rank may be wrong%s",
				called(m.Name), wording.Count(m.Lost), wording.Count(m.Won), again))
		}
	}

	for _, m := range r.Missing.Candidates {
		switch b := m.Bounds; {
		case b == nil:
		case m.Rank == 1 && b.Worst > 1:
			notes = append(
				notes,
				fmt.Sprintf(
					"The first place could change: %s would have rank %s if it had lost its %s.", called(m.Name),
					wording.Count(b.Worst), wording.Counted(m.Verdicts, "missing verdict"),
				),
			)
		case m.Rank > 1 && b.Best == 1:
			notes = append(
				notes,
				fmt.Sprintf(
					"The first place could change: %s would be first if it had won its %s.", called(m.Name),
					wording.Counted(m.Verdicts, "missing verdict"),
				),
			)
		}
	}

	const most = 5
	if left := len(notes) - most; left > 0 {
		notes = append(
			notes[:most],
			fmt.Sprintf("%s about missing verdicts: see the table of missing verdicts.", wording.Counted(left, "more warning")),
		)
	}
	return notes
}

// missingSection lists at most `most` candidates with missing verdicts, and how these could change their ranks.
func (r *Report) missingSection(most int) section {
	t := append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads(
		"missing", "given", "lost", "won", "tied", "rank", "rank if lost / won", "95 % bounds",
	)...).InFull("", "verdicts missing", "verdicts given", "in the other order: lost", "won", "tied", "",
		"rank if all were lost / won", "rank bounds at 95 %")
	rows := r.missingRows(most)
	for _, m := range rows {
		t.Add(harmless.Line(m.Name), m.Verdicts, m.Given, m.Lost, m.Won, m.Tied, m.Rank, m.Ranks, m.Limits)
	}
	s := section{title: "Missing verdicts", table: t, lines: []string{missingWords}}
	if left := len(r.Missing.Candidates) - len(rows); left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more candidate")+" in report.json.")
	}
	return s
}

const missingWords = "Runs that failed, and answers of fallback models, which do not count. Lost, won and tied: the judge's " +
	"verdict on the pair in the other order, if there is one. The bounds hold whatever the candidate's missing verdicts would have been."

// missingRow holds the formatted cells of one row of the table.
type missingRow struct {
	Name, Verdicts, Given, Lost, Won, Tied, Rank, Ranks, Limits string
}

func (r *Report) missingRows(most int) []missingRow {
	var rows []missingRow
	for _, m := range r.Missing.Candidates[:min(most, len(r.Missing.Candidates))] {
		row := missingRow{
			Name: m.Name, Verdicts: wording.Count(m.Verdicts), Given: wording.Count(m.Given), Lost: wording.Count(m.Lost),
			Won: wording.Count(m.Won), Tied: wording.Count(m.Tied),
			Rank: "–", Ranks: "–", Limits: "–",
		}
		if m.Rank > 0 {
			row.Rank = wording.Count(m.Rank)
		}
		if b := m.Bounds; b != nil {
			row.Ranks, row.Limits = rankSpan(b.Worst, b.Best), rankSpan(b.Low, b.High)
		}
		rows = append(rows, row)
	}
	return rows
}

// rankSpan formats a range of ranks: "3–1", or "3" if both ends are equal.
func rankSpan(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}

// The JSON form of Missing; docs/formats.md describes its fields.
type (
	missingJSON struct {
		Verdicts   int                  `json:"verdicts"`
		Candidates array[missingOfJSON] `json:"candidates"`
	}
	missingOfJSON struct {
		Candidate string `json:"candidate"`
		Verdicts  int    `json:"verdicts"`
		Given     int    `json:"given"`
		Lost      int    `json:"other_order_lost"`
		Won       int    `json:"other_order_won"`
		Tied      int    `json:"other_order_tied"`
		Uneven    bool   `json:"uneven"`
		Worst     *int   `json:"rank_if_lost"`
		Best      *int   `json:"rank_if_won"`
		Low       *int   `json:"rank_low"`
		High      *int   `json:"rank_high"`
	}
)

func (r *Report) missingJSON() *missingJSON {
	if r.Missing == nil {
		return nil
	}
	out := &missingJSON{Verdicts: r.Missing.Verdicts}
	for _, m := range r.Missing.Candidates {
		one := missingOfJSON{Candidate: m.Name, Verdicts: m.Verdicts, Given: m.Given, Lost: m.Lost, Won: m.Won, Tied: m.Tied, Uneven: m.Uneven}
		if b := m.Bounds; b != nil {
			one.Worst, one.Best, one.Low, one.High = &b.Worst, &b.Best, &b.Low, &b.High
		}
		out.Candidates = append(out.Candidates, one)
	}
	return out
}
