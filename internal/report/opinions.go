package report

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

const (
	opinionsKept = 12  // of each candidate
	opinionsTold = 12  // in text, over all candidates
	opinionRunes = 200 // of each opinion in text
)

// opinion is the argument with which an agent gave a document its score on a dimension.
type opinion struct {
	Run, Document, Agent, Dimension string
	Score                           string
	Text                            string // clipped to reasonRunes

	order [2]int // by dimension and agent
	lot   uint64
}

// sample adds an opinion to the candidate's sample. Each opinion has a pseudo-random number that depends on its run
// alone, and the opinionsKept opinions with the smallest numbers stay.
func (p *Panel) sample(candidate int, row results.PanelRow) {
	kept := p.opinions[candidate]
	lot := rand.NewPCG(uint64(row.Phase), uint64(row.Index)).Uint64()
	at, _ := slices.BinarySearchFunc(kept, lot, func(o opinion, lot uint64) int { return cmp.Compare(o.lot, lot) })
	if at >= opinionsKept {
		return
	}
	kept = slices.Insert(kept, at, opinion{
		Run: fmt.Sprintf("%d.%d", row.Phase, row.Index), Document: row.Document, Agent: row.Agent, Dimension: row.Dimension,
		Score: wording.Plain(*row.Score), Text: wording.Clip(row.Argument, reasonRunes),
		order: [2]int{p.dimension[row.Dimension], p.agent[row.Agent]}, lot: lot,
	})
	p.opinions[candidate] = kept[:min(len(kept), opinionsKept)]
}

type panelSaid struct {
	Name, Mean string
	Opinions   []opinion
}

// opinionsOf returns a candidate's opinions, ordered by dimension, agent and document.
func (p *Panel) opinionsOf(candidate int) []opinion {
	all := slices.Clone(p.opinions[candidate])
	slices.SortStableFunc(all, func(a, b opinion) int {
		return cmp.Or(cmp.Compare(a.order[0], b.order[0]), cmp.Compare(a.order[1], b.order[1]), cmp.Compare(a.Document, b.Document))
	})
	return all
}

// byPanel returns the candidates that the panel scored. They are in the order of the ranking, or best mean first if
// nothing is ranked.
func (r *Report) byPanel() []Ranked {
	overall := func(c Ranked) Score { return r.Panel.candidates[c.Candidate][len(r.Panel.Dimensions)] }
	all := slices.DeleteFunc(r.inOrder(), func(c Ranked) bool { return overall(c).N == 0 })
	if len(r.Groups) == 0 {
		slices.SortStableFunc(all, func(x, y Ranked) int { return cmp.Compare(overall(y).Mean(), overall(x).Mean()) })
	}
	return all
}

func (r *Report) panelHeadline() string {
	planned, _, _, _ := r.runs()
	scored := fmt.Sprintf("%s of %s %s a score.", wording.Count(r.Panel.Scored), wording.Counted(planned, "run"), have(r.Panel.Scored))
	var means []string
	for _, c := range r.byPanel() {
		means = append(means, fmt.Sprintf("%s %.1f", called(c.Name), r.Panel.candidates[c.Candidate][len(r.Panel.Dimensions)].Mean()))
	}
	if len(means) == 0 {
		return scored
	}
	if left := len(means) - headlineNames; left > 0 {
		means = append(means[:headlineNames], wording.Count(left)+" more below")
	}
	said := strings.Join(means, ", ") + ", on a scale of " + scaleWords(r.Evaluation.Plan.Panel.Scale) + "."
	if r.Panel.Scored == planned {
		return said
	}
	return said + " " + scored
}

// panelMeans returns a table of the mean scores of at most `most` candidates, in all and by dimension.
func (r *Report) panelMeans(most int) section {
	p := r.Panel
	dimensions := namedApart(p.Dimensions, func(d PanelDimension) string { return d.ID }, 16)
	t := append(append(lines.Table{{Head: "candidate", Flexible: true}}, lines.Heads("mean")...), lines.Heads(dimensions...)...)
	all := r.byPanel()
	for _, c := range all[:min(most, len(all))] {
		scores := p.candidates[c.Candidate]
		cells := []string{harmless.Line(c.Name), mean(scores[len(scores)-1])}
		for _, s := range scores[:len(scores)-1] {
			cells = append(cells, mean(s))
		}
		t.Add(cells...)
	}
	s := section{title: "Panel: mean score by dimension", table: t}
	if left := len(all) - most; left > 0 {
		s.lines = []string{wording.Counted(left, "more candidate") + " in panel_results.csv."}
	}
	return s
}

// panelSections returns the mean scores of candidates and of agents, and the agents' arguments if they are few.
func (r *Report) panelSections(candidates int) []section {
	sections := []section{r.panelMeans(candidates), r.panelSection()}
	if r.Panel.Scored > opinionsTold {
		return sections
	}
	said := section{title: "Arguments of the panel"}
	for _, c := range r.byPanel() {
		for _, o := range r.Panel.opinionsOf(c.Candidate) {
			said.lines = append(said.lines, fmt.Sprintf("%s, %s, %s: %s. %s", named(o.Document), named(o.Dimension), named(o.Agent), o.Score,
				wording.Clip(harmless.Line(o.Text), opinionRunes)))
		}
	}
	if len(said.lines) > 0 {
		sections = append(sections, said)
	}
	return sections
}
