// Package given turns files of verdicts that exist already into an evaluation: its plan, and its runs in a results
// store. Reports and pages then treat it like any other.
//
// It reads each file twice. The first time, it keeps a few bytes of each verdict, and learns what no single row tells:
// which verdicts are on the same question, whether the order of the texts is known, and whether a winner is a name or
// a position. The second time, it stores the verdicts with the judges' reasons. It asks no model and needs no Redis.
package given

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
	"github.com/evalfleet/evalfleet/internal/config"
)

// The values of Options.Order and Options.Winners.
const (
	OrderShown   = "shown"
	OrderRandom  = "random"
	OrderUnknown = "unknown"

	WinnersPositions = "positions"
	WinnersNames     = "names"
)

// Options are what a user says about the files. The zero value recognises everything.
type Options struct {
	Format   judgments.Format // empty: of each file's first row
	Order    string           // whether a row's first candidate was shown first, or texts in random order; empty: as the format tells
	Winners  string           // what a winner means that can be a position and a name; empty: as the other rows tell
	Baseline string           // as judgments.Options.Baseline
	NoTexts  bool             // do not keep questions and answers
}

// Verdicts are the verdicts of some files.
type Verdicts struct {
	// Evaluation is what was judged, with the files that were read. It is normalized.
	Evaluation *eval.Evaluation
	texts      map[string]string // of documents, by hash
	options    Options
	paths      []string
	verdicts   []verdict // in the order in which they were read
	scores     []score
	judges     []string // by number, as the files name them
	shownAs    []int    // of each of judges: its position among the evaluation's
}

// verdict is one verdict. Its outcome is about first and second, which are documents in the order of the row.
type verdict struct {
	first, second int32
	judge         int32
	row           int32 // of all files
	alike         int32 // the first row that is the same and names no item; otherwise row
	trial         int32
	index         int64 // of its run
	file          int16
	outcome       judgments.Outcome // None: the judge gave none
	byName        judgments.Outcome
	reverse       bool // second was shown first
	games         bool // the row has the games of both orders
	unasked       bool
	share         float64 // probability that first is better; NaN: not known
}

// score is a judge's score of one document.
type score struct {
	file                          int16
	document, judge, index, trial int32
	value                         float64 // NaN: the judge gave none
}

const (
	// unnamed is the judge of verdicts that name none.
	unnamed = "unnamed judge"
	// Bounds of what is kept in memory.
	mostTexts    = 1 << 30     // bytes of questions and answers
	mostVerdicts = 100_000_000 // positions have 32 bits
	mostNames    = 100_000     // candidates, each a column of the ranking
)

// Read reads the verdicts in files. Its error is of type config.Problems.
func Read(paths []string, o Options) (*Verdicts, error) {
	c := newCollector(o)
	var problems config.Problems
	for _, path := range paths {
		err := c.file(path)
		if found, ok := err.(config.Problems); ok { //nolint:errorlint // that is its type
			problems = append(problems, found...)
		} else if err != nil {
			return nil, err
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if len(c.verdicts)-c.failed+len(c.scores) == 0 {
		return nil, config.Problems{c.nothing(paths)}
	}
	if problem, ok := c.tooFew(paths); ok {
		return nil, config.Problems{problem}
	}

	c.pool()
	return &Verdicts{
		Evaluation: c.evaluation(nameOf(paths)), options: o, paths: paths,
		verdicts: c.verdicts, scores: c.scores, texts: c.texts, judges: c.judges.names, shownAs: c.shownAs,
	}, nil
}

// nothing says that no file has a verdict, and why.
func (c *collector) nothing(paths []string) config.Problem {
	p := config.Problem{File: paths[0], Message: "it contains no verdicts"}
	if len(paths) > 1 {
		p = config.Problem{Message: fmt.Sprintf("the %d files contain no verdicts", len(paths))}
	}
	for _, file := range c.files {
		for _, one := range file.Skipped {
			p.Message += fmt.Sprintf("; %s: %d skipped: %s", file.Name, one.Count, one.What)
		}
	}
	return p
}

// tooFew reports that there is only one candidate, so that there is nothing to rank.
func (c *collector) tooFew(paths []string) (config.Problem, bool) {
	if len(c.candidates.names) > 1 {
		return config.Problem{}, false
	}
	return config.Problem{
		File: paths[0], Message: fmt.Sprintf("all rows are about one candidate, %s, so there is nothing to rank", c.candidates.names[0]),
		Fix: "add the verdicts on another",
	}, true
}

// nameOf returns a name for the evaluation: that of its file, or of the folder of its files.
func nameOf(paths []string) string {
	base := func(path string) string {
		name := filepath.Base(path)
		return cmp.Or(strings.TrimSuffix(name, filepath.Ext(name)), name)
	}
	if len(paths) == 1 {
		return base(paths[0])
	}
	folder := filepath.Dir(paths[0])
	for _, path := range paths[1:] {
		if filepath.Dir(path) != folder {
			folder = ""
		}
	}
	if name := filepath.Base(folder); folder != "" && name != "." && name != string(filepath.Separator) {
		return name
	}
	return fmt.Sprintf("%s and %d more", base(paths[0]), len(paths)-1)
}
