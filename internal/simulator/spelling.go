package simulator

import (
	_ "embed"
	"strings"
	"sync"
)

// words.txt holds common English words in their base form; inflected,
// prefixed and compound forms are derived.
//
//go:embed words.txt
var wordList string

// dictionary knows words, and which three letters may follow each other in
// them.
type dictionary struct {
	words     map[string]bool
	sequences map[string]bool // of three letters, with ^ before and $ after a word
}

var english = sync.OnceValue(func() *dictionary {
	d := &dictionary{words: set(wordList), sequences: map[string]bool{}}
	for w := range d.words {
		for _, ending := range []string{"", "s", "ed", "ing", "er", "ly", "est", "ness"} {
			for _, sequence := range sequences(w + ending) {
				d.sequences[sequence] = true
			}
		}
	}
	return d
})

func sequences(w string) []string {
	marked := "^" + w + "$"
	out := make([]string, 0, len(w))
	for i := 0; i+3 <= len(marked); i++ {
		out = append(out, marked[i:i+3])
	}
	return out
}

// misspelt judges a lower-case word. A word that is not known, nor derived from
// a known one, is misspelt when it lies one slip of the pen from a known word or
// has letters in an order that English has not. Names and rare words that look
// like English pass.
func (d *dictionary) misspelt(w string) bool {
	if len(w) < 3 || !plain(w) || d.known(w, 2) || d.compound(w) {
		return false
	}
	for _, sequence := range sequences(w) {
		if !d.sequences[sequence] {
			return true
		}
	}
	return d.nearMiss(w)
}

// plain: only the letters of the dictionary, so that foreign words are left
// alone.
func plain(w string) bool {
	return !strings.ContainsFunc(w, func(r rune) bool { return (r < 'a' || r > 'z') && r != '\'' })
}

// endings and their replacements in the base form.
var endings = []struct{ ending, base string }{
	{"'s", ""},
	{"s'", "s"},
	{"s", ""},
	{"es", ""},
	{"ies", "y"},
	{"ves", "f"},
	{"ves", "fe"},
	{"d", ""},
	{"ed", ""},
	{"ied", "y"},
	{"ing", ""},
	{"ing", "e"},
	{"ying", "ie"},
	{"er", ""},
	{"r", ""},
	{"ier", "y"},
	{"or", "e"},
	{"or", ""},
	{"est", ""},
	{"st", ""},
	{"iest", "y"},
	{"ly", ""},
	{"y", "e"},
	{"y", ""},
	{"ily", "y"},
	{"ally", ""},
	{"ness", ""},
	{"iness", "y"},
	{"less", ""},
	{"ful", ""},
	{"ment", ""},
	{"able", ""},
	{"able", "e"},
	{"ability", "able"},
	{"al", ""},
	{"ion", ""},
	{"ion", "e"},
	{"ation", "e"},
	{"ation", ""},
	{"ity", ""},
	{"ity", "e"},
	{"ive", ""},
	{"ive", "e"},
	{"ist", ""},
	{"ism", ""},
	{"ous", ""},
	{"ship", ""},
	{"ward", ""},
	{"wise", ""},
	{"ize", "ise"},
	{"ized", "ise"},
	{"izing", "ise"},
	{"ization", "isation"},
	{"or", "our"},
	{"er", "re"},
}

var prefixes = []string{"un", "re", "dis", "in", "im", "over", "out", "under", "mis", "non", "pre", "inter", "semi", "anti", "sub"}

// known reports whether w is a listed word with at most depth endings and
// prefixes.
func (d *dictionary) known(w string, depth int) bool {
	if d.words[w] {
		return true
	}
	if depth == 0 {
		return false
	}
	for _, e := range endings {
		stem, ok := strings.CutSuffix(w, e.ending)
		if !ok || len(stem) < 2 {
			continue
		}
		if d.known(stem+e.base, depth-1) {
			return true
		}
		n := len(stem)
		doubled := n > 3 && stem[n-1] == stem[n-2] && (e.ending == "ing" || e.ending == "ed" || e.ending == "er" || e.ending == "est")
		if doubled && d.words[stem[:n-1]] {
			return true
		}
	}
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(w, prefix); ok && len(rest) > 3 && d.known(rest, depth-1) {
			return true
		}
	}
	return false
}

// compound: two listed words in one, as in footpath.
func (d *dictionary) compound(w string) bool {
	for i := 3; i+3 <= len(w); i++ {
		if d.words[w[:i]] && d.known(w[i:], 1) {
			return true
		}
	}
	return false
}

const vowels = "aeiouy"

// nearMiss: two neighbouring letters exchanged, a letter too many or too few, or
// one vowel for another, makes a known word of it. Short words have too many
// neighbours for all but the first.
func (d *dictionary) nearMiss(w string) bool {
	for i := 0; i+1 < len(w); i++ {
		if d.known(w[:i]+w[i+1:i+2]+w[i:i+1]+w[i+2:], 1) {
			return true
		}
	}
	if len(w) < 5 {
		return false
	}
	for i := range len(w) {
		if d.known(w[:i]+w[i+1:], 1) {
			return true
		}
		for c := byte('a'); c <= 'z'; c++ {
			letter := string(c)
			if d.known(w[:i]+letter+w[i:], 1) {
				return true
			}
			if strings.Contains(vowels, letter) && strings.Contains(vowels, w[i:i+1]) && d.known(w[:i]+letter+w[i+1:], 1) {
				return true
			}
		}
	}
	return false
}
