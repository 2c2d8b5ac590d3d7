package eval

// Check is a test of every judged text that needs no model: the text passes or fails. Documents have the outcome; see
// Document.Failed.
type Check struct {
	Name string    `json:"name"` // unique
	Kind CheckKind `json:"kind"`
	// Value is what the kind compares with: a text, a pattern, a number of words or a JSON schema. Texts may have
	// variables; see package check.
	Value string `json:"value"`
	// Gate means that a text that fails loses against each that passes every gate, without a call to a judge.
	Gate bool `json:"gate,omitempty"`
	// Hash identifies the values of the variables, and the files that a command names; empty without any. Values may be
	// facts about items, which are not part of an evaluation's identity by themselves.
	Hash string `json:"hash,omitempty"`
}

// Label returns the check's name, and says whether it is a gate.
func (c Check) Label() string {
	if c.Gate {
		return c.Name + " (gate)"
	}
	return c.Name
}

// CheckKind is a way of testing a text.
type CheckKind string

// The kinds of checks.
const (
	CheckContains    CheckKind = "contains"
	CheckNotContains CheckKind = "not_contains"
	CheckEquals      CheckKind = "equals" // apart from white space around it
	CheckRegex       CheckKind = "regex"
	CheckMaxWords    CheckKind = "max_words"
	CheckJSONSchema  CheckKind = "json_schema" // all of the text is JSON that conforms
	// CheckCommand passes a text if a program that reads it exits with 0. The evaluation's submitter runs it; the value is
	// a JSON list of the program and its arguments.
	CheckCommand CheckKind = "command"
)

// FailedCheck says which check a text did not pass, and why.
type FailedCheck struct {
	Check int    `json:"check"` // position in Evaluation.Checks
	Why   string `json:"why,omitempty"`
}

// Barred returns the first gate that a document fails; ok is false if it passes all.
func (e *Evaluation) Barred(d Document) (gate Check, ok bool) {
	for _, failed := range d.Failed {
		if failed.Check < len(e.Checks) && e.Checks[failed.Check].Gate {
			return e.Checks[failed.Check], true
		}
	}
	return Check{}, false
}

// Decided returns the verdict on two documents that follows without a judge: identical texts tie, and so do texts that
// fail a gate; otherwise, one that fails a gate loses. winner is a document's id, or Tie. ok is false if a judge has to
// be asked.
func (e *Evaluation) Decided(first, second Document) (winner, reason string, ok bool) {
	if first.Hash == second.Hash {
		return Tie, ReasonIdentical, true
	}
	gate1, barred1 := e.Barred(first)
	gate2, barred2 := e.Barred(second)
	switch {
	case barred1 && barred2:
		return Tie, ReasonGates, true
	case barred1:
		return second.ID, reasonGate + gate1.Name, true
	case barred2:
		return first.ID, reasonGate + gate2.Name, true
	}
	return "", "", false
}

// Reasons of verdicts for which no judge is asked.
const (
	ReasonIdentical = "identical" // texts
	ReasonGates     = "gates: both fail"
	reasonGate      = "gate: " // and the name of the check
)
