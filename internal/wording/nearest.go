package wording

import (
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest is the known word that word was probably meant to be, or "" when none
// is near.
func Nearest(word string, known []string) string {
	const longest = 100 // comparing takes the third power of the length
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

// edits counts the letters to add, drop or replace that make one word of the
// other. Two neighbours that changed places once are one edit.
func edits(word, other string) int {
	least := smetrics.WagnerFischer(word, other, 1, 1, 1)
	for i := 1; i < len(word); i++ {
		swapped := word[:i-1] + word[i:i+1] + word[i-1:i] + word[i+1:]
		least = min(least, 1+smetrics.WagnerFischer(swapped, other, 1, 1, 1))
	}
	return least
}
