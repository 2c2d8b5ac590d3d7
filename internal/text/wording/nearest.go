package wording

import (
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest returns the known word that was probably meant, or "" if none is similar enough.
func Nearest(word string, known []string) string {
	const longest = 100 // comparing takes time in the third power of the length
	if len(word) > longest {
		return ""
	}
	best, distance := "", 1+len(word)/3 // one letter in three may be wrong
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if max(len(word)-len(candidate), len(candidate)-len(word)) >= distance {
			continue
		}
		if d := edits(strings.ToLower(word), strings.ToLower(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// edits returns the number of letters to insert, delete or replace to turn one word into the other. Swapping two
// neighbouring letters counts as one edit, once.
func edits(word, other string) int {
	least := smetrics.WagnerFischer(word, other, 1, 1, 1)
	for i := 1; i < len(word); i++ {
		swapped := word[:i-1] + word[i:i+1] + word[i-1:i] + word[i+1:]
		least = min(least, 1+smetrics.WagnerFischer(swapped, other, 1, 1, 1))
	}
	return least
}
