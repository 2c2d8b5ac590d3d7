package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// scalar returns the text of a scalar as written; ok is false for other nodes.
func scalar(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// text reads a string that is not empty. A number is taken as written.
func (y *yamlFile) text(v value) string {
	s := y.word(v)
	y.lookForComment(v, s)
	return s
}

// word reads what text reads, but does not look at the comment after the value, which may be
// secret.
func (y *yamlFile) word(v value) string {
	if _, isBool := v.node.(*ast.BoolNode); !isBool {
		if s, ok := scalar(v.node); ok && s != "" {
			return s
		}
	}
	y.mismatch(v, "text")
	return ""
}

// integer reads a whole number within bounds.
func (y *yamlFile) integer(v value, low, high int) int {
	if n, ok := v.node.(*ast.IntegerNode); ok {
		if word := n.GetToken().Value; len(word) > 1 && word[0] == '0' && strings.Trim(word, "0123456789") == "" {
			y.refuse(v.place, "write "+cmp.Or(strings.TrimLeft(word, "0"), "0"), "%s begins with 0, and would be read as an octal number", word)
			return low
		}
		switch i := n.Value.(type) {
		case int64:
			if i >= int64(low) && i <= int64(high) {
				return int(i)
			}
		case uint64:
			if i <= math.MaxInt && int(i) >= low && int(i) <= high {
				return int(i)
			}
		}
	}

	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	if high == math.MaxInt32 {
		want = fmt.Sprintf("a whole number of at least %d", low)
	}
	if text, ok := v.node.(*ast.StringNode); ok {
		if hint := numberHint(text.Value); hint != "" {
			want += "; write " + hint
		}
	}

	y.mismatch(v, want)
	return low
}

// number reads a finite number, at least low.
func (y *yamlFile) number(v value, low float64, want string) float64 {
	if f, ok := number(v.node); ok && f >= low {
		return f
	}
	y.mismatch(v, want)
	return low
}

func number(n ast.Node) (float64, bool) {
	switch x := n.(type) {
	case *ast.FloatNode:
		return x.Value, !math.IsInf(x.Value, 0) && !math.IsNaN(x.Value)
	case *ast.IntegerNode:
		switch i := x.Value.(type) {
		case int64:
			return float64(i), true
		case uint64:
			return float64(i), true
		}
	}
	return 0, false
}

// boolean reads true or false.
func (y *yamlFile) boolean(v value) bool {
	if b, ok := v.node.(*ast.BoolNode); ok {
		return b.Value
	}
	y.mismatch(v, "true or false")
	return false
}

// duration reads a length of time with its unit: 500ms, 1.5s, 2m.
func (y *yamlFile) duration(v value, low time.Duration) time.Duration {
	word, _ := scalar(v.node)
	if length, err := time.ParseDuration(word); err == nil && length >= low && length <= record.LongestTime {
		return length
	}
	want := "a time with its unit, for example 1.5s"
	if _, isNumber := number(v.node); isNumber {
		want = fmt.Sprintf("a time with its unit: %ss for seconds, %sms for milliseconds", word, word)
	} else if low > 0 {
		want += fmt.Sprintf(", at least %s", low)
	}
	y.mismatch(v, want)
	return low
}

// milliseconds reads a length of time given as a whole number of milliseconds.
func (y *yamlFile) milliseconds(v value) time.Duration {
	return time.Duration(y.integer(v, 0, math.MaxInt32)) * time.Millisecond
}

// seconds reads a length of time given as a number of seconds, above 0.
func (y *yamlFile) seconds(v value) time.Duration {
	if f, ok := number(v.node); ok {
		if length, ok := secondsToDuration(f); ok && length > 0 {
			return length
		}
	}
	y.mismatch(v, "a number of seconds above 0")
	return time.Second
}

// secondsToDuration converts seconds to a time.Duration, rounded to the nanosecond. ok is false for
// negative values, and for those above record.LongestTime.
func secondsToDuration(f float64) (time.Duration, bool) {
	if math.IsNaN(f) || f < 0 || f > record.LongestTime.Seconds() {
		return 0, false
	}
	return time.Duration(math.Round(f * float64(time.Second))), true
}

// aheadOfUTC is how far the clocks of the easternmost places are ahead of UTC.
const aheadOfUTC = 14 * time.Hour

// day reads a day, year-month-day, that has begun somewhere.
func (y *yamlFile) day(v value) string {
	word, _ := scalar(v.node)
	at, err := time.Parse(time.DateOnly, word)
	switch {
	case err != nil:
		y.mismatch(v, "a day as year-month-day, for example "+y.clock().UTC().Format(time.DateOnly))
	case at.After(y.clock().UTC().Add(aheadOfUTC)):
		y.refuse(v.place, "want today or an earlier day", "%s is in the future", word)
	}
	return word
}

func (y *yamlFile) oneOf(v value, words []string) string {
	word, _ := scalar(v.node)
	if slices.Contains(words, word) {
		return word
	}
	want := strings.Join(words, ", ")
	if near := wording.Nearest(strings.ToLower(word), words); near != "" {
		want += "; did you mean " + near + "?"
	}
	y.mismatch(v, want)
	return words[0]
}

// maxExact is the largest integer that every JSON reader keeps exactly.
const maxExact = 1 << 53

// free reads a value of any shape that JSON has. budget bounds how many values are read, so that
// aliases of aliases end.
func (y *yamlFile) free(v value, budget *int) any {
	*budget--
	if *budget < 0 {
		if *budget == -1 {
			y.refuse(v.place, "", "too many values")
		}
		return nil
	}

	switch x := v.node.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return x.Value
	case *ast.SequenceNode:
		all := []any{}
		y.list(v, func(child value) { all = append(all, y.free(child, budget)) })
		return all
	case *ast.MappingNode, *ast.MappingValueNode:
		all := map[string]any{}
		y.entries(v, func(key string, child value) { all[key] = y.free(child, budget) })
		return all
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		f, ok := number(v.node)
		if _, isInteger := x.(*ast.IntegerNode); !ok || isInteger && math.Abs(f) > maxExact {
			y.refuse(v.place, "write it in quotes if it is text", "%s is a number that JSON cannot hold exactly", describe(v.node))
			return nil
		}
		return f
	}

	if s, ok := scalar(v.node); ok {
		return s
	}
	y.mismatch(v, "text, a number, a list or a mapping")
	return nil
}

// parseSeconds reads the seconds of an environment variable, such as RETRY_MAX_DELAY.
func parseSeconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil {
		return 0, false
	}
	return secondsToDuration(f)
}
