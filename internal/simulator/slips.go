package simulator

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reading is a judge's view of a text: how many words it has, and how many slips that show without
// knowing the language. A slip is a repeated word or sentence, a sentence without a capital, a
// misplaced comma or full stop, or a paragraph without an end. Of a text with pictures, only their pixels count.
type reading struct{ words, slips, pixels int }

const (
	// shortText is the number of words below which one slip would weigh too much.
	shortText = 40
	// halfRate is the number of slips per 100 words that halves the quality.
	halfRate = 2.0
	// mediumPicture is the number of pixels of a picture of quality 50: more are better.
	mediumPicture = 640 * 480
)

// quality returns a number from 0, for a text without words, to 100, for one without slips. It
// depends on the rate of slips, so that length changes nothing.
func (r reading) quality() float64 {
	switch {
	case r.pixels > 0:
		return 100 - 100/(1+float64(r.pixels)/mediumPicture)
	case r.words == 0:
		return 0
	}
	rate := 100 * float64(r.slips) / float64(max(r.words, shortText))
	return 100 / (1 + rate/halfRate)
}

var (
	notProse    = regexp.MustCompile("^(?:#{1,6}\\s|```|[-*+•]\\s|\\d+[.)]\\s)")
	sentenceEnd = regexp.MustCompile(`[.!?…]["'”’)*_]*\s+`)
	proseEnd    = regexp.MustCompile(`[.!?…:]["'”’)*_]*$`)
	misplaced   = regexp.MustCompile(`\s[,;]|\s[.:!?](?:\s|$)|[,;]\pL`)
)

// read counts a text's words and slips. A repeated sentence counts as a slip and adds no words, so
// that repeating clean text does not dilute the slips of the rest.
func read(text string) (r reading) {
	if r.pixels, _ = pixels(text); r.pixels > 0 {
		return r
	}

	said := map[string]bool{}
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		paragraph = strings.TrimSpace(paragraph)
		if paragraph == "" || notProse.MatchString(paragraph) {
			r.words += len(strings.Fields(paragraph))
			continue
		}
		if !proseEnd.MatchString(paragraph) {
			r.slips++
		}
		for paragraph != "" {
			sentence, end := paragraph, len(paragraph)
			if mark := sentenceEnd.FindStringIndex(paragraph); mark != nil {
				sentence, end = paragraph[:mark[1]], mark[1]
			}
			r.sentence(strings.TrimSpace(sentence), said)
			paragraph = paragraph[end:]
		}
	}
	return r
}

func (r *reading) sentence(s string, said map[string]bool) {
	words := strings.Fields(strings.ToLower(s))
	key := strings.Join(words, " ")
	if said[key] && len(words) > 2 {
		r.slips++
		return
	}
	said[key] = true
	r.words += len(words)
	r.slips += len(misplaced.FindAllStringIndex(s, -1))
	if first, _ := utf8.DecodeRuneInString(s); unicode.IsLower(first) {
		r.slips++
	}
	for i, word := range words[1:] {
		word = strings.TrimRight(word, ".,;:!?…")
		if word == words[i] && word != "that" && word != "had" { // these two can be right
			r.slips++
		}
	}
}
