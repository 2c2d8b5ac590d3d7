package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Experiment holds the flags of experiments. The zero value has none of them.
type Experiment struct {
	// MaxQueries is --max-queries: prompts per minute through each queue. nil:
	// prompto.DefaultMaxQueries.
	MaxQueries *int
	// MaxQueriesFile is --max-queries-json: a file of rates by api, group and model. Empty: none.
	MaxQueriesFile string
	// Parallel is --parallel: a queue for each group or api, instead of one for all.
	Parallel bool
	// MaxAttempts is --max-attempts: attempts per prompt. nil: prompto.DefaultMaxAttempts.
	MaxAttempts *int
}

// loadExperiment makes an evaluation of the prompts of an experiment file: JSON, one object per
// line, or CSV if the file's extension says so. The evaluation is named after the file without its
// extension. Its error is of type Problems.
func loadExperiment(path string, o Options) (*Submission, error) {
	if shape := answersAt(path); shape != nil && !shape.Prepared {
		return nil, Problems{notPrompts(path)}
	}
	x, err := newExperiment(path, stem(path), o)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		x.readCSV(path)
	} else {
		x.readLines(path)
	}
	return x.finish()
}

// experiment gathers the lines of a file into prompts.
type experiment struct {
	*draft
	prompts eval.Prompts
	item    int
	rows    map[string]int      // positions in prompts.Rows, by hash
	models  map[string]int      // positions in prompts.Models, by name
	senders []countedSender     // of each of prompts.Models
	written []prompto.WrittenID // one for each of prompts.List
	skipped skippedLines
	unasked map[string]bool // true: the provider cannot be asked; false: it can
	judging bool            // the prompts ask about the answers of another experiment
}

// skippedLines are lines that are not asked because they have problems.
type skippedLines struct {
	lines    int
	problems Problems // of the first ones
}

func newExperiment(file, name string, o Options) (*experiment, error) {
	s, err := newDraft(file, filepath.Dir(file), name, o)
	if err != nil {
		return nil, err
	}
	return &experiment{
		draft: s, prompts: eval.Prompts{Format: eval.PromptsExperiment}, item: s.emptyItem(),
		rows: map[string]int{}, models: map[string]int{}, unasked: map[string]bool{},
	}, nil
}

// experimentLine is one line, whether it was written as JSON or CSV.
type experimentLine struct {
	at     place  // of the line
	text   string // the line as JSON
	values map[string]placedValue
}

// readLines reads a file of JSON, one object a line.
func (x *experiment) readLines(path string) {
	x.writtenLines(path, func(at place, line []byte) {
		x.whole(func() { x.addJSON(at, line) })
	})
}

// whole calls take to add a line. If the line has problems, it sets them aside, so that all other
// lines are still asked.
func (x *experiment) whole(take func()) {
	before, taken := len(x.problems), len(x.prompts.List)
	take()
	wrong := x.problems[before:]
	if len(wrong) == 0 && len(x.prompts.List) > taken {
		return
	}
	x.skipped.lines++
	if len(x.skipped.problems) < maxListed {
		x.skipped.problems = append(x.skipped.problems, wrong...)
	}
	x.problems = x.problems[:before]
}

// saySkipped reports the lines that were set aside, as warnings; as errors if no line is left.
func (x *experiment) saySkipped() {
	skipped := x.skipped
	if skipped.lines == 0 {
		return
	}
	all := skipped.lines + len(x.prompts.List)
	summary := Problem{File: x.top.file, Message: fmt.Sprintf("%d of %s skipped", skipped.lines, wording.Either(all, "line is", "lines are")),
		Fix: "correct them in a separate file and submit that: if this file changes, it is another experiment, and all " +
			"its prompts are sent again", listed: true}
	if len(x.prompts.List) > 0 {
		x.warnings = append(append(x.warnings, skipped.problems...), summary)
		return
	}
	x.problems = append(x.problems, skipped.problems...)
	if skipped.lines > maxListed {
		x.refuse(x.top, "fix these first", "%d lines are invalid", skipped.lines)
	}
}

func (x *experiment) addJSON(at place, line []byte) {
	if j, members, ok := x.writtenLine(at, line); ok {
		x.add(experimentLine{at: at, text: string(line), values: j.values(members, "")})
	}
}

// add adds one line; its problems are reported at their own places.
func (x *experiment) add(l experimentLine) {
	before := len(x.problems)
	if len(l.text) > maxText {
		x.refuse(l.at, "", "the line of %d bytes is too large: at most %d are read", len(l.text), maxText)
		return
	}
	x.checkPrompt(l)
	who := prompto.Sender{API: x.needed(l, "api", `"openai"`), Model: x.needed(l, "model_name", `"gpt-4o"`), Group: x.group(l)}
	if len(x.problems) == before && !x.askable(l, who) {
		return
	}
	parameters, filter := x.parameters(l), x.filter(l, who.API)
	if len(x.problems) > before {
		return
	}
	written, err := prompto.Read(l.text)
	if err != nil {
		x.warn(l.values["prompt"].at, "", "%v; this line's run will fail", err)
	}

	images, ok := x.imagesOf(l.values["prompt"].at, written, eval.Judge{Provider: x.provider(who), Model: who.Model})
	if !ok {
		return
	}

	at := l.values["api"].at
	model := x.model(who, parameters, filter, at)
	x.senders[model].prompts++
	x.prompts.List = append(x.prompts.List, eval.Prompt{Model: model, Row: x.row(l, images)})
	x.written = append(x.written, prompto.WrittenID{ID: idOf(l.values["id"].raw), Line: l.at.line})
}
