package report

import "fmt"

// onlyMet returns the candidates of a group that verdicts compare with one other alone, with that one, by number of the
// candidate. Of two candidates it returns none.
func (r *Report) onlyMet(g Group) map[int]int {
	if r.Verdicts == 0 || len(g.Ranked) < 3 {
		return nil
	}
	const several = -1
	only := map[int]int{}
	met := func(i, other int) {
		if before, known := only[i]; known && before != other {
			other = several
		}
		only[i] = other
	}
	for _, tally := range r.tallies {
		for pair := range tally.Cells() {
			met(pair.First, pair.Second)
			met(pair.Second, pair.First)
		}
	}

	out := map[int]int{}
	for _, c := range g.Ranked {
		if other, known := only[c.Candidate]; known && other != several {
			out[c.Candidate] = other
		}
	}
	return out
}

// through names the one candidate that the first one was compared with, in quotation marks; empty if it met several.
func (r *Report) through() string {
	if len(r.Groups) != 1 {
		return ""
	}
	if other, ok := r.onlyMet(r.Groups[0])[r.Groups[0].Ranked[0].Candidate]; ok {
		return called(r.candidates[other])
	}
	return ""
}

// throughWords says what a lead over all others rests on if the first candidate was compared with one alone, as a part of a
// sentence.
func (r *Report) throughWords() string {
	through := r.through()
	if through == "" {
		return ""
	}
	return "; it was compared with " + through + " alone"
}

// throughOne says that the first candidate is called better than all others through one of them alone, although others met
// several. It is empty if it is not, or if each of the others met that one alone, as a baseline.
func (r *Report) throughOne() string {
	through := r.through()
	if through == "" || !r.ahead() {
		return ""
	}
	first, only := r.Groups[0].Ranked[0], r.onlyMet(r.Groups[0])
	if len(only) == len(r.Groups[0].Ranked)-1 {
		return ""
	}
	return called(first.Name) + " was compared with " + through + " alone"
}

// opponentNotes say which candidates were compared with one other alone, so that all else about them follows through it.
func (r *Report) opponentNotes() (notes []string) {
	for _, g := range r.Groups {
		only, hub := r.onlyMet(g), -1
		var names []string
		for _, c := range g.Ranked {
			if other, ok := only[c.Candidate]; ok {
				names, hub = append(names, called(c.Name)), other
			}
		}
		switch {
		case len(names) == 0:
		case len(names) == len(g.Ranked)-1:
			notes = append(notes, fmt.Sprintf(
				"All others were compared with %s alone: how they compare with each other follows from that.", called(r.candidates[hub])))
		case len(names) == 1:
			notes = append(notes, fmt.Sprintf(
				"%s was compared with %s alone: how it compares with all others follows from that.", names[0], called(r.candidates[hub])))
		default:
			notes = append(notes, list(names, headlineNames)+
				" were compared with one other candidate each: how they compare with all others follows from that.")
		}
	}
	return notes
}
