package given

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
	"github.com/evalfleet/evalfleet/internal/config"
)

// names numbers names in the order in which they are met.
type names struct {
	names []string
	at    map[string]int32
}

func newNames() names { return names{at: map[string]int32{}} }

func (n *names) number(name string) int32 {
	k, ok := n.at[name]
	if !ok {
		k = int32(len(n.names))
		name = strings.Clone(name) // not part of a row's memory
		n.at[name], n.names = k, append(n.names, name)
	}
	return k
}

// item is a question; noItem stands for rows that name none.
type item struct {
	question   string
	categories []string
}

const noItem int32 = -1

// document is a candidate's answer to an item. Answers with other texts are other documents.
type document struct {
	item, candidate int32
	hash            string // empty: the text is not known
}

// collector reads the files for the first time.
type collector struct {
	options                   Options
	items, candidates, judges names
	asked                     []item // by number of items
	documents                 []document
	document                  map[document]int32
	bytes                     map[string]int // length of each text by hash
	texts                     map[string]string
	kept                      int // bytes of texts and questions

	pooled  []string // the evaluation's judges
	shownAs []int    // of each judge: its position in pooled
	crowd   int      // position in pooled of the judge that stands for several; -1: none

	verdicts []verdict
	failed   int // how many of them judges did not give
	scores   []score
	rows     int32
	alike    int32            // the first row that is the same as the one being read
	unnamed  map[uint64]int32 // that row of those without an item, by their hash
	seed     maphash.Seed
	repeated int  // rows without an item that are the same as an earlier one
	soft     bool // there are probabilities other than 0, 1/2 and 1
	files    []eval.GivenFile
	shown    []bool // of each file: it tells the order, or the user does
	asks     []bool // of each file: whether pairs in both orders tell the order
}

func newCollector(o Options) *collector {
	return &collector{
		options: o, crowd: -1, items: newNames(), candidates: newNames(), judges: newNames(),
		document: map[document]int32{}, bytes: map[string]int{}, texts: map[string]string{},
		unnamed: map[uint64]int32{}, seed: maphash.MakeSeed(),
	}
}

// ofFile counts what one file has.
type ofFile struct {
	path                string
	format              judgments.Format
	rows, from          int // from: its first verdict
	failed              int // verdicts that judges were asked for and did not give
	skipped, simplified map[string]int
	codes               map[string]int // how often each number is the winner
	coded               int            // line of the first of them
	ambiguous           int            // line of the first winner that is a position and another name
	byPosition, byName  int            // winners that are only one of both
}

// file reads a file. Its error is of type config.Problems.
func (c *collector) file(path string) error {
	f := &ofFile{
		path: path, format: c.options.Format, from: len(c.verdicts),
		skipped: map[string]int{}, simplified: map[string]int{}, codes: map[string]int{},
	}
	err := config.Rows(path, func(line int, row judgments.Row) error {
		f.rows++
		if f.format == "" {
			if f.format = judgments.Recognise(row); f.format == "" {
				return errUnknown
			}
		}
		return c.row(f, line, row)
	})
	if problems := (config.Problems)(nil); errors.As(err, &problems) {
		return unrecognised(problems, f)
	}
	if err != nil {
		return err
	}
	if problem, ok := c.settle(f); !ok {
		return config.Problems{problem}
	}

	file := eval.GivenFile{
		Name: filepath.Base(path), Format: string(f.format), Rows: f.rows, Verdicts: len(c.verdicts) - f.from - f.failed,
		Skipped: counts(f.skipped), Read: counts(f.simplified),
	}
	for _, s := range c.scores {
		file.Verdicts += one(int(s.file) == len(c.files))
	}
	c.files, c.failed = append(c.files, file), c.failed+f.failed
	c.shown = append(c.shown, c.options.Order == OrderShown || c.options.Order == "" && f.format.Shown())
	c.asks = append(c.asks, c.options.Order == "" && f.format == judgments.Battles)
	return nil
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// errUnknown means that the fields of a row are those of no format.
var errUnknown = errors.New("no known format")

// unrecognised keeps only the first problem of a file in no known format, and says what is known.
func unrecognised(problems config.Problems, f *ofFile) error {
	if f.format != "" {
		return problems
	}
	for i, p := range problems {
		if p.Message == errUnknown.Error() {
			problems[i].Message = "the rows have no verdicts that evalfleet knows"
			problems[i].Fix = "want the fields model_a, model_b and winner, or those of " + known() + "; see docs/rank.md"
			return problems[i : i+1]
		}
	}
	return problems
}

// known lists the formats in words.
func known() string {
	var words []string
	for _, f := range judgments.Formats[1:] {
		words = append(words, string(f))
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func counts(of map[string]int) (all []eval.GivenCount) {
	for what, n := range of {
		all = append(all, eval.GivenCount{Count: n, What: what})
	}
	slices.SortFunc(all, func(a, b eval.GivenCount) int { return strings.Compare(a.What, b.What) })
	return all
}

// row keeps what one row says.
func (c *collector) row(f *ofFile, line int, row judgments.Row) error {
	r, err := f.format.ReadRow(row, judgments.Options{Baseline: c.options.Baseline})
	if err != nil {
		return err
	}
	c.rows++
	if c.alike = c.rows; r.Item == "" && r.Score == nil && !row.Bare() {
		c.meet(row)
	}
	if r.Score != nil {
		return c.score(f, r)
	}
	if same(r, c.options) {
		f.skipped["verdicts on the same text or candidate twice"] += len(r.Verdicts)
		return nil
	}

	var documents [2]int32
	met := false
	for k := range r.Verdicts {
		v := &r.Verdicts[k]
		if v.Skipped != "" {
			f.skipped[v.Skipped]++
			if !v.Failed {
				continue
			}
			f.failed++
		}
		if !met {
			if documents, err = c.pair(r); err != nil {
				return err
			}
			met = true
		}
		for _, what := range v.Simplified {
			f.simplified[what]++
		}
		if err := c.add(f, line, *v, documents, len(r.Verdicts) > 1 && f.format != judgments.Votes); err != nil {
			return err
		}
	}
	return nil
}

// meet looks for an earlier row that is the same. Equal rows have the same fields, whatever their order.
func (c *collector) meet(row judgments.Row) {
	sum := uint64(0)
	for field, value := range row {
		var h maphash.Hash
		h.SetSeed(c.seed)
		_, _ = h.WriteString(field)
		_ = h.WriteByte(0)
		_, _ = h.Write(value)
		sum += h.Sum64()
	}
	if first, met := c.unnamed[sum]; met {
		c.alike = first
		c.repeated++
		return
	}
	c.unnamed[sum] = c.rows
}

// same reports whether both sides of a row are the same document.
func same(r judgments.Read, o Options) bool {
	return r.Candidates[0] == r.Candidates[1] && (o.NoTexts || r.Texts[0] == nil || r.Texts[1] == nil || *r.Texts[0] == *r.Texts[1])
}

// add keeps one verdict.
func (c *collector) add(f *ofFile, line int, v judgments.Verdict, documents [2]int32, games bool) error {
	if len(c.verdicts) == mostVerdicts {
		return &judgments.Error{Message: fmt.Sprintf("more than %d verdicts cannot be numbered", mostVerdicts)}
	}
	judge, err := c.judge(v.Judge)
	if err != nil {
		return err
	}
	if !v.Failed {
		f.met(v, line)
	}
	share := math.NaN()
	if v.Share != nil {
		share = *v.Share
		c.soft = c.soft || share != 0 && share != 0.5 && share != 1
	}
	c.verdicts = append(c.verdicts, verdict{
		first: documents[0], second: documents[1], judge: judge, row: c.rows, alike: c.alike, file: int16(len(c.files)),
		outcome: v.Outcome, byName: v.ByName, reverse: v.Reverse, games: games, unasked: v.Unasked,
		share: share,
	})
	return nil
}

// met counts what a winner can mean.
func (f *ofFile) met(v judgments.Verdict, line int) {
	if v.Code != "" {
		if f.codes[v.Code]++; f.coded == 0 {
			f.coded = line
		}
	}
	switch {
	case v.ByName == judgments.None:
		f.byPosition++
	case v.Outcome == judgments.None:
		f.byName++
	case v.Outcome != v.ByName && f.ambiguous == 0:
		f.ambiguous = line
	}
}

// settle decides what the winners of a file mean, once all of its rows are read.
func (c *collector) settle(f *ofFile) (config.Problem, bool) {
	if len(f.codes) > 0 && f.codes["2"] == 0 && f.format != judgments.Votes {
		return config.Problem{
			File: f.path, Line: f.coded, Path: "winner", Message: "the winners are 0 or 1 but never 2, so it is unclear " +
				"whether 0 is the first candidate or a tie",
			Fix: "write model_a, model_b or tie",
		}, false
	}
	names := c.options.Winners == WinnersNames || c.options.Winners == "" && f.byName > 0 && f.byPosition == 0
	if f.ambiguous > 0 && c.options.Winners == "" && (f.byName > 0) == (f.byPosition > 0) {
		return config.Problem{
			File: f.path, Line: f.ambiguous, Path: "winner", Message: "the winner is the name of one candidate and the position of the other",
			Fix: "say which with --winners names or --winners positions",
		}, false
	}
	for i := f.from; i < len(c.verdicts); i++ {
		v := &c.verdicts[i]
		if v.outcome == judgments.None || names && v.byName != judgments.None {
			v.outcome = v.byName
		}
	}
	return config.Problem{}, true
}

func (c *collector) judge(name string) (int32, error) {
	if name == "" {
		name = unnamed
	}
	if !config.Nameable(name) {
		return 0, &judgments.Error{Field: "judge", Message: "the judge's name is too long or not printable",
			Fix: "use at most 512 printable characters"}
	}
	return c.judges.number(name), nil
}

// score keeps a score.
func (c *collector) score(f *ofFile, r judgments.Read) error {
	if r.Score.Skipped != "" { // the judge gave none
		f.skipped[r.Score.Skipped]++
		f.failed++
		r.Score.Value = math.NaN()
	}
	judge, err := c.judge(r.Score.Judge)
	if err != nil {
		return err
	}
	if math.Abs(r.Score.Value) > 1e9 {
		return &judgments.Error{Field: "score", Message: "the score is too large", Fix: "want a number of at most 1e9"}
	}
	document, err := c.documentOf(r, 0)
	if err != nil {
		return err
	}
	c.scores = append(c.scores, score{document: document, judge: judge, file: int16(len(c.files)), value: r.Score.Value})
	return nil
}

// pair returns the documents of a row.
func (c *collector) pair(r judgments.Read) (documents [2]int32, err error) {
	for k := range documents {
		if documents[k], err = c.documentOf(r, k); err != nil {
			return documents, err
		}
	}
	return documents, nil
}

// documentOf returns the document of a row's k-th candidate.
func (c *collector) documentOf(r judgments.Read, k int) (int32, error) {
	name := r.Candidates[k]
	if !config.Nameable(name) {
		return 0, &judgments.Error{Message: fmt.Sprintf("%.40q cannot be a candidate's name", name), Fix: "use at most 512 printable characters"}
	}
	d := document{item: c.itemOf(r), candidate: c.candidates.number(name)}
	if len(c.candidates.names) > mostNames {
		return 0, &judgments.Error{Message: fmt.Sprintf("there are more than %d candidates", mostNames), Fix: "are these their names?"}
	}
	if text := r.Texts[k]; text != nil && !c.options.NoTexts {
		d.hash = eval.TextHash(*text)
		if _, known := c.texts[d.hash]; !known {
			c.texts[d.hash] = strings.Clone(*text)
			c.kept += len(*text)
		}
	}
	if c.kept > mostTexts {
		return 0, &judgments.Error{Message: fmt.Sprintf("questions and answers have more than %d bytes", mostTexts),
			Fix: "rank without them: --texts=false"}
	}

	at, known := c.document[d]
	if !known {
		at = int32(len(c.documents))
		c.document[d], c.documents = at, append(c.documents, d)
	}
	return at, nil
}

// itemOf returns the item of a row. A name that is too long for an item is a question, and its hash names the item.
func (c *collector) itemOf(r judgments.Read) int32 {
	name := r.Item
	switch {
	case name == "" && (r.Texts[0] != nil || r.Texts[1] != nil) && !c.options.NoTexts: // these texts are of one question, at least
		name = fmt.Sprintf("row %d", c.alike)
	case name == "":
		return noItem
	case !config.Nameable(name):
		if r.Question == "" {
			r.Question = name
		}
		name = eval.QuestionID(name)
	}

	at := c.items.number(name)
	if int(at) == len(c.asked) {
		of := item{categories: r.Categories}
		if !c.options.NoTexts {
			of.question = strings.Clone(r.Question)
			c.kept += len(of.question)
		}
		c.asked = append(c.asked, of)
	}
	return at
}
