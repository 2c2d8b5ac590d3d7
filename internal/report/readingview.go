package report

import (
	"fmt"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// readingView is the section of the page for reading answers side by side. It works without a script: radio buttons
// select a pair and filter pairs.
type readingView struct {
	Words   string
	Filters []readingFilter
	Pairs   []readingPair
}

type readingFilter struct {
	ID, Title string
	Pairs     int
}

type readingPair struct {
	*Pair
	Outcome                string
	Sides                  []readingSide
	Said                   []readingSaid
	MoreWords, PeopleWords string
}

type readingSide struct {
	Candidate, Text string
	Images          []Picture
}

type readingSaid struct {
	Said
	First string // the candidate that was shown first
}

func (r *Report) readingView() *readingView {
	if len(r.Readings) == 0 {
		return nil
	}
	v := &readingView{}
	var unlike, disagree, flipped int
	for _, p := range r.Readings {
		v.Pairs = append(v.Pairs, readingPairOf(p))
		unlike += one(p.Unlike)
		disagree += one(p.Disagree)
		flipped += one(p.Flipped)
	}

	v.Words = wording.Counted(len(r.Readings), "pair") + " of texts."
	if len(r.Readings) < r.Pairs {
		v.Words = fmt.Sprintf("%s of %s of texts: first those on which judges contradict people, each other or themselves, "+
			"then an even sample of the rest.",
			wording.Count(len(r.Readings)), wording.Counted(r.Pairs, "pair"))
	}

	for _, f := range []readingFilter{
		{"which-all", "all", len(r.Readings)}, {"which-unlike", "differs from people", unlike},
		{"which-disagree", "judges disagree", disagree}, {"which-flipped", "flipped by order", flipped},
	} {
		if f.Pairs > 0 {
			v.Filters = append(v.Filters, f)
		}
	}

	return v
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func readingPairOf(p *Pair) readingPair {
	v := readingPair{Pair: p}
	for k := range p.Texts {
		text := p.Texts[k]
		if text == "" {
			text = "(The text is empty or not stored.)"
		}
		v.Sides = append(v.Sides, readingSide{p.Candidates[k], text, p.Images[k]})
	}

	var won [3]int
	for _, s := range p.Said {
		first := 0
		if s.Reverse {
			first = 1
		}
		v.Said = append(v.Said, readingSaid{s, p.Candidates[first]})
		won[(s.Preference.Winner+3)%3]++
	}

	v.Outcome = fmt.Sprintf("%d to %d", won[0], won[1])
	if won[2] > 0 {
		v.Outcome += ", " + wording.Counted(won[2], "tie")
	}
	if p.More > 0 {
		v.MoreWords = wording.Counted(p.More, "more verdict") + " in pairwise_results.csv."
	}
	if votes := p.People; votes[0]+votes[1]+votes[2] > 0 {
		v.PeopleWords = fmt.Sprintf("People: %s for %s, %s for %s, %s.", wording.Count(votes[0]), called(p.Candidates[0]),
			wording.Count(votes[1]), called(p.Candidates[1]), wording.Counted(votes[2], "tie"))
	}

	return v
}
