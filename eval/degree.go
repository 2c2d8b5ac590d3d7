package eval

import "slices"

// MaxDegrees is the highest number of Pairwise.Degrees.
const MaxDegrees = 3

// Equal is what a judge says instead of a degree if neither text is better.
const Equal = "equal"

// DegreeWords returns the names of a number of degrees, the smallest first. A verdict's degree is the position of its
// name, from 1.
func DegreeWords(degrees int) []string {
	if degrees == MaxDegrees {
		return []string{"slightly better", "better", "much better"}
	}
	return []string{"better", "much better"}
}

// DegreeOf returns the degree with a name among a number of degrees; 0: it has none.
func DegreeOf(name string, degrees int) int { return slices.Index(DegreeWords(degrees), name) + 1 }

// DegreesAbove returns how many degrees a verdict has above the first: 0 for one without degrees, too.
func DegreesAbove(degree int) int { return max(degree-1, 0) }

// DegreeWord returns the name of a degree among a number of degrees; empty if there is none.
func DegreeWord(degree, degrees int) string {
	if words := DegreeWords(degrees); degrees > 1 && degree > 0 && degree <= len(words) {
		return words[degree-1]
	}
	return ""
}
