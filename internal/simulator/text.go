package simulator

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A sentence is a stretch of a paragraph up to an end mark.
type sentence struct {
	text  string
	words []word
	ended bool // by an end mark
	item  bool // is in a list, where capitals and end marks are free
}

// A word is a run of letters and apostrophes.
type word struct {
	text  string // as written
	lower string
	gap   string // the text between it and the next word
}

var (
	heading   = regexp.MustCompile(`^\s{0,3}#{1,6}\s`)
	listMark  = regexp.MustCompile(`^\s*(?:[-*+•]|\d+[.)])\s+`)
	wordShape = regexp.MustCompile(`\pL+(?:['’]\pL+)*`)
	endMark   = regexp.MustCompile(`[.!?…]+["'”’)*_]*(?:\s+|$)`)
)

// abbreviated words end in a dot that ends no sentence.
var abbreviated = set(`mr mrs ms dr prof st e.g i.e etc vs cf no fig approx`)

// paragraphs splits a text into its paragraphs' sentences. Headings and code
// are no prose and are left out.
func paragraphs(text string) [][]sentence {
	var out [][]sentence
	var block strings.Builder
	flush := func(item bool) {
		if sentences := sentencesOf(block.String(), item); len(sentences) > 0 {
			out = append(out, sentences)
		}
		block.Reset()
	}
	code, item := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		switch {
		case fence, code, line == "", heading.MatchString(line):
			flush(item)
			item = false
			continue
		case listMark.MatchString(line):
			flush(item)
			item = true
			line = listMark.ReplaceAllString(line, "")
		}
		block.WriteString(line)
		block.WriteByte(' ')
	}
	flush(item)
	return out
}

func sentencesOf(paragraph string, item bool) []sentence {
	var out []sentence
	start := 0
	add := func(end int, ended bool) {
		if words := wordsOf(paragraph[start:end]); len(words) > 0 {
			out = append(out, sentence{text: strings.TrimSpace(paragraph[start:end]), words: words, ended: ended, item: item})
		}
		start = end
	}
	for _, mark := range endMark.FindAllStringIndex(paragraph, -1) {
		if paragraph[mark[0]] == '.' && isAbbreviated(paragraph[start:mark[0]]) {
			continue
		}
		add(mark[1], true)
	}
	add(len(paragraph), false)
	return out
}

// isAbbreviated looks at the word before a dot: a known abbreviation or an
// initial.
func isAbbreviated(before string) bool {
	last := strings.ToLower(strings.TrimLeft(before[strings.LastIndexByte(before, ' ')+1:], `("'“‘*_`))
	letter, size := utf8.DecodeRuneInString(last)
	initial := size == len(last) && unicode.IsLetter(letter) && letter != 'i' && letter != 'a'
	return initial || abbreviated[last]
}

func wordsOf(text string) []word {
	places := wordShape.FindAllStringIndex(text, -1)
	words := make([]word, len(places))
	for i, place := range places {
		written := strings.ReplaceAll(text[place[0]:place[1]], "’", "'")
		next := len(text)
		if i+1 < len(places) {
			next = places[i+1][0]
		}
		words[i] = word{text: written, lower: strings.ToLower(written), gap: text[place[1]:next]}
	}
	return words
}

// adjoins reports whether there is only space between the word and the next.
func (w word) adjoins() bool { return strings.TrimSpace(w.gap) == "" }

func (w word) capital() bool {
	first, _ := utf8.DecodeRuneInString(w.text)
	return unicode.IsUpper(first)
}

// set makes a lookup of words separated by space.
func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}
