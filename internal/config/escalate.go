package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// defaultShare is the share of the uncontested pairs that a strong judge sees.
const defaultShare = 0.2

// escalate reads {to: provider:model, when: [disagree, flip, close], share: 20 %}.
func (s *draft) escalate(y *yamlFile, v value) {
	s.asked.Escalate, s.escalateAt = &eval.Escalate{Share: defaultShare}, v.key
	named := false
	y.mapping(v, keys{
		"to": func(v value) {
			named = true
			s.strong, s.strongAt, _ = y.judge(v, s)
		},
		"when":  func(v value) { s.asked.Escalate.When = y.doubts(v) },
		"share": func(v value) { s.asked.Escalate.Share = y.sampled(v) },
	})
	if !named {
		s.refuse(v.key, "add to: provider:model", "escalate names no judge that sees the contested pairs")
	}
}

// doubts reads one doubt or a list of them.
func (y *yamlFile) doubts(v value) []eval.Doubt {
	words := make([]string, 0, len(eval.Doubts()))
	for _, doubt := range eval.Doubts() {
		words = append(words, string(doubt))
	}
	said := map[eval.Doubt]bool{}
	one := func(v value) { said[eval.Doubt(y.oneOf(v, words))] = true }
	if _, isWord := scalar(v.node); isWord {
		one(v)
	} else if y.list(v, one); isEmptyList(v.node) {
		y.refuse(v.place, "want "+strings.Join(words, ", ")+", or a list of them", "no pair would be contested")
	}
	return slices.DeleteFunc(eval.Doubts(), func(d eval.Doubt) bool { return !said[d] })
}

// sampled reads a share as a percentage, or as a number up to 1.
func (y *yamlFile) sampled(v value) float64 {
	word, _ := scalar(v.node)
	text, percent := strings.CutSuffix(strings.TrimSpace(word), "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		share /= 100
	}
	switch {
	case err != nil:
		y.mismatch(v, "a share of the pairs, for example 20 %")
	case share == 0:
		y.refuse(v.place, "want for example 20 %",
			"without a sample of the pairs that are not contested, nothing would show how the strong judge differs there")
	case !(share > 0 && share <= 1):
		y.refuse(v.place, "want above 0 % and at most 100 %, for example 20 %", "%q is not a share of the pairs", word)
	default:
		return share
	}
	return defaultShare
}

// addStrong adds the judge of escalate to the judges, and refuses escalate where it cannot be combined with the rest.
func (s *draft) addStrong() {
	how, e := s.asked.Escalate, &s.asked
	if how == nil {
		return
	}
	refuse := func(fix, format string, args ...any) { s.refuse(s.escalateAt, fix, "escalate "+format, args...) }
	switch {
	case e.Pairwise == nil:
		refuse("add pairwise: {pairs: all}", "needs pairwise comparisons, but there are none")
		return
	case len(e.Judges) == 0 || s.strong.Provider == "":
		return // which is refused already
	case e.Pairwise.Pairs.Mode == eval.PairsSwiss:
		refuse("use pairs: all or sample:0.4", "cannot be combined with pairs: swiss, where the verdicts so far choose the pairs")
	case e.Pairwise.TopN > 0:
		refuse("leave top_n out", "cannot be combined with top_n")
	case s.settings.Until != nil:
		refuse("leave until out", "cannot be combined with until, which ends before all pairs are judged")
	}

	if len(how.When) == 0 {
		how.When = slices.DeleteFunc(eval.Doubts(), func(d eval.Doubt) bool { return s.impossible(d) != "" })
	}
	for _, doubt := range how.When {
		if why := s.impossible(doubt); why != "" {
			refuse("", "when: %s %s", doubt, why)
		}
	}
	e.Judges, s.judgesAt = append(slices.Clip(e.Judges), s.strong), append(slices.Clip(s.judgesAt), s.strongAt)
}

// impossible returns why no pair can be contested for a reason; empty: it can.
func (s *draft) impossible(doubt eval.Doubt) string {
	switch {
	case doubt == eval.DoubtDisagree && len(s.asked.Judges) < 2:
		return "needs two judges under judges; use flip or close"
	case doubt == eval.DoubtFlip && s.asked.Pairwise.Order != eval.OrderBoth:
		return "needs pairs in both orders; set order: both"
	}
	return ""
}
