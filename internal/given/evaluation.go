package given

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
)

// evaluation returns what was judged, and numbers the runs of the verdicts.
func (c *collector) evaluation(name string) *eval.Evaluation {
	e := &eval.Evaluation{Name: name, JSON: eval.JSONFalse, Given: &eval.Given{Files: c.files, PairRuns: 1}}
	if c.crowd >= 0 {
		e.Given.Pooled = len(c.judges.names) - c.crowd
	}
	e.Given.People = !slices.ContainsFunc(c.files, func(f eval.GivenFile) bool { return f.Format != string(judgments.Votes) })
	e.Given.Separate = c.separate()
	if c.copies() {
		e.Given.Repeated = c.repeated
	}
	if !e.Given.Separate {
		c.itemEach()
	}
	for _, judge := range c.pooled {
		e.Judges = append(e.Judges, eval.Judge{Name: judge, Model: judge})
	}

	c.place(e)
	ordered := c.ordered()
	if !ordered {
		e.Given.Column = c.column(e)
		c.sortPairs(e)
	}
	if len(c.verdicts) > 0 {
		e.Pairwise = &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsListed}, Order: eval.OrderUnknown, Ties: true, Soft: c.soft}
		both := c.number(e, ordered)
		switch {
		case !ordered:
		case both:
			e.Pairwise.Order = eval.OrderBoth
		default:
			e.Pairwise.Order = eval.OrderAsListed
		}
	}
	if len(c.scores) > 0 {
		c.scale(e)
	}
	e.Given.Hash = c.hash()
	return e
}

// separate reports whether nothing says which verdicts are on the same question.
func (c *collector) separate() bool {
	return len(c.verdicts) > 0 && len(c.items.names) == 0 && !c.copies()
}

// fewCopies is how many rows without an item there are for each that repeats another one if copies are few enough to be
// taken as independent.
const fewCopies = 100

// copies reports whether so many rows without an item repeat an earlier one that they would look like evidence.
func (c *collector) copies() bool { return fewCopies*c.repeated > c.repeated+len(c.unnamed) }

// itemEach gives each row without an item one of its own, where others have items or rows repeat each other. Those that are
// the same have one in common.
func (c *collector) itemEach() {
	if len(c.items.names) == 0 && !c.copies() {
		return
	}
	row, at := int32(-1), noItem
	own := func(document int32) int32 {
		d := c.documents[document]
		if d.item != noItem {
			return document
		}
		d.item = at
		k, known := c.document[d]
		if !known {
			k = int32(len(c.documents))
			c.document[d], c.documents = k, append(c.documents, d)
		}
		return k
	}

	for i := range c.verdicts {
		v := &c.verdicts[i]
		if c.documents[v.first].item != noItem && c.documents[v.second].item != noItem {
			continue
		}
		if v.alike != row {
			row = v.alike
			if at = c.items.number(fmt.Sprintf("row %d", row)); int(at) == len(c.asked) {
				c.asked = append(c.asked, item{})
			}
		}
		v.first, v.second = own(v.first), own(v.second)
	}
}

// place adds items and documents to the evaluation, normalizes it, and replaces the numbers of documents by their
// positions.
func (c *collector) place(e *eval.Evaluation) {
	used := make([]bool, len(c.documents))
	for _, v := range c.verdicts {
		used[v.first], used[v.second] = true, true
	}
	for _, s := range c.scores {
		used[s.document] = true
	}

	for k, name := range c.items.names {
		e.Items = append(e.Items, eval.Item{ID: name, Question: c.asked[k].question, Categories: c.asked[k].categories})
	}
	none := int32(len(e.Items)) // the item of documents without one
	ids, placed := map[string]bool{}, make([]string, len(c.documents))
	for k, d := range c.documents {
		if !used[k] {
			continue
		}
		if d.item == noItem {
			if int(none) == len(e.Items) {
				e.Items = append(e.Items, eval.Item{})
			}
			d.item = none
		}
		candidate := c.candidates.names[d.candidate]
		id := documentID(e.Items[d.item].ID, candidate)
		for n := 2; ids[id] || id == eval.Tie; n++ {
			id = fmt.Sprintf("%s (%d)", documentID(e.Items[d.item].ID, candidate), n)
		}
		ids[id], placed[k] = true, id
		e.Documents = append(e.Documents, eval.Document{
			ID: id, Item: int(d.item), Candidate: candidate, Hash: d.hash, Bytes: len(c.texts[d.hash]),
		})
	}

	e.Normalize()
	position := make(map[string]int32, len(e.Documents))
	for k, d := range e.Documents {
		position[d.ID] = int32(k)
	}
	for i := range c.verdicts {
		v := &c.verdicts[i]
		v.first, v.second = position[placed[v.first]], position[placed[v.second]]
	}
	for i := range c.scores {
		c.scores[i].document = position[placed[c.scores[i].document]]
	}
}

// documentID returns the ID of the only document of a candidate on an item.
func documentID(item, candidate string) string {
	if item == "" {
		return candidate
	}
	return item + "/" + candidate
}

// ordered reports whether the files tell which text was shown first. A file of battles tells it if a judge judged any
// pair in both orders.
func (c *collector) ordered() bool {
	both := map[int16]bool{}
	if slices.Contains(c.asks, true) && !c.separate() {
		type asked struct{ judge, first, second int32 }
		met := map[asked]bool{}
		for _, v := range c.verdicts {
			if !c.asks[v.file] || both[v.file] {
				continue
			}
			met[asked{v.judge, v.first, v.second}] = true
			both[v.file] = met[asked{v.judge, v.second, v.first}]
		}
	}
	for k, shown := range c.shown {
		if c.files[k].Verdicts > 0 && !shown && !both[int16(k)] {
			return false
		}
	}
	return true
}

const (
	// oneColumn is the share of its rows by which a candidate may be more often in one column than in the other.
	oneColumn = 0.2
	// byChance is the probability below which no candidate is so often in one column by chance.
	byChance = 0.05
)

// column returns the candidate that keeps most to one column of the files of battles. It returns nil if every candidate is
// about as often in the first column as in the second, so that a preference for a place is none for a candidate, or if
// chance explains that one is not (binomial tests, corrected for their number by Bonferroni), or if the user says that the
// order was random.
func (c *collector) column(e *eval.Evaluation) *eval.GivenColumn {
	if c.options.Order == OrderRandom {
		return nil
	}
	first, rows := map[string]int{}, map[string]int{}
	for _, v := range c.verdicts {
		if c.files[v.file].Format != string(judgments.Battles) {
			continue
		}
		a, b := e.Documents[v.first].Candidate, e.Documents[v.second].Candidate
		first[a]++
		rows[a]++
		rows[b]++
	}

	least, column := byChance, (*eval.GivenColumn)(nil)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		n, k := rows[name], first[name]
		if by := math.Abs(float64(2*k - n)); by < oneColumn*float64(n) {
			continue
		}
		even := distuv.Binomial{N: float64(n), P: 0.5}
		chance := 2 * even.CDF(float64(min(k, n-k))) * float64(len(rows)-1) // the columns of the last follow from the others
		if chance < least || column != nil && chance == least && n > column.Rows {
			least, column = chance, &eval.GivenColumn{Candidate: name, First: k, Rows: n}
		}
	}
	return column
}

// sortPairs brings the documents of each verdict into the order of their IDs, because no order is known.
func (c *collector) sortPairs(e *eval.Evaluation) {
	for i := range c.verdicts {
		v := &c.verdicts[i]
		v.reverse = false
		if e.Documents[v.first].ID > e.Documents[v.second].ID {
			v.first, v.second = v.second, v.first
			v.share = 1 - v.share
			switch v.outcome {
			case judgments.First:
				v.outcome = judgments.Second
			case judgments.Second:
				v.outcome = judgments.First
			}
		}
	}
}

// shown returns the documents in the order in which they were shown.
func (v verdict) shown() (first, second int32) {
	if v.reverse {
		return v.second, v.first
	}
	return v.first, v.second
}

// number gives each verdict a run and a trial. The runs of a pair follow each other. It reports whether a judge judged
// any pair in both orders.
func (c *collector) number(e *eval.Evaluation, ordered bool) (both bool) {
	order := make([]int32, len(c.verdicts))
	for i := range order {
		order[i] = int32(i)
	}
	pair := func(v verdict) [2]int32 { return [2]int32{min(v.first, v.second), max(v.first, v.second)} }
	judge := func(v verdict) int { return c.shownAs[v.judge] }
	slices.SortFunc(order, func(a, b int32) int {
		v, w := c.verdicts[a], c.verdicts[b]
		p, q := pair(v), pair(w)
		return cmp.Or(cmp.Compare(p[0], q[0]), cmp.Compare(p[1], q[1]), cmp.Compare(judge(v), judge(w)), cmp.Compare(a, b))
	})

	of, size, most := trials{}, 0, 0
	for k, i := range order {
		v := &c.verdicts[i]
		before := verdict{first: -1}
		if k > 0 {
			before = c.verdicts[order[k-1]]
		}
		if pair(before) != pair(*v) {
			size = 0
		}
		if size == 0 || judge(before) != judge(*v) {
			of = trials{orders: ordered && !e.Given.Separate && !c.several(judge(*v)), row: -1}
		}
		size++
		v.trial = of.next(*v)
		most, both = max(most, int(v.trial)), both || of.both()
		if !e.Given.Separate {
			e.Given.PairRuns = max(e.Given.PairRuns, size)
		}
	}
	e.Pairwise.Trials = most

	c.index(order, pair, e.Given)
	return both
}

// index numbers the runs of the verdicts, which are sorted by pair. Pairs follow each other in the order in which they
// were read, so that a results store is written from its beginning to its end.
func (c *collector) index(order []int32, pair func(verdict) [2]int32, of *eval.Given) {
	if of.Separate {
		for i := range c.verdicts {
			c.verdicts[i].index = int64(i)
		}
		return
	}

	var groups [][]int32 // the verdicts of each pair
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && pair(c.verdicts[order[from]]) == pair(c.verdicts[order[to]]) {
			to++
		}
		groups, from = append(groups, order[from:to]), to
	}
	slices.SortFunc(groups, func(a, b []int32) int { return cmp.Compare(slices.Min(a), slices.Min(b)) })
	for number, group := range groups {
		for within, i := range group {
			c.verdicts[i].index = int64(number*of.PairRuns + within)
		}
	}
}

// trials numbers a judge's verdicts on one pair, such that those on the same trial are the two orders of one question.
type trials struct {
	orders bool // whether orders are known
	counts [2]int32
	row    int32 // the last row with games
}

// next returns the trial of the judge's next verdict on the pair. Games of one row belong together, also if one of them
// has no verdict.
func (t *trials) next(v verdict) int32 {
	if !t.orders {
		t.counts[0]++
		return t.counts[0]
	}
	if v.games {
		if t.row != v.row {
			t.row = v.row
			t.counts[0] = max(t.counts[0], t.counts[1]) + 1
			t.counts[1] = t.counts[0]
		}
		return t.counts[0]
	}
	k := 0
	if first, second := v.shown(); first > second {
		k = 1
	}
	t.counts[k]++
	return t.counts[k]
}

// both reports whether verdicts in both orders were met.
func (t *trials) both() bool { return t.orders && t.counts[0] > 0 && t.counts[1] > 0 }

// scale adds the question about single documents, with a scale that contains all scores, and numbers their runs.
func (c *collector) scale(e *eval.Evaluation) {
	scale := eval.Scale{Min: 1, Max: 10} // of MT-bench
	order := make([]int32, len(c.scores))
	for i, s := range c.scores {
		order[i] = int32(i)
		if math.IsNaN(s.value) {
			continue
		}
		scale.Min, scale.Max = min(scale.Min, int(math.Floor(s.value))), max(scale.Max, int(math.Ceil(s.value)))
	}

	slices.SortFunc(order, func(a, b int32) int {
		s, t := c.scores[a], c.scores[b]
		return cmp.Or(cmp.Compare(s.document, t.document), cmp.Compare(c.shownAs[s.judge], c.shownAs[t.judge]), cmp.Compare(a, b))
	})

	most := int32(0)
	for k, i := range order {
		s := &c.scores[i]
		s.index, s.trial = int32(k), 1
		if k > 0 && c.scores[order[k-1]].document == s.document && c.shownAs[c.scores[order[k-1]].judge] == c.shownAs[s.judge] {
			s.trial = c.scores[order[k-1]].trial + 1
		}
		most = max(most, s.trial)
	}
	e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: criterion}}, Scale: scale, Trials: int(most)}
}

// criterion is the criterion of all scores.
const criterion = "score"

// hash identifies all verdicts and scores, whatever files they are in.
func (c *collector) hash() string {
	sum := sha256.New()
	var line [32]byte
	write := func(numbers ...int32) {
		raw := line[:0]
		for _, n := range numbers {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
		}
		_, _ = sum.Write(raw)
	}

	order := make([]int32, len(c.verdicts))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(c.verdicts[a].index, c.verdicts[b].index) })
	for _, i := range order {
		v := c.verdicts[i]
		first, second := v.shown()
		write(first, second, int32(c.shownAs[v.judge]), v.trial, int32(v.outcome), int32(one(v.unasked)), int32(one(v.reverse)))
		if c.soft {
			bits := math.Float64bits(v.share)
			write(int32(bits>>32), int32(bits&math.MaxUint32))
		}
	}
	for _, s := range c.scores {
		bits := math.Float64bits(s.value)
		write(s.index, s.document, int32(c.shownAs[s.judge]), s.trial, int32(bits>>32), int32(bits&math.MaxUint32))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
