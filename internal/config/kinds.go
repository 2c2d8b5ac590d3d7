package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// single reads the single block.
func (s *draft) single(y *yamlFile, v value) *eval.Single {
	single := &eval.Single{Scale: eval.Scale{Min: 1, Max: 5}, Trials: 1, Template: prompt.DefaultTemplate(eval.KindSingle)}
	criteria := false
	var scale, template *value
	y.mapping(v, keys{
		"criteria": func(v value) { s.criteria(y, v, single); criteria = true },
		"scale":    func(v value) { single.Scale, scale = y.scale(v), &v },
		"trials":   func(v value) { single.Trials = y.integer(v, 1, math.MaxInt32) },
		"template": func(v value) { single.Template, template = s.template(y, v, eval.KindSingle), &v },
	})
	s.fitsRubric(single, scale, template)
	if !criteria {
		s.refuse(v.key, "for example criteria: [factuality, style]", "single has no criteria")
	}
	return single
}

func (y *yamlFile) criteria(v value) []eval.Criterion {
	var all []eval.Criterion
	y.list(v, func(v value) {
		var c eval.Criterion
		at := v.place
		if _, ok := scalar(v.node); ok {
			c.Name = y.called(v)
		} else {
			named := false
			y.mapping(v, keys{
				"name":        func(v value) { c.Name, at, named = y.called(v), v.place, true },
				"description": func(v value) { c.Description = y.text(v) },
			})
			if !named {
				y.refuse(v.place, "add name", "the criterion has no name")
			}
		}
		if c.Name == "" {
			return
		}
		if slices.ContainsFunc(all, func(other eval.Criterion) bool { return other.Name == c.Name }) {
			y.refuse(at, "name each criterion once", "a second criterion called %s", c.Name)
			return
		}
		all = append(all, c)
	})

	if isEmptyList(v.node) {
		y.refuse(v.place, "for example [factuality, style]", "criteria are missing")
	}
	return all
}

// scale reads [min, max].
func (y *yamlFile) scale(v value) eval.Scale {
	var ends []int
	before := len(y.problems)
	y.list(v, func(v value) { ends = append(ends, y.integer(v, -maxScale, maxScale)) })
	if len(y.problems) > before {
		return eval.Scale{}
	}
	if len(ends) != 2 || ends[0] >= ends[1] {
		y.refuse(v.place, "want [lowest, highest], for example [1, 5]", "not a scale")
		return eval.Scale{}
	}
	return eval.Scale{Min: ends[0], Max: ends[1]}
}

const maxScale = 1_000_000

// allPairs returns the default pairwise block, which an empty one selects.
func allPairs() *eval.Pairwise {
	return &eval.Pairwise{
		Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Template: prompt.DefaultTemplate(eval.KindPairwise),
	}
}

// pairwise reads the pairwise block over the documents found.
func (s *draft) pairwise(y *yamlFile, v value, set documentSet) *eval.Pairwise {
	pairwise := allPairs()
	var named, ties, scale, template *value
	y.mapping(v, keys{
		"pairs": func(v value) { pairwise.Pairs, named = y.pairs(v) },
		"order": func(v value) {
			words := []string{string(eval.OrderBoth), string(eval.OrderRandom), string(eval.OrderAsListed)}
			pairwise.Order = eval.Order(y.oneOf(v, words))
		},
		"trials":   func(v value) { pairwise.Trials = y.integer(v, 1, math.MaxInt32) },
		"ties":     func(v value) { pairwise.Ties, ties = y.boolean(v), &v },
		"template": func(v value) { pairwise.Template, template = s.template(y, v, eval.KindPairwise), &v },
		"criteria": func(v value) { pairwise.Criteria = y.criteria(v) },
		"scale":    func(v value) { scale = &v },
		"soft":     func(v value) { pairwise.Soft, s.softAt = y.boolean(v), v.place },
		"top_n":    func(v value) { pairwise.TopN = s.topN(y, v) },

		"same_candidate": func(v value) { s.sameCandidate = y.boolean(v) },
	})
	y.degrees(pairwise, scale, ties)
	s.criteriaShown(pairwise, template)
	s.keepApart(pairwise, set, v.key)
	if s.completePairs(y, v, named, pairwise, set); named != nil {
		return pairwise
	}
	if len(s.asked.Documents) > 0 && !set.comparable() && set.samples() > 0 {
		s.refuse(v.key, "add answers of other candidates, or set same_candidate: true", "no item has documents of two candidates")
	} else if len(s.asked.Documents) > 0 && !set.comparable() {
		s.refuse(v.key, "give items at least two documents each", "no item has two documents to compare")
	}

	return pairwise
}

// completePairs checks pairs, written at v, against the documents, and reads the candidate or the file that they name.
func (s *draft) completePairs(y *yamlFile, v value, named *value, pairwise *eval.Pairwise, set documentSet) {
	switch pairwise.Pairs.Mode {
	case eval.PairsSwiss:
		s.ranked(y, v)
	case eval.PairsBaseline:
		pairwise.Pairs.Baseline = set.baseline(y, *named)
	case eval.PairsListed:
		pairwise.Pairs.Listed = s.listedPairs(y, *named, set, pairwise.Order)
	}
}

// topN reads how many documents of each item are compared; 0: all.
func (s *draft) topN(y *yamlFile, v value) int {
	n := y.integer(v, 0, math.MaxInt32)
	switch {
	case n == 1:
		y.refuse(v.place, "want 2 or more, or 0 for all", "a single document cannot be compared")
		return 0
	case n > 1 && s.asked.Single == nil:
		y.refuse(v.key, "add single, or omit top_n", "the best documents are those with the highest single scores, but no scores are requested")
	}
	return n
}

func (s *draft) ranked(y *yamlFile, v value) {
	if n := len(s.candidates()); n > rank.MaxCandidates {
		y.refuse(v.key, "use sample:0.2 instead of swiss", "%d candidates are more than the %d that can be ranked between rounds",
			n, rank.MaxCandidates)
	}
}

// pairs reads all, sample:SHARE, swiss, swiss:SHARE, {baseline: CANDIDATE} or {file: …}. The caller
// reads the candidate or file from named.
func (y *yamlFile) pairs(v value) (pairs eval.Pairs, named *value) {
	const want = "all, sample:0.2, swiss, {baseline: CANDIDATE} or {file: pairs.csv}"
	word, ok := scalar(v.node)
	if !ok {
		name := func(mode eval.PairMode) func(value) {
			return func(v value) {
				if named != nil {
					y.refuse(v.key, "choose one", "pairs has both a file and a baseline")
				}
				pairs.Mode, named = mode, &v
			}
		}
		y.mapping(v, keys{"file": name(eval.PairsListed), "baseline": name(eval.PairsBaseline)})
		if named == nil {
			y.refuse(v.place, "want "+want, "pairs are missing")
		}
		return pairs, named
	}

	mode, share, hasShare := strings.Cut(word, ":")
	switch {
	case word == string(eval.PairsAll):
	case mode == string(eval.PairsSample) && hasShare:
		return eval.Pairs{Mode: eval.PairsSample, Sample: y.share(v, mode, share)}, nil
	case mode == string(eval.PairsSwiss) && hasShare:
		return eval.Pairs{Mode: eval.PairsSwiss, Share: y.share(v, mode, share)}, nil
	case mode == string(eval.PairsSwiss):
		return eval.Pairs{Mode: eval.PairsSwiss, Share: plan.SwissShare}, nil
	default:
		if percent, err := strconv.ParseFloat(strings.TrimSuffix(word, "%"), 64); err == nil &&
			strings.HasSuffix(word, "%") && percent > 0 && percent <= 100 {
			y.mismatch(v, fmt.Sprintf("a share: sample:%g", percent/100))
			break
		}
		y.mismatch(v, want)
	}

	return eval.Pairs{Mode: eval.PairsAll}, nil
}

// share reads the share of the pairs that is compared.
func (y *yamlFile) share(v value, mode, text string) float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(f > 0 && f <= 1) {
		y.refuse(v.place, "want a share above 0 and at most 1, for example "+mode+":0.2", "%q is not a share of the pairs", text)
		return 1
	}
	return f
}

func (s *draft) template(y *yamlFile, v value, kind eval.Kind) string {
	text, ok := s.fileText(y, v)
	if !ok {
		return ""
	}
	if err := prompt.CheckTemplate(kind, text); err != nil {
		for line := range strings.Lines(err.Error()) {
			y.refuse(v.place, "", "%s: %s", inFolder(s.dir, y.text(v)), strings.TrimSpace(line))
		}
	}
	return text
}

func (s *draft) fileText(y *yamlFile, v value) (text string, ok bool) {
	path, ok := s.pathOf(y, v)
	if !ok {
		return "", false
	}
	read, ok := s.textAt(v.place, path, maxText)
	return string(read), ok
}
