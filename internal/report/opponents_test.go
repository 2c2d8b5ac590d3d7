package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/results"
)

// keep leaves the verdicts on pairs of candidates, by number, that meet.
func keep(m *memory, meet func(i, k int) bool) {
	all := names(30)
	m.pairwise = slices.DeleteFunc(m.pairwise, func(row results.PairwiseRow) bool {
		i, k := slices.Index(all, row.Candidate1), slices.Index(all, row.Candidate2)
		return !meet(min(i, k), max(i, k))
	})
}

// TestOneOpponent: a candidate that met only one other is not called ahead of all through it without a word; if others met
// several, the line of trust says so, too.
func TestOneOpponent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		candidates     int
		meet           func(i, k int) bool
		headline, note string // that there must be; empty: none about opponents
		caution        bool
	}{
		"all": {5, func(int, int) bool { return true }, "", "", false},
		"two": {2, func(int, int) bool { return true }, "", "", false},
		"the first met one": {5, func(i, k int) bool { return i > 0 || k == 1 }, "; it was compared with “candidate-0001” alone.",
			"“candidate-0000” was compared with “candidate-0001” alone: how it compares with all others follows from that.", true},
		"the last met one": {5, func(i, k int) bool { return k < 4 || i == 3 }, "",
			"“candidate-0004” was compared with “candidate-0003” alone: how it compares with all others follows from that.", false},
		"two met one each": {5, func(i, k int) bool { return i > 0 && k < 4 || i == 0 && k == 1 || i == 3 && k == 4 },
			"; it was compared with “candidate-0001” alone.", "“candidate-0000” and “candidate-0004” were compared with one other " +
				"candidate each: how they compare with all others follows from that.", true},
		"a baseline": {5, func(i, k int) bool { return i == 1 || k == 1 }, "; it was compared with “candidate-0001” alone.",
			"All others were compared with “candidate-0001” alone: how they compare with each other follows from that.", false},
	} {
		good := simulated{reads: 3}
		m := world{candidates: tt.candidates, items: 60, spread: 8, judges: []simulated{good, good}, change: func(m *memory) { keep(m, tt.meet) }}.build(1)
		r := built(t, m, Options{Draws: 50})
		headline, notes, trust := r.Headline(), strings.Join(r.Notes(), "\n"), r.Reliance().String()
		if !r.ahead() || strings.Contains(headline, "compared with") != (tt.headline != "") || !strings.Contains(headline, tt.headline) {
			t.Errorf("%s: headline %q", name, headline)
		}
		if strings.Contains(notes, "compared with") != (tt.note != "") || !strings.Contains(notes, tt.note) {
			t.Errorf("%s: notes %s", name, notes)
		}
		if got := strings.Contains(trust, "“candidate-0000” was compared with “candidate-0001” alone"); got != tt.caution || got && r.Reliance().Level != Caution {
			t.Errorf("%s: trust is %s", name, trust)
		}
	}
}
