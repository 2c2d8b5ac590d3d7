package eval

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ID is an evaluation's identifier: "ev-" and 12 characters of a–z and 2–7.
type ID string

// Valid reports whether the identifier has that form.
func (id ID) Valid() bool {
	digits, ok := strings.CutPrefix(string(id), "ev-")
	return ok && len(digits) == 12 && strings.Trim(digits, idDigits) == ""
}

// RunID is a run's identifier: "<evaluation>.<phase>.<index>".
type RunID struct {
	Evaluation ID
	Phase      int
	Index      int
}

// String returns the whole identifier.
func (r RunID) String() string {
	return string(r.Evaluation) + "." + r.Short()
}

// Short returns "<phase>.<index>", for use where the evaluation is known.
func (r RunID) Short() string {
	return strconv.Itoa(r.Phase) + "." + strconv.Itoa(r.Index)
}

// Cell returns the identifier without its evaluation as exported tables have it: "r<phase>-<index>". No program takes
// it for a number, as many take Short: 0.1 and 0.10 are then the same run.
func (r RunID) Cell() string {
	return "r" + strconv.Itoa(r.Phase) + "-" + strconv.Itoa(r.Index)
}

// ParseRunID reads a whole run identifier. It accepts only the form that String returns.
func ParseRunID(s string) (RunID, error) {
	evaluation, short, _ := strings.Cut(s, ".")
	if evaluation == "" || !strings.Contains(short, ".") {
		return RunID{}, fmt.Errorf("run id %q: want <evaluation>.<phase>.<index>", s)
	}
	id, err := parseShort(short)
	if err != nil {
		return RunID{}, fmt.Errorf("run id %q: %w", s, err)
	}
	if id.Evaluation = ID(evaluation); id.String() != s { // rejects signs and leading zeros
		return RunID{}, fmt.Errorf("run id %q: write it as %s", s, id)
	}
	return id, nil
}

// ParseShort reads a run identifier without its evaluation. It accepts only the forms that Short and Cell return.
func ParseShort(s string) (id RunID, ok bool) {
	short := s
	if cell, is := strings.CutPrefix(s, "r"); is {
		short = strings.Replace(cell, "-", ".", 1)
	}
	id, err := parseShort(short)
	if err != nil || s != id.Short() && s != id.Cell() {
		return RunID{}, false
	}
	return id, true
}

func parseShort(s string) (RunID, error) {
	phase, index, _ := strings.Cut(s, ".")
	p, err := strconv.Atoi(phase)
	if err != nil || p < 0 {
		return RunID{}, fmt.Errorf("phase %q is not a number", phase)
	}
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 {
		return RunID{}, fmt.Errorf("index %q is not a number", index)
	}
	return RunID{Phase: p, Index: i}, nil
}

const idDigits = "abcdefghijklmnopqrstuvwxyz234567"

var idEncoding = base32.NewEncoding(idDigits).WithPadding(base32.NoPadding)

// ID derives the evaluation's identifier from everything that it asks, so the same submission has the same identifier
// wherever and whenever it is made. Call Normalize first: the order of documents is part of the identity.
//
// ID hashes the evaluation as it is read back from storage, so that both have the same identifier. JSON changes integers
// above 2^53, which only judges' overrides have, and bytes that are not UTF-8. A million documents take a second or two.
func (e *Evaluation) ID() ID {
	stored := *e
	stored.Judges = decoded(e.Judges)
	if e.Panel != nil {
		panel := *e.Panel
		panel.Agents, stored.Panel = decoded(panel.Agents), &panel
	}
	if e.Runs != nil {
		runs := *e.Runs
		runs.Models, stored.Runs = decoded(runs.Models), &runs
	}
	if e.Prompts != nil {
		prompts := *e.Prompts
		prompts.Models, stored.Prompts = decoded(prompts.Models), &prompts
	}

	raw := stored.encode()
	if bytes.Contains(raw, []byte(`\ufffd`)) { // the encoder's mark of bytes that are not UTF-8
		stored = Evaluation{}
		if err := json.Unmarshal(raw, &stored); err != nil {
			panic(fmt.Sprintf("eval: decode encoded evaluation: %v", err)) // cannot fail
		}
		raw = stored.encode()
	}
	return hashed(raw)
}

// decoded returns judges as they are read back from storage.
func decoded(judges []Judge) []Judge {
	if !slices.ContainsFunc(judges, func(j Judge) bool { return len(j.Overrides) > 0 }) {
		return judges
	}
	raw, err := json.Marshal(judges)
	var stored []Judge
	if err == nil {
		err = json.Unmarshal(raw, &stored)
	}
	if err != nil { // Overrides hold a value that JSON cannot; config rejects those
		panic(fmt.Sprintf("eval: encode judges: %v", err))
	}
	return stored
}

// StoredID returns the same as ID, in less time, for an evaluation that was decoded from its stored form.
func (e *Evaluation) StoredID() ID { return hashed(e.encode()) }

func hashed(encoded []byte) ID {
	sum := sha256.Sum256(encoded)
	return ID("ev-" + idEncoding.EncodeToString(sum[:])[:12])
}

func (e *Evaluation) encode() []byte {
	asked := *e
	asked.Items = slices.Clone(e.Items)
	for i := range asked.Items {
		asked.Items[i].Categories, asked.Items[i].Facts = nil, nil
	}
	if slices.ContainsFunc(e.Documents, func(d Document) bool { return d.Failed != nil }) {
		asked.Documents = slices.Clone(e.Documents)
		for i := range asked.Documents {
			asked.Documents[i].Failed = nil
		}
	}
	if e.Given != nil {
		given := *e.Given
		given.Files = nil
		asked.Given = &given
	}
	if e.Board != nil {
		asked.Board = &Board{Evaluation: e.Board.Evaluation}
	}
	if e.Anchors != nil {
		asked.Anchors = &Anchors{Of: e.Anchors.Of}
	}

	raw, err := json.Marshal(&asked)
	if err != nil { // Overrides hold a value that JSON cannot; config rejects those
		panic(fmt.Sprintf("eval: encode evaluation: %v", err))
	}
	return raw
}

// Normalize sorts items and documents by their ids and renumbers references to them. The identity then does not
// depend on the order in which files were found. Judges, listed runs and prompts keep their order. Requirements on
// answers get one canonical form, so that equal effects have equal values.
func (e *Evaluation) Normalize() {
	e.PlanVersion = PlanVersion
	e.Grounding, e.Reasoning = e.canonical(e.Grounding), e.canonical(e.Reasoning)
	items := rank(len(e.Items), func(a, b int) int { return cmp.Compare(e.Items[a].ID, e.Items[b].ID) })
	e.Items = permute(e.Items, items)
	newItem := invert(items)
	for i := range e.Documents {
		e.Documents[i].Item = newItem[e.Documents[i].Item]
	}
	if e.Runs != nil {
		for i := range e.Runs.Files {
			e.Runs.Files[i].Item = newItem[e.Runs.Files[i].Item]
		}
	}

	if e.Prompts != nil {
		for i := range e.Prompts.Rows {
			e.Prompts.Rows[i].Item = newItem[e.Prompts.Rows[i].Item]
		}
	}

	docs := rank(len(e.Documents), func(a, b int) int {
		x, y := e.Documents[a], e.Documents[b]
		return cmp.Or(cmp.Compare(x.Item, y.Item), cmp.Compare(x.ID, y.ID))
	})
	e.Documents = permute(e.Documents, docs)
	if e.Pairwise == nil {
		return
	}
	newDoc := invert(docs)
	listed := slices.Clone(e.Pairwise.Pairs.Listed)
	for i, pair := range listed {
		listed[i] = [2]int{newDoc[pair[0]], newDoc[pair[1]]}
	}
	e.Pairwise.Pairs.Listed = listed
}

// canonical returns the canonical form of a requirement: of all values with the same effect on this evaluation, the one
// that is stored.
func (e *Evaluation) canonical(r Requirement) Requirement {
	judged := e.Single != nil || e.Pairwise != nil || e.Panel != nil
	switch {
	case e.Runs == nil && r == Off:
		return ""
	case e.Runs != nil && !judged && r == "":
		return Required
	}
	return r
}

// rank returns the permutation that sorts n things. Its k-th entry is the old position of the k-th smallest.
func rank(n int, compare func(a, b int) int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	return order
}

func permute[T any](values []T, order []int) []T {
	out := make([]T, len(order))
	for k, old := range order {
		out[k] = values[old]
	}
	return out
}

func invert(order []int) []int {
	inverse := make([]int, len(order))
	for k, old := range order {
		inverse[old] = k
	}
	return inverse
}

// TextHash returns the identity of a document's text: the first 32 hexadecimal characters of its SHA-256.
func TextHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// QuestionID returns the id of an item that is known by its question alone.
func QuestionID(question string) string {
	sum := sha256.Sum256([]byte(question))
	return "q-" + hex.EncodeToString(sum[:6])
}

// ParseTarget splits "provider:model" at the first colon, so that model names may contain colons
// ("ollama:llama3:8b").
func ParseTarget(s string) (provider, model string, err error) {
	provider, model, ok := strings.Cut(s, ":")
	if !ok || provider == "" || model == "" {
		return "", "", fmt.Errorf("%q: want provider:model, for example openai:gpt-5-mini", s)
	}
	return provider, model, nil
}
