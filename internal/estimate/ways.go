package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

// Way is a way in which the evaluation could be asked.
type Way struct {
	Way string `json:"way"` // one of the constants below
	// Setting is what to write to get it, into the evaluation file or, if it begins with a dash, on the command line;
	// empty: nothing.
	Setting string `json:"setting"`
	// Calls is the number of calls of the whole evaluation. With AtLeast, it is the smallest possible.
	Calls   int  `json:"calls"`
	AtLeast bool `json:"at_least,omitempty"`
	// LeastCalls and LeastCostUSD are as in Estimate.
	LeastCalls   int      `json:"calls_at_least,omitempty"`
	LeastCostUSD *float64 `json:"cost_usd_at_least,omitempty"`
	// Changed is how many of the calls are in batches, in the flex tier, or read from prompt caches, and Judges names the
	// judges that ask them in that tier.
	Changed int      `json:"calls_this_way,omitempty"`
	Judges  []string `json:"judges,omitempty"`
	// CostUSD is null if a price is unknown. With AtBest, it is the lowest possible cost, and not to be expected.
	CostUSD *float64 `json:"cost_usd" jsonschema:"nullable"`
	AtBest  bool     `json:"at_best,omitempty"`
	// Seconds is the shortest possible duration of the calls that are in no batch, and Limit what causes it. Deadline is
	// how long each batch may take until what it has not answered is asked without it; absent: there are no batches.
	Seconds  float64 `json:"seconds"`
	Limit    string  `json:"limit"`
	Deadline float64 `json:"deadline_s,omitempty"`
	Note     string  `json:"note"` // what else to know, in words
}

// The values of Way.Way.
const (
	AsItIs        = "as_it_is"          // as the file and the command line say
	FromCaches    = "prompt_caches"     // what repeats is read from the prompt caches of providers
	Standard      = "standard"          // in the standard tier, without batches
	Flex          = providers.TierFlex  // in the flex tier where a model has one
	InBatches     = providers.TierBatch // through batch endpoints where a provider has them
	AskedAnew     = "no_reuse"          // also what earlier evaluations have answered
	StrongAlone   = "strong_alone"      // only the strong judge is asked, about all pairs
	AnotherDesign = "another_design"    // fewer calls for the same question, of Estimate.Savings
)

var inOrder = []string{AsItIs, FromCaches, Standard, Flex, InBatches, AskedAnew, StrongAlone, AnotherDesign}

// waysOf returns how the evaluation could be asked, beginning with how it is asked now. again are the demands if nothing
// is reused.
func waysOf(q Question, asked, again []demand, savings []Saving) []Way {
	now := q.way(AsItIs, "", asked)
	now.Changed = callsIn(asked, providers.TierBatch)
	ways := []Way{now}
	if cost, calls := cachedAtBest(q, asked); cost != nil {
		cached := q.way(FromCaches, "", asked)
		cached.CostUSD, cached.AtBest, cached.Changed = cost, true, calls
		ways = append(ways, cached)
	}

	others := []func(Question, []demand) (Way, bool){standard, flex, inBatches}
	if q.Evaluation.Anchors != nil { // the rest waits for them
		others = others[:2]
	}
	for _, other := range others {
		if way, possible := other(q, asked); possible {
			ways = append(ways, way)
		}
	}
	if callsOf(again) > now.Calls {
		ways = append(ways, q.way(AskedAnew, "--no-reuse", again))
	}
	if way, possible := strongAlone(q, asked); possible {
		ways = append(ways, way)
	}
	for _, saving := range savings {
		way := q.way(AnotherDesign, saving.Setting, saving.asked)
		way.Calls, way.AtLeast, way.Note = saving.Calls, saving.AtLeast, saving.Loses
		ways = append(ways, way)
	}

	for i := range ways {
		ways[i].Note = ways[i].note()
	}
	return ways
}

// way returns a way in which demands are asked.
func (q *Question) way(name, setting string, asked []demand) Way {
	w := Way{Way: name, Setting: setting, Calls: callsOf(asked), CostUSD: cost(*q, asked)}
	least := leastOf(asked)
	w.Seconds, w.Limit = shortest(*q, bounds(*q, least), least)
	if n := callsOf(least); n < w.Calls {
		w.LeastCalls, w.LeastCostUSD = n, cost(*q, least)
	}
	if callsIn(asked, providers.TierBatch) > 0 {
		w.Deadline = record.DefaultBatchDeadline.Seconds()
		if q.Settings.Batch != nil {
			w.Deadline = q.Settings.Batch.Deadline.Seconds()
		}
	}
	return w
}

// note returns what else to know about a way, in words.
func (w Way) note() string {
	switch w.Way {
	case FromCaches:
		return "the lowest possible cost, if a cache has all that repeats in prompts when it is needed; nothing to write"
	case Standard:
		return "each call at once, at the standard price"
	case Flex:
		return "in the overrides of " + listed(w.Judges) + "; slower, and refused while the provider has no room for it"
	case AnotherDesign:
		return w.Note
	case StrongAlone:
		return "and no escalate: " + listed(w.Judges) + " alone, which sees all pairs"
	case AskedAnew:
		return "or reuse: false; asks again what earlier evaluations have answered"
	}
	if w.Changed > 0 && w.Deadline > 0 {
		return wording.Counted(w.Changed, "call") + " in batches; what they do not answer in time is asked alone, at the full price"
	}
	return w.Note
}

// standard asks all calls at once, in the standard tier; possible only if the file says otherwise.
func standard(q Question, asked []demand) (Way, bool) {
	setting := "no service_tier"
	if q.Settings.Batch != nil {
		setting = "batch: off"
	}
	way := q.way(Standard, setting, inTiers(asked, func(demand) string { return "" }))
	return way, callsIn(asked, "") < way.Calls
}

// flex asks in the flex tier what has a price there; possible only if the file does not say so already.
func flex(q Question, asked []demand) (Way, bool) {
	var judges []string
	changed := inTiers(asked, func(d demand) string {
		price := q.Settings.Prices[d.judge.Target()]
		_, known := price.In(providers.TierFlex)
		switch {
		case d.bound || d.tier == providers.TierFlex:
		case known && !price.Free():
			judges = append(judges, d.judge.Name)
			return providers.TierFlex
		case d.tier == providers.TierBatch: // a file has either
			return ""
		}
		return d.tier
	})

	way := q.way(Flex, "service_tier: flex", changed)
	way.Changed, way.Judges = callsIn(changed, providers.TierFlex), distinct(judges)
	if q.Settings.Batch != nil {
		way.Setting += ", batch: off"
	}
	return way, len(judges) > 0
}

// inBatches asks through batch endpoints what can be; possible only if the file does not say so already, and some
// of it is not free.
func inBatches(q Question, asked []demand) (Way, bool) {
	grounded := slices.ContainsFunc(asked, func(d demand) bool { return q.Evaluation.Grounded(d.kind) })
	if q.Capabilities == nil || q.Settings.Batch != nil || q.Settings.Until != nil || grounded {
		return Way{}, false
	}
	paid := false
	all := inTiers(asked, func(d demand) string {
		if d.batchable && q.Capabilities(d.judge).Batch {
			price, known := q.Settings.Prices[d.judge.Target()]
			paid = paid || !known || !price.Free()
			return providers.TierBatch
		}
		return ""
	})

	way := q.way(InBatches, "batch: prefer", all)
	way.Changed = callsIn(all, providers.TierBatch)
	if callsIn(asked, "") < way.Calls {
		way.Setting += ", no service_tier"
	}
	return way, paid
}

// listed names judges, at most three.
func listed(names []string) string {
	const most = 3
	var some []string
	for _, name := range names[:min(len(names), most)] {
		some = append(some, harmless.OneLine(name))
	}
	if more := len(names) - most; more > 0 {
		some = append(some, fmt.Sprintf("%d more", more))
	}
	return strings.Join(some, ", ")
}

// waysThen returns the ways of two evaluations; the second begins when the first has ended. What only one of them
// has is combined with how the other is asked now.
func waysThen(first, next []Way) []Way {
	var all []Way
	for _, of := range slices.Concat(first, next) {
		is := func(w Way) bool { return w.Way == of.Way && (w.Way != AnotherDesign || w.Setting == of.Setting) }
		if slices.ContainsFunc(all, is) {
			continue
		}
		both, a, b := of, asked(first, is), asked(next, is)
		both.Calls, both.Changed, both.AtLeast = a.Calls+b.Calls, a.Changed+b.Changed, a.AtLeast || b.AtLeast
		if a.LeastCalls+b.LeastCalls > 0 {
			both.LeastCalls = cmp.Or(a.LeastCalls, a.Calls) + cmp.Or(b.LeastCalls, b.Calls)
			both.LeastCostUSD = sum(cmp.Or(a.LeastCostUSD, a.CostUSD), cmp.Or(b.LeastCostUSD, b.CostUSD))
		}
		both.Judges = distinct(a.Judges, b.Judges)
		both.CostUSD, both.AtBest = sum(a.CostUSD, b.CostUSD), a.AtBest || b.AtBest
		both.Seconds, both.Deadline, both.Limit = a.Seconds+b.Seconds, max(a.Deadline, b.Deadline), a.Limit
		if b.Seconds > a.Seconds {
			both.Limit = b.Limit
		}
		both.Note = both.note()
		all = append(all, both)
	}

	slices.SortStableFunc(all, func(a, b Way) int {
		return cmp.Compare(slices.Index(inOrder, a.Way), slices.Index(inOrder, b.Way))
	})
	return all
}

// asked returns the first way for which a function is true, else the first one, which is how it is asked now.
func asked(ways []Way, is func(Way) bool) Way {
	if i := slices.IndexFunc(ways, is); i >= 0 {
		return ways[i]
	}
	now := ways[0]
	now.Changed = 0
	return now
}
