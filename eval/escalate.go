package eval

// Escalate says that the last of Evaluation.Judges, the strong judge, sees only some of the pairs: those that the other
// judges contest, and a random sample of the others. The ranking is then the strong judge's.
type Escalate struct {
	When []Doubt `json:"when"` // each of them makes a pair contested; in the order of Doubts
	// Share is the part of the uncontested pairs that the strong judge sees, above 0 and at most 1. Without any, nothing
	// would show how it differs from the other judges there.
	Share float64 `json:"share"`
}

// Doubt is a reason why a pair is contested.
type Doubt string

// The doubts.
const (
	DoubtDisagree Doubt = "disagree" // judges prefer different documents, or one prefers neither
	DoubtFlip     Doubt = "flip"     // a judge says something else if the documents are shown in the other order
	DoubtClose    Doubt = "close"    // both documents have equally many verdicts
)

// Doubts lists all doubts.
func Doubts() []Doubt { return []Doubt{DoubtDisagree, DoubtFlip, DoubtClose} }

// Strong returns the position in Judges of the judge that sees only some pairs; -1: there is none.
func (e *Evaluation) Strong() int {
	if e.Escalate == nil || e.Pairwise == nil {
		return -1
	}
	return len(e.Judges) - 1
}

// FirstJudges returns the judges that see everything.
func (e *Evaluation) FirstJudges() []Judge {
	if strong := e.Strong(); strong >= 0 {
		return e.Judges[:strong]
	}
	return e.Judges
}
