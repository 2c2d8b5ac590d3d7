package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Compare holds the flags for what is compared if a folder or files of answers are named instead of an evaluation file.
type Compare struct {
	Pairs  string // --pairs, which has the values of the key pairwise.pairs; empty: all
	Top    int    // --top N, which is until: {top: N}; 0: not given
	Budget string // --budget, in US dollars; empty: none
}

// flags returns the flags that are set.
func (c Compare) flags() (flags []string) {
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--pairs", c.Pairs != ""}, {"--top", c.Top != 0}, {"--budget", c.Budget != ""}} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	return flags
}

// compare returns the comparison that the flags ask for, of the documents found at a place.
func (s *draft) compare(set documentSet, at place) *eval.Pairwise {
	pairwise, flags := allPairs(), s.options.Compare
	s.byFlags = true
	if flags.Top > 0 {
		s.settings.Until, s.untilAt = &record.Until{Top: flags.Top}, place{path: "--top"}
		pairwise.Pairs = eval.Pairs{Mode: eval.PairsSample, Sample: 1} // in random order, so that the first are a fair sample
	} else if flags.Top < 0 {
		s.refuse(place{path: "--top"}, "want 1 or more", "got %d", flags.Top)
	}

	if flags.Pairs != "" {
		if y, root, ok := parseYAML("--pairs", []byte(flags.Pairs), &s.findings); ok {
			root.place, root.key = place{path: "--pairs"}, place{path: "--pairs"}
			pairs, named := y.pairs(root)
			pairwise.Pairs = pairs
			s.completePairs(y, root, named, pairwise, set)
		}
	}

	s.flagBudget()
	s.keepApart(pairwise, set, at)
	return pairwise
}

// flagBudget reads the budget of a flag.
func (s *draft) flagBudget() {
	flag := s.options.Compare.Budget
	if flag == "" {
		return
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(flag, "$"), 64)
	nano := math.Round(usd * ratelimit.Dollar)
	if s.budget.at = (place{path: "--budget"}); err != nil || !(nano >= 1) || usd > mostBudget {
		s.refuse(s.budget.at, "want US dollars above 0, such as 5", "got %s", printable(flag))
		return
	}
	s.budget.nano = int64(nano)
}
