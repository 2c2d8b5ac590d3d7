// Package eval defines an evaluation: its questions, judges and documents, and the stable identifiers that follow from
// them.
//
// It is pure: it reads no file, no clock and no network. How an evaluation is run (limits, retries, providers,
// output) is deliberately absent, because two submissions that ask the same thing are the same evaluation.
package eval

import (
	"cmp"
	"slices"
	"strings"
)

// PlanVersion is part of every evaluation's identity. It changes when the meaning of a run's index changes, so that
// records with an older numbering are never taken for current ones.
const PlanVersion = 1

// Evaluation is everything that one submission asks. Its JSON form is stored in Redis as the plan record and in the
// results store, and its identity is derived from it.
//
// Items and Documents are sorted (see Normalize). Documents refer to their item, and runs to documents, by position.
type Evaluation struct {
	PlanVersion int         `json:"plan_version"`
	Name        string      `json:"name"`
	Again       string      `json:"again,omitempty"` // --again NAME: a fresh evaluation of the same question
	Items       []Item      `json:"items"`
	Documents   []Document  `json:"documents"`
	Judges      []Judge     `json:"judges"`
	Single      *Single     `json:"single,omitempty"`
	Pairwise    *Pairwise   `json:"pairwise,omitempty"`
	Panel       *Panel      `json:"panel,omitempty"`
	Runs        *Runs       `json:"runs,omitempty"`
	Prompts     *Prompts    `json:"prompts,omitempty"`
	Checks      []Check     `json:"checks,omitempty"`
	Escalate    *Escalate   `json:"escalate,omitempty"` // nil: every judge sees everything
	JSON        JSONMode    `json:"json"`
	Jsonify     *Jsonify    `json:"jsonify,omitempty"`
	Grounding   Requirement `json:"grounding,omitempty"` // whether answers must show a search; see Grounded
	Reasoning   Requirement `json:"reasoning,omitempty"` // see Reasoned
	// Blind hides authorship: judges see documents by labels, not IDs; see ShownAs.
	Blind bool `json:"blind,omitempty"`
	// Given is set if the verdicts were given elsewhere.
	Given *Given `json:"given,omitempty"`
	// Answered is set if the documents are the recorded answers of another evaluation; nil: they are not.
	Answered *Answered `json:"answered,omitempty"`
	// Board is set if the evaluation adds candidates to the ranking of an earlier one; nil: it does not.
	Board *Board `json:"board,omitempty"`
	// Anchors is set if judges are asked about anchors, which are not ranked; nil: they are not.
	Anchors *Anchors `json:"anchors,omitempty"`
}

// Item is the question that a group of documents answers. Documents without an
// item share one item with the empty ID.
type Item struct {
	ID       string `json:"id"`
	Question string `json:"question,omitempty"`
	// Reference is an answer known to be correct, and Fields are further facts. Templates show both to judges.
	Reference string            `json:"reference,omitempty"`
	Fields    map[string]string `json:"fields,omitempty"`
	// Rubric is set if documents are scored by it; see Single.Rubric.
	Rubric []RubricCriterion `json:"rubric,omitempty"`
	// Categories (sorted) and Facts are never shown to judges. They are not part of an evaluation's identity.
	Categories []string          `json:"categories,omitempty"`
	Facts      map[string]string `json:"facts,omitempty"`
}

// ReferenceFact is the key in Facts of a reference answer that is not shown to judges.
const ReferenceFact = "reference"

// KnownReference returns the item's reference answer, whether it is shown to judges or not; empty if there is none.
func (i Item) KnownReference() string { return cmp.Or(i.Reference, i.Facts[ReferenceFact]) }

// Document is a text to be judged, identified by the hash of its content. The text itself is stored elsewhere: in
// Redis by hash, in the results store, or in memory.
type Document struct {
	ID        string `json:"id"`        // unique in the evaluation
	Item      int    `json:"item"`      // index into Evaluation.Items
	Candidate string `json:"candidate"` // its author or model; the document's own ID by default
	Hash      string `json:"hash"`      // TextHash of its text; empty: the text is not known
	Bytes     int    `json:"bytes"`     // length of its text
	// Turns says that the text is a list of turns (EncodeTurns). Images are those that it shows, each once, or those of a
	// row of prompts in their order.
	Turns  bool    `json:"turns,omitempty"`
	Images []Image `json:"images,omitempty"`
	// Failed are the checks that the text does not pass, ascending. They are not part of an evaluation's identity,
	// because they follow from it.
	Failed []FailedCheck `json:"failed,omitempty"`
}

// JudgesOf returns the judges of a kind's runs: the judges, the agents of a panel, or the models of listed runs or of
// prompts. It returns nil if the evaluation does not have the kind. Not every phase of the kind asks all of them; see
// Escalate.
func (e *Evaluation) JudgesOf(kind Kind) []Judge {
	switch {
	case kind == KindPanel && e.Panel != nil:
		return e.Panel.Agents
	case kind == KindRuns && e.Runs != nil:
		return e.Runs.Models
	case kind == KindPrompts && e.Prompts != nil:
		return e.Prompts.Models
	case kind == KindSingle:
		return e.FirstJudges()
	case kind == KindPairwise:
		return e.Judges
	}
	return nil
}

// Everyone lists all models that the evaluation may call: judges, agents, and the models of listed runs and of
// prompts. Last is the model that writes JSON after them, as a Judge with only Provider and Model.
func (e *Evaluation) Everyone() []Judge {
	everyone := slices.Clone(e.Judges)
	if e.Panel != nil {
		everyone = append(everyone, e.Panel.Agents...)
	}
	if e.Runs != nil {
		everyone = append(everyone, e.Runs.Models...)
	}
	if e.Prompts != nil {
		everyone = append(everyone, e.Prompts.Models...)
	}
	if e.Jsonify != nil {
		everyone = append(everyone, Judge{Provider: e.Jsonify.Provider, Model: e.Jsonify.Model})
	}
	return everyone
}

// Judged reports whether the evaluation shows documents to judges. Listed runs and prompts do not.
func (e *Evaluation) Judged() bool { return e.Single != nil || e.Pairwise != nil || e.Panel != nil }

// Shown returns the documents that the runs of a kind show: judged documents, files of listed runs, or rows of
// prompts. The evaluation must have the kind.
func (e *Evaluation) Shown(kind Kind) []Document {
	switch kind {
	case KindRuns:
		return e.Runs.Files
	case KindPrompts:
		return e.Prompts.Rows
	}
	return e.Documents
}

// ShownAs returns the names by which judges see the documents of one run, in the order shown. They are A, B and so
// on, or the documents' ids if the evaluation is not blind. Judges' answers use these names.
func (e *Evaluation) ShownAs(documents []Document) []string {
	names := make([]string, len(documents))
	for i, d := range documents {
		if names[i] = d.ID; e.Blind {
			names[i] = string(rune('A' + i))
		}
	}
	return names
}

// Everything lists all documents whose texts the runs show: judged documents, files of listed
// runs, and rows of prompts.
func (e *Evaluation) Everything() []Document {
	all := e.Documents
	if e.Runs != nil {
		all = slices.Concat(all, e.Runs.Files)
	}
	if e.Prompts != nil {
		all = slices.Concat(all, e.Prompts.Rows)
	}
	return all
}

// Template returns the text of a kind's prompt template. Package config stores the built-in template here if the file
// names none, so the text is part of the identity and of the recorded evaluation. An empty text means the built-in
// template, or a kind that has none.
func (e *Evaluation) Template(kind Kind) string {
	switch {
	case kind == KindSingle && e.Single != nil:
		return e.Single.Template
	case kind == KindPairwise && e.Pairwise != nil:
		return e.Pairwise.Template
	case kind == KindPanel && e.Panel != nil:
		return e.Panel.Template
	}
	return ""
}

// Grounded reports whether answers of a kind must show that their model searched.
func (e *Evaluation) Grounded(kind Kind) bool { return e.Grounding.holds(kind) }

// Reasoned reports whether answers of a kind must show that their model reasoned.
func (e *Evaluation) Reasoned(kind Kind) bool { return e.Reasoning.holds(kind) }

// Judge is a model, with settings, that gives verdicts. It is also used for an agent of a panel, and for a model that
// answers listed runs or prompts.
type Judge struct {
	Name      string         `json:"name"` // unique; "provider:model" by default
	Provider  string         `json:"provider"`
	Model     string         `json:"model"`
	Overrides map[string]any `json:"overrides,omitempty"` // reasoning_effort, max_completion_tokens, temperature, …
	Prompt    string         `json:"prompt,omitempty"`    // role of an agent of a panel; empty for others
}

// Target returns the judge's "provider:model". If its verdicts were given elsewhere, it has no provider, and Target
// returns its name as it was written.
func (j Judge) Target() string {
	if j.Provider == "" {
		return j.Model
	}
	return j.Provider + ":" + j.Model
}

// Tier returns the service tier that the judge's overrides ask for, such as flex or priority, in lower case. It is
// empty for the tier of list prices, which is also that of judges that ask for none.
func (j Judge) Tier() string {
	for _, key := range []string{"service_tier", "serviceTier"} {
		name, _ := j.Overrides[key].(string)
		switch name = strings.ToLower(name); name {
		case "", "auto", "default", "standard", "standard_only", "on_demand":
		default:
			return name
		}
	}
	return ""
}

// InTier returns the model of the judge in a service tier, without its other overrides.
func (j Judge) InTier(name string) Judge {
	return Judge{Name: j.Name, Provider: j.Provider, Model: j.Model, Overrides: map[string]any{"service_tier": name}}
}

// Kind says what a phase's runs ask.
type Kind string

// The kinds of phases.
const (
	KindSingle   Kind = "single"   // one document, a score for every criterion
	KindPairwise Kind = "pairwise" // two documents of one item, which is better
	KindPanel    Kind = "panel"    // one document, an agent's score on one dimension
	KindRuns     Kind = "runs"     // instructions and an input, an answer in prose
	KindPrompts  Kind = "prompts"  // a prompt as its author wrote it; the answer is taken as it is
)

// Known reports whether this program knows the kind.
func (k Kind) Known() bool {
	switch k {
	case KindSingle, KindPairwise, KindPanel, KindRuns, KindPrompts:
		return true
	}
	return false
}

// Single asks every judge for a score of every document on every criterion.
type Single struct {
	// Rubric means that a judge says of each criterion of Item.Rubric whether the document meets it. Criteria is then
	// RubricName alone, and Scale is RubricScale.
	Rubric   bool        `json:"rubric,omitempty"`
	Criteria []Criterion `json:"criteria"`
	Scale    Scale       `json:"scale"`
	Trials   int         `json:"trials"`             // at least 1
	Template string      `json:"template,omitempty"` // see Evaluation.Template
}

// Criterion is one thing a document is scored on, or two are compared on.
type Criterion struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Scale bounds scores, both ends included. Written [min, max] in files.
type Scale struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Pairwise asks every judge which of two documents of one item is better.
type Pairwise struct {
	Pairs    Pairs  `json:"pairs"`
	Order    Order  `json:"order"`
	Trials   int    `json:"trials"` // at least 1
	Ties     bool   `json:"ties"`   // whether a judge may answer "tie"
	Template string `json:"template,omitempty"`
	// TopN, if it is not 0, compares only that many documents of each item: those with the highest mean of single
	// scores. It needs Single.
	TopN int `json:"top_n,omitempty"`
	// Apart means that documents of one candidate, which are samples of its answers, are not compared with each other.
	// It holds for the modes all, sample and baseline, and excludes swiss.
	Apart bool `json:"apart,omitempty"`
	// Criteria are those on which a judge says which text is better, besides the overall verdict.
	Criteria []Criterion `json:"criteria,omitempty"`
	// Degrees is by how many degrees a text can be better, at least 2 and at most MaxDegrees; 0: verdicts have none.
	Degrees int `json:"degrees,omitempty"`
	// Soft asks for log probabilities, so that a verdict says how probable each of the possible ones was.
	Soft bool `json:"soft,omitempty"`
}

// Pairs says which pairs are compared. Only the field of its Mode is set.
type Pairs struct {
	Mode   PairMode `json:"mode"`
	Sample float64  `json:"sample,omitempty"` // share of all pairs, in (0, 1]
	Share  float64  `json:"share,omitempty"`  // for swiss: share of all pairs, in (0, 1]
	Listed [][2]int `json:"listed,omitempty"` // document indexes, as listed in the file
	// Baseline is the candidate whose documents are compared with those of every other.
	Baseline string `json:"baseline,omitempty"`
	// Newcomers, for grown, are the candidates that are added to a ranking, sorted. Listed has none of their pairs: it
	// has the recorded ones of the ranking, with the document shown first in front if there is one order.
	Newcomers []string `json:"newcomers,omitempty"`
	// Opponents, for grown, is how many documents each document of a newcomer is compared with at most.
	Opponents int `json:"opponents,omitempty"`
}

// Panel asks every agent for a score of every document on every dimension.
type Panel struct {
	Agents     []Judge     `json:"agents"`
	Dimensions []Dimension `json:"dimensions"`
	Scale      Scale       `json:"scale"`
	Template   string      `json:"template,omitempty"`
}

// Dimension is one thing that the agents of a panel score.
type Dimension struct {
	ID          string `json:"id"` // unique
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
}

// Runs are single runs, each with its own model and files. They are not ranked.
type Runs struct {
	JSON   JSONMode   `json:"json,omitempty"` // of their answers; empty: answers are prose
	Models []Judge    `json:"models"`         // each combination of model and settings once
	Files  []Document `json:"files"`          // each once, in the order in which they are named
	List   []FileRun  `json:"list"`
}

// FileRun is one of Runs: its instructions and their input.
type FileRun struct {
	ID    string `json:"id"`     // unique
	Model int    `json:"model"`  // index into Runs.Models
	FileA int    `json:"file_a"` // index into Runs.Files: the instructions
	FileB int    `json:"file_b"` // index into Runs.Files: the input
}

// Prompts are prompts as their author wrote them, each with its own model.
type Prompts struct {
	Format PromptFormat `json:"format"` // how Rows are written
	Models []Judge      `json:"models"` // each combination of model and settings once
	// Rows are the JSON lines as they were written, each text once and in the order of first use. Their ids are "line
	// N".
	Rows []Document `json:"rows"`
	List []Prompt   `json:"list"`
}

// Prompt is one of Prompts.
type Prompt struct {
	ID    string `json:"id"`    // unique: the run's own name
	Model int    `json:"model"` // index into Prompts.Models
	Row   int    `json:"row"`   // index into Prompts.Rows
}

// PromptFormat says how the rows of Prompts are written.
type PromptFormat string

// The formats of prompts.
const (
	PromptsExperiment PromptFormat = "experiment" // lines of prompto's experiment files
	PromptsBatch      PromptFormat = "batch"      // lines of OpenAI's Batch files
	// PromptsTemplates are the prompts of an evaluation file, filled in for each item. A row has only the key prompt of
	// an experiment's line. Judges compare the answers in a second evaluation; see Answered.
	PromptsTemplates PromptFormat = "templates"
)

// Answered says which evaluation of Prompts made the documents, and what its candidates are.
type Answered struct {
	Evaluation ID          `json:"evaluation"`
	Candidates []Candidate `json:"candidates"`
	// Missing lists the ids of the documents that do not exist, because no model gave that answer; sorted.
	Missing []string `json:"missing,omitempty"`
}

// Candidate is a model together with the prompt that it answered.
type Candidate struct {
	Name   string `json:"name"`   // Document.Candidate of its answers
	Prompt string `json:"prompt"` // the prompt's name
	Model  string `json:"model"`  // the name of one of Prompts.Models
}

// Jsonify is the model, with settings, that turns prose into JSON for models that cannot do both at once.
type Jsonify struct {
	Provider        string   `json:"provider"`
	Model           string   `json:"model"`
	Temperature     *float64 `json:"temperature,omitempty"` // nil: the provider's default
	MaxOutputTokens int      `json:"max_output_tokens,omitempty"`
}

// PairMode is a way of choosing pairs.
type PairMode string

// The ways of choosing pairs.
const (
	PairsAll      PairMode = "all"
	PairsSample   PairMode = "sample"
	PairsListed   PairMode = "listed"
	PairsBaseline PairMode = "baseline"
	PairsSwiss    PairMode = "swiss" // in rounds, each based on the ranking so far
	PairsGrown    PairMode = "grown" // recorded pairs, and then newcomers in rounds, each based on the ranking so far
)

// Order says in which order the two documents of a pair are shown.
type Order string

// The orders. OrderBoth makes two runs of every pair.
const (
	OrderBoth     Order = "both"
	OrderRandom   Order = "random" // one run; the evaluation's identity decides the order
	OrderAsListed Order = "as_listed"
	// OrderUnknown is the order of verdicts that were given elsewhere, if it was not recorded.
	OrderUnknown Order = "unknown"
)

// JSONMode says whether a provider is asked for structured output.
type JSONMode string

// The JSON modes.
const (
	JSONAuto  JSONMode = "auto"
	JSONTrue  JSONMode = "true"
	JSONFalse JSONMode = "false"
)

// JSONOf returns the JSON mode of the runs of a kind.
func (e *Evaluation) JSONOf(kind Kind) JSONMode {
	switch kind {
	case KindRuns:
		return cmp.Or(e.Runs.JSON, JSONFalse)
	case KindPrompts:
		return JSONFalse
	}
	return e.JSON
}

// Requirement says whether answers must give evidence. If it is empty, listed runs must and others need not.
type Requirement string

// The requirements.
const (
	Off      Requirement = "off"
	Required Requirement = "required"
)

func (r Requirement) holds(kind Kind) bool {
	return r == Required || r == "" && kind == KindRuns
}

// State says whether and how a run has ended.
type State uint8

// The states of a run. Their numbers are stored (docs/formats.md).
const (
	StateNone      State = 0 // not ended
	StateSucceeded State = 1
	StateFailed    State = 2
	StateCancelled State = 3
)

// String returns the state as results contain it: "none", "succeeded", "failed" or "cancelled".
func (s State) String() string {
	switch s {
	case StateSucceeded:
		return "succeeded"
	case StateFailed:
		return "failed"
	case StateCancelled:
		return "cancelled"
	default:
		return "none"
	}
}

// ParseState reads a state in the form that String returns. ok is false for any other word.
func ParseState(word string) (state State, ok bool) {
	for state := StateNone; state <= StateCancelled; state++ {
		if state.String() == word {
			return state, true
		}
	}
	return StateNone, false
}

// Tie is the winner of a comparison that neither document won. No document may have it as its id.
const Tie = "tie"
