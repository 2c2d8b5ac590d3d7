package reuse

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
)

// questionVersion is part of every digest. It changes when a judge is shown something that the digests do not cover.
const questionVersion = 1

// digest identifies a question: equal digests mean that a model is asked exactly the same, in the same way.
type digest [16]byte

// questions computes the digests of one evaluation's runs of a kind.
type questions struct {
	e     *eval.Evaluation
	kind  eval.Kind
	shown []eval.Document
	asked []digest // of each judge with everything that is the same in all its runs
	items []digest // of what judges are shown of each item besides the documents
}

// asked contains what is the same in all runs of a judge. Names of judges and of evaluations are not part of it.
type asked struct {
	Version   int              `json:"v"`
	Kind      eval.Kind        `json:"kind"`
	Provider  string           `json:"provider"`
	Model     string           `json:"model"`
	Overrides map[string]any   `json:"overrides"`
	Template  string           `json:"template"`
	Criteria  []eval.Criterion `json:"criteria"`
	Scale     eval.Scale       `json:"scale"`
	Ties      bool             `json:"ties"`
	Degrees   int              `json:"degrees,omitzero"`
	Soft      bool             `json:"soft,omitzero"`
	JSON      eval.JSONMode    `json:"json"`
	Jsonify   *eval.Jsonify    `json:"jsonify"`
	Grounded  bool             `json:"grounded"`
	Reasoned  bool             `json:"reasoned"`
	Again     string           `json:"again"` // --again exists to ask once more
}

// reusable reports whether the answers of a kind can be used again. Listed runs and experiments are asked as often as
// their author wrote them, and agents of a panel may be asked about several dimensions at once.
func reusable(e *eval.Evaluation, kind eval.Kind) bool {
	switch kind {
	case eval.KindSingle:
		return e.Single != nil
	case eval.KindPairwise:
		return e.Pairwise != nil
	case eval.KindPrompts:
		return e.Prompts != nil && e.Prompts.Format == eval.PromptsTemplates
	}
	return false
}

func newQuestions(e *eval.Evaluation, kind eval.Kind) *questions {
	q := &questions{e: e, kind: kind, shown: e.Shown(kind), items: make([]digest, len(e.Items))}
	for _, judge := range e.JudgesOf(kind) {
		a := asked{
			Version: questionVersion, Kind: kind, Provider: judge.Provider, Model: judge.Model, Overrides: judge.Overrides,
			Template: e.Template(kind), JSON: e.JSONOf(kind), Jsonify: e.Jsonify,
			Grounded: e.Grounded(kind), Reasoned: e.Reasoned(kind), Again: e.Again,
		}
		switch kind {
		case eval.KindSingle:
			if a.Criteria = e.Single.Criteria; !e.Single.Rubric { // the scale of rubrics follows from their points
				a.Scale = e.Single.Scale
			}
		case eval.KindPairwise:
			a.Ties, a.Criteria, a.Degrees = e.Pairwise.Ties, e.Pairwise.Criteria, e.Pairwise.Degrees
			a.Soft = e.Pairwise.Soft
		}
		q.asked = append(q.asked, digestOf(a))
	}

	for i, item := range e.Items {
		facts := []any{item.Question, item.Reference, item.Fields}
		if kind == eval.KindSingle && len(item.Rubric) > 0 { // judges do not see points and tags
			var criteria []string
			for _, criterion := range item.Rubric {
				criteria = append(criteria, criterion.Text)
			}
			facts = append(facts, criteria)
		}
		q.items[i] = digestOf(facts)
	}
	return q
}

// of returns the digest of the question that a judge is asked in a trial. For a question about one document, pass -1 as
// second. It returns false if it does not know a text.
func (q *questions) of(judge, first, second, trial int) (d digest, ok bool) {
	room := [256]byte{}
	text := append(room[:0], q.asked[judge][:]...)
	if q.kind != eval.KindPrompts { // a prompt's row has all that it says
		text = append(text, q.items[q.shown[first].Item][:]...)
	}
	text = binary.AppendUvarint(text, uint64(trial))

	documents := [2]int{first, second}
	for _, i := range documents[:count(second)] {
		document := q.shown[i]
		if document.Hash == "" {
			return d, false
		}
		text = append(text, document.Hash...)
		text = append(text, 0)
		if q.kind != eval.KindPrompts && !q.e.Blind {
			text = append(text, document.ID...)
			text = append(text, 0)
		}
	}
	sum := sha256.Sum256(text)
	return digest(sum[:]), true
}

// count returns the number of documents that a run shows, by its second one.
func count(second int) int {
	if second < 0 {
		return 1
	}
	return 2
}

func digestOf(v any) digest {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("reuse: encode: %v", err)) // cannot happen: evaluations are stored as JSON
	}
	sum := sha256.Sum256(raw)
	return digest(sum[:])
}
