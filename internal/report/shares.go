package report

import (
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Share says how many of a candidate's texts pass a check, or how many verdicts on them say that they meet a criterion.
type Share struct {
	Met, Of int
	// Share is Met of Of. Limits are those of Share, by item; NaN with fewer than two items.
	Share float64
	rank.Limits
}

// sharing counts what a Share is of, by cluster.
type sharing struct{ met, of map[int]float64 }

func newSharing() sharing { return sharing{map[int]float64{}, map[int]float64{}} }

func (s sharing) add(cluster int, met, of float64) {
	s.met[cluster] += met
	s.of[cluster] += of
}

func (s sharing) share() (out Share) {
	var met, of []float64
	for _, cluster := range slices.Sorted(maps.Keys(s.of)) {
		met, of = append(met, s.met[cluster]), append(of, s.of[cluster])
		out.Met += int(s.met[cluster])
		out.Of += int(s.of[cluster])
	}
	out.Share, out.Limits = rank.MeanOf(met, of, 0, 1)
	return out
}

// sharedBy is a name with the Share of each candidate, in the order of Report.candidates.
type sharedBy struct {
	name   string
	shares []Share
}

// shareSection returns a table of shares with at most `most` candidates of each name, in the order of the ranking. of is the
// head of the names, met of the numbers, and all the file that has the other candidates.
func (r *Report) shareSection(title, of, met, all string, rows []sharedBy, most int) section {
	t := lines.Table{{Head: of, Flexible: true}, {Head: "candidate", Flexible: true}}
	t = append(t, lines.Heads(met, "of", "share", "95 % interval")...)
	order := r.inOrder()
	for _, row := range rows {
		for _, c := range order[:min(most, len(order))] {
			share := row.shares[c.Candidate]
			if share.Of == 0 {
				continue
			}
			interval := "–"
			if share.Low < share.High {
				interval = outOfHundred(share.Low) + " – " + outOfHundred(share.High) + " %"
			}
			t.Add(harmless.Line(row.name), harmless.Line(c.Name), wording.Count(share.Met), wording.Count(share.Of),
				percent(share.Share), interval)
		}
	}

	s := section{title: title, table: t}
	if left := len(order) - most; left > 0 {
		s.lines = append(s.lines, wording.Counted(left, "more candidate")+" in "+all+".")
	}
	return s
}
