package simulator

import (
	"regexp"
	"strings"
)

// kind is a kind of fault that a judge sees in a text.
type kind int

const (
	misspelt kind = iota
	doubled
	ungrammatical
	uncapitalised
	mispunctuated
	broken
	filler
	repeated
	shapeless
	kinds
)

// judged is how a judge describes each kind of fault and its weight.
var judged = [kinds]struct {
	name   string
	weight float64
}{
	misspelt:      {"misspelt words", 2},
	doubled:       {"words written twice", 2},
	ungrammatical: {"slips of grammar", 2.5},
	uncapitalised: {"sentences without a capital", 1.5},
	mispunctuated: {"faults of punctuation", 1},
	broken:        {"broken or endless sentences", 3},
	filler:        {"empty phrases", 1.5},
	repeated:      {"sentences said twice", 3},
	shapeless:     {"faults of structure", 4},
}

// reading is what a judge found in a text.
type reading struct {
	faults [kinds]int
	words  int // of sentences said for the first time
}

const (
	// shortText: below so many words one fault would weigh beyond reason.
	shortText = 40
	// A sentence or paragraph longer than this counts as a fault, and as another
	// for each further so many words.
	longSentence  = 55
	longParagraph = 200
	// halfPoints is how many weighted faults in 100 words halve the quality.
	halfPoints = 8.0
)

// rate is the weighted faults of a kind in 100 words.
func (r reading) rate(k kind) float64 {
	return 100 * float64(r.faults[k]) * judged[k].weight / float64(max(r.words, shortText))
}

// quality is between 0, a text without words, and 100, one without faults. Each
// further fault lowers it. It is a rate, so that length changes nothing.
func (r reading) quality() float64 {
	if r.words == 0 {
		return 0
	}
	points := 0.0
	for k := range kinds {
		points += r.rate(k)
	}
	return 100 / (1 + points/halfPoints)
}

// read counts a text's faults. A sentence said before counts as a repetition and
// is otherwise passed over, so that clean text said twice does not dilute the
// faults of the rest.
func read(text string) reading {
	var r reading
	said := map[string]bool{}
	first, opening := true, ""
	for _, paragraph := range paragraphs(text) {
		length := 0
		for _, s := range paragraph {
			key := s.key()
			if said[key] && len(s.words) >= 3 {
				r.faults[repeated]++
				continue
			}
			said[key] = true
			r.words += len(s.words)
			length += len(s.words)
			r.readWords(s)
			r.readSentence(s)

			word := s.words[0].lower
			if connectives[word] && (first || word == opening) {
				r.faults[shapeless]++ // ties up with nothing, or with a string of "then … then …"
			}
			first, opening = false, word
		}
		r.faults[shapeless] += length / longParagraph
	}
	return r
}

func (s sentence) key() string {
	lower := make([]string, len(s.words))
	for i, w := range s.words {
		lower[i] = w.lower
	}
	return strings.Join(lower, " ")
}

func (r *reading) readWords(s sentence) {
	for i, w := range s.words {
		name := i > 0 && w.capital()
		if !name && english().misspelt(w.lower) {
			r.faults[misspelt]++
		}
		if w.text == "i" {
			r.faults[ungrammatical]++
		}
		if i+1 == len(s.words) || !w.adjoins() {
			continue
		}
		next := s.words[i+1].lower
		switch {
		case w.lower == next && next != "that" && next != "had": // "that that" and "had had" can be right
			r.faults[doubled]++
		case slip(w.lower, next):
			r.faults[ungrammatical]++
		}
	}
}

var badMarks = regexp.MustCompile(`\s[,;:!?]|\s\.(?:\s|$)|[,;]\pL|[,;]{2}|(?:^|[^.])\.\.(?:[^.]|$)`)

func (r *reading) readSentence(s sentence) {
	first, last := s.words[0], s.words[len(s.words)-1]
	if !s.item {
		if !first.capital() && strings.HasPrefix(strings.TrimLeft(s.text, `"'“‘(*_[`), first.text[:1]) {
			r.faults[uncapitalised]++
		}
		if !s.ended && len(s.words) > 3 && !strings.HasSuffix(s.text, ":") {
			r.faults[broken]++
		}
	}
	if s.ended && dangling[last.lower] {
		r.faults[broken]++
	}
	r.faults[broken] += len(s.words) / longSentence
	r.faults[mispunctuated] += len(badMarks.FindAllString(s.text, -1))
	spoken := " " + s.key() + " "
	for _, phrase := range fillers {
		r.faults[filler] += strings.Count(spoken, phrase)
	}
}
