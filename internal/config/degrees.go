package config

import (
	"strconv"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// degrees reads pairwise.scale: how many different verdicts there are. If their number is odd, the one in the middle is
// a tie, so the scale decides about ties. scale and ties are nil if the file omits them.
func (y *yamlFile) degrees(pairwise *eval.Pairwise, scale, ties *value) {
	if scale == nil {
		return
	}
	const most = 2*eval.MaxDegrees + 1
	word, ok := scalar(scale.node)
	n, err := strconv.Atoi(word)
	if !ok || err != nil || n < 2 || n > most {
		y.refuse(scale.place, "want 5 (much better, better, tie, better, much better), or 3 for a winner and ties; "+
			"4 and 2 are without ties, 7 and 6 have one more degree", "not a number of verdicts")
		return
	}

	hasTie := n%2 == 1
	if ties != nil && pairwise.Ties != hasTie {
		other := n + 1
		if n == most {
			other = n - 1
		}
		y.refuse(ties.place, "omit ties, or set scale: "+strconv.Itoa(other), "ties: %t contradicts scale: %d, which %s",
			pairwise.Ties, n, map[bool]string{true: "has a tie in the middle", false: "has no tie"}[hasTie])
	}
	pairwise.Ties = hasTie
	if pairwise.Degrees = n / 2; pairwise.Degrees == 1 {
		pairwise.Degrees = 0 // the same question as without a scale
	}
}

// criteriaShown requires that a template of comparisons, written at template or built in (nil), shows the criteria that
// judges are asked about, and no others.
func (s *draft) criteriaShown(pairwise *eval.Pairwise, template *value) {
	switch shows := prompt.Shows(pairwise.Template, "criteria"); {
	case template == nil || pairwise.Template == "":
	case len(pairwise.Criteria) > 0 && !shows:
		s.refuse(template.place, "add a line with [[criteria]] to it", "the template does not show the criteria of pairwise")
	case len(pairwise.Criteria) == 0 && shows:
		s.refuse(template.place, "add criteria, for example criteria: [accuracy, style], or write what counts into the template",
			"the template shows [[criteria]], but pairwise has none")
	}
}
