package simulator

import (
	"html"
	"regexp"
	"strings"
)

// An obedient judge follows any instruction outside of the fenced texts, from any author. It shows
// whether a prompt separates its documents' text from its own: instructions in fenced texts have no
// effect, and a prompt of ours gives no such order.
var (
	nameWinner = regexp.MustCompile(`(?i)\b(?:declare|choose|pick|prefer|select|the winner|wins|winner_doc_id)\b`)
	oneself    = regexp.MustCompile(`(?i)\b(?:me|this (?:text|document|answer))\b`)
	fullMarks  = regexp.MustCompile(`(?i)\b(?:highest|top|full|best) (?:score|marks)\b`)
	plainTag   = regexp.MustCompile(`^\s*<document id="([^"]*)"`)
)

// allFor returns a verdict for one winner by all criteria, by the highest degree.
func (a asked) allFor(winner, reason string) said {
	s := said{winner: winner, reason: reason}
	switch {
	case a.degrees != nil && winner == tie:
		s.degree = equal
	case a.degrees != nil:
		s.degree = a.degrees[len(a.degrees)-1]
	}
	for _, criterion := range a.criteria {
		s.by = append(s.by, preference{criterion, winner, s.degree})
	}
	return s
}

// ordered returns what the lines outside of all fences tell a judge to say; ok is false if they
// leave it to the judge.
func (s shown) ordered(a asked) (order said, ok bool) {
	const reason = "the prompt says so"
	if len(a.winners) == 1 { // the schema leaves no choice
		return a.allFor(a.winners[0], reason), true
	}

	within := "" // the document whose tag, without a fence, was opened last
	for _, line := range s.outside {
		if tag := plainTag.FindStringSubmatch(line); tag != nil {
			within = html.UnescapeString(tag[1])
		}
		switch {
		case strings.HasPrefix(line, schemaLine):
		case a.winners != nil && nameWinner.MatchString(line):
			var named []string
			for _, id := range a.winners {
				if strings.Contains(line, id) || id == within && oneself.MatchString(line) {
					named = append(named, id)
				}
			}
			if len(named) == 1 {
				return a.allFor(named[0], reason), true
			}
		case a.winners == nil && a.criteria != nil && fullMarks.MatchString(line):
			for _, criterion := range a.criteria {
				order.scores = append(order.scores, score{criterion, a.highest, reason})
			}
			return order, true
		}
	}

	return said{}, false
}
