package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// EntryVersion is the version of a results entry.
const EntryVersion = 1

// Fields of a results stream entry. An entry always has EntryField and at least one of the others.
const (
	EntryField = "v"     // EntryVersion
	RunField   = "run"   // one Run as JSON
	CallsField = "calls" // a JSON array of Call
	JobField   = "job"   // one Job as JSON, at its submission
)

// Run is the recorded outcome of one run. It names its documents and judge in full, so that
// draining it needs no plan.
type Run struct {
	Phase      int       `json:"phase"`
	Index      int       `json:"index"`
	Generation int       `json:"generation"`
	Kind       eval.Kind `json:"kind"`
	Name       string    `json:"name,omitempty"` // a listed run's or a prompt's own id
	State      string    `json:"state"`          // eval.State.String
	Queue      string    `json:"queue"`

	Judge      string   `json:"judge"`
	Model      string   `json:"model"`                 // provider:model asked
	AnsweredBy string   `json:"answered_by,omitempty"` // provider:model that answered; empty if none did
	Item       string   `json:"item"`
	Documents  []string `json:"documents"`           // 1 or 2, in the order shown; listed run: instructions, input
	Candidates []string `json:"candidates"`          // of Documents
	Trial      int      `json:"trial"`               // from 1
	Dimension  string   `json:"dimension,omitempty"` // panel: the dimension that its Judge, an agent, was asked about

	Winner string `json:"winner,omitempty"` // pairwise: a document id, or eval.Tie
	Degree int    `json:"degree,omitempty"` // pairwise: by how much it is better (eval.DegreeWords); 0: a tie, or no degrees
	// Chances are those of the possible verdicts on a pair, if the judge's tokens tell them; nil: they do not.
	Chances *eval.Chances `json:"chances,omitempty"`
	// Criteria holds the verdicts of a pair by criterion. Those that the judge left out are missing.
	Criteria []Preference `json:"criteria,omitempty"`
	// Reason holds, for a pair, the judge's reason, or "identical" when no judge was asked. For a
	// panel whose run failed, it holds the text that replaces the argument.
	Reason string  `json:"reason,omitempty"`
	Scores []Score `json:"scores,omitempty"` // single: by criterion; panel: the one of its dimension
	Answer string  `json:"answer,omitempty"` // listed run or prompt: the text of the answer, unchanged
	// Answers holds all answers in order, for a prompt of several turns or one that asks for
	// several answers. Answer is empty then.
	Answers []string `json:"answers,omitempty"`
	Finish  string   `json:"finish,omitempty"` // listed run or prompt: why the last answer ends (providers.Finish)

	Class    providers.Class `json:"class,omitempty"` // of the failure; empty: it succeeded
	Error    string          `json:"error,omitempty"`
	Attempts int             `json:"attempts"` // calls made, over all workers
	Started  time.Time       `json:"started"`  // when the run first asked to make a call
	Ended    time.Time       `json:"ended"`
	Worker   string          `json:"worker"`
	Tally
}

// Preference is the verdict on a pair by one criterion.
type Preference struct {
	Criterion string `json:"criterion"`
	Winner    string `json:"winner"` // a document id, or eval.Tie
	Degree    int    `json:"degree,omitempty"`
}

// Score is one criterion's score.
type Score struct {
	Criterion string  `json:"criterion"`
	Score     float64 `json:"score"`
	Reason    string  `json:"reason"`
}

// Streak returns how the outcome changes the streaks of failures. It adds a failure of class to
// provider's streak, or ends that streak if class is empty. If provider is empty, the outcome
// changes no streak.
func (r Run) Streak() (provider string, class providers.Class) {
	switch {
	case r.Class == "":
		return providerOf(r.AnsweredBy), ""
	case Streaks(r.Class):
		return providerOf(r.Model), r.Class
	}
	return "", ""
}

// RunID returns the run's identifier within evaluation id.
func (r Run) RunID(id eval.ID) eval.RunID {
	return eval.RunID{Evaluation: id, Phase: r.Phase, Index: r.Index}
}

// Known returns the documents by the names that people know. A prompt has its own id: its document is only a line of
// its file.
func (r Run) Known() []string { return known(r.Kind, r.Name, r.Documents) }

func known(kind eval.Kind, name string, documents []string) []string {
	if kind == eval.KindPrompts && name != "" {
		return []string{name}
	}
	return documents
}

// Call is one request to a provider, recorded as it ended. It is recorded also when its run's
// result was discarded, because it was paid for.
type Call struct {
	ID        string           `json:"id"` // unique: "<phase>.<index>.<generation>-<worker>-<n>", and "@<account>" if there are several
	Phase     int              `json:"phase"`
	Index     int              `json:"index"`
	Stage     string           `json:"stage"`             // "answer", "verdict", "grounded", "json", "repair"
	Model     string           `json:"model"`             // provider:model called
	Account   string           `json:"account,omitempty"` // of the provider: openai/eu; empty: it has one only
	Attempt   int              `json:"attempt"`
	Asked     time.Time        `json:"asked"`   // when admission was requested
	Started   time.Time        `json:"started"` // when the request was written
	Ended     time.Time        `json:"ended"`
	BoundBy   string           `json:"bound_by,omitempty"` // id of the limit that it waited for last
	Status    int              `json:"status"`             // HTTP; 0 without a response
	Class     providers.Class  `json:"class,omitempty"`    // of the failure; empty: it was answered
	Error     string           `json:"error,omitempty"`
	MaybeBill bool             `json:"may_be_billed,omitempty"` // failed, but possibly charged
	RequestID string           `json:"request_id,omitempty"`
	Named     string           `json:"named,omitempty"`    // the provider's name of the model that answered
	Usage     providers.Usage  `json:"usage"`              // its cost is by Price, unless the provider reported it
	Price     *providers.Price `json:"price,omitempty"`    // used to compute the cost
	MostUSD   *float64         `json:"most_usd,omitempty"` // at most, if the cost is unknown
	Text      string           `json:"text,omitempty"`     // the answer
	Finish    string           `json:"finish,omitempty"`
	// Dropped lists the fields that were asked for and not sent, because the model refuses them:
	// "temperature", …
	Dropped []string `json:"dropped,omitempty"`
	// Grounding and Reasoning are evidence that the provider searched and the model reasoned, if
	// the answer shows it. Evidence sets them.
	Grounding  *providers.Grounding `json:"grounding,omitempty"`
	Reasoning  string               `json:"reasoning,omitempty"`
	Worker     string               `json:"worker"`
	Generation int                  `json:"generation"`
	// Key is equal for calls with the same content, in hexadecimal; empty if answers are not
	// reused. Cached means that the answer is that of an earlier call with this Key, and that no
	// call was made. Started is zero then, and nothing was used or charged.
	Key    string `json:"key,omitempty"`
	Cached bool   `json:"cached,omitempty"`
}

// CalledAt returns the model and where it was called: "openai:gpt-5", or "openai/eu:gpt-5" at one of several accounts.
func (c Call) CalledAt() string {
	_, model, ok := strings.Cut(c.Model, ":")
	if c.Account == "" || !ok {
		return c.Model
	}
	return c.Account + ":" + model
}

// Saved returns what the provider's prompt cache saved of the call's cost, in USD; below 0, it cost more than it saved.
// It returns known as false unless the cost was computed from a price and reported usage.
func (c *Call) Saved() (usd float64, known bool) {
	if c.Price == nil || !c.Usage.Reported || c.Usage.CostUSD == nil {
		return 0, false
	}
	return float64(c.Price.Saved(c.Usage)) / ratelimit.Dollar, true
}

// Job is a call that runs at the provider while no process waits for it, or a batch of such calls. Any worker may poll it.
// Its times are on Redis's clock; in records of earlier releases, Ends and the times of Call are on
// the clock of a worker.
type Job struct {
	ID   string    `json:"id"`   // the provider's name for it
	Ends time.Time `json:"ends"` // when the worker gives it up
	Call Call      `json:"call"` // as it began
	// Input and Cost are its reservation.
	Input  int64 `json:"input,omitempty"`
	Output int64 `json:"output,omitempty"`
	Cost   int64 `json:"cost,omitempty"` // nano-USD
	// Runs is how many runs a batch asks, and To the position in the queue before which they are; 0: the job is no
	// batch, and asks one run.
	Runs int `json:"runs,omitempty"`
	To   int `json:"to,omitempty"`
	// Lease counts the job under the limits.
	Lease ratelimit.Background `json:"lease,omitzero"`
}

// Timeout returns how long the job may take in all.
func (j Job) Timeout() time.Duration { return j.Ends.Sub(j.Call.Started) }

// Left returns how much of its time a job has left at now, a time on Redis's clock. It is negative
// once the job is late, and never more than Timeout, even if that clock was set back.
func (j Job) Left(now time.Time) time.Duration {
	began := j.Call.Started
	if j.Lease.Start > 0 {
		began = time.UnixMicro(j.Lease.Start)
	}
	return min(j.Timeout()-now.Sub(began), j.Timeout())
}

// Entry is one entry of an evaluation's results stream.
type Entry struct {
	Run   *Run
	Calls []Call
	Job   *Job
}

// Values returns the entry's fields and values alternately, in the order of docs/formats.md.
func (e Entry) Values() []string {
	values := []string{EntryField, fmt.Sprint(EntryVersion)}
	if e.Run != nil {
		values = append(values, RunField, mustJSON(e.Run))
	}
	if len(e.Calls) > 0 {
		values = append(values, CallsField, mustJSON(e.Calls))
	}
	if e.Job != nil {
		values = append(values, JobField, mustJSON(e.Job))
	}
	return values
}

// ErrOtherVersion means that a program of another version wrote the entry.
var ErrOtherVersion = errors.New("collect with the program that wrote it")

// DecodeEntry reads a stream entry's values. The error is ErrOtherVersion if a program of another
// version wrote them.
func DecodeEntry(values map[string]any) (Entry, error) {
	v, _ := values[EntryField].(string)
	if n, err := strconv.Atoi(v); err != nil || n < 1 {
		return Entry{}, fmt.Errorf("results entry has version %.20q: this program knows %d", v, EntryVersion)
	}
	if v != strconv.Itoa(EntryVersion) {
		return Entry{}, fmt.Errorf("results entry has version %s, this program knows %d: %w", v, EntryVersion, ErrOtherVersion)
	}
	var e Entry
	if raw, ok := values[RunField].(string); ok {
		if err := json.Unmarshal([]byte(raw), &e.Run); err != nil {
			return Entry{}, fmt.Errorf("decode run of results entry: %w", err)
		}
	}

	if raw, ok := values[CallsField].(string); ok {
		if err := json.Unmarshal([]byte(raw), &e.Calls); err != nil {
			return Entry{}, fmt.Errorf("decode calls of results entry: %w", err)
		}
	}

	if raw, ok := values[JobField].(string); ok {
		if err := json.Unmarshal([]byte(raw), &e.Job); err != nil {
			return Entry{}, fmt.Errorf("decode job of results entry: %w", err)
		}
	}

	return e, nil
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("record: encode: %v", err)) // cannot happen: plain data only
	}
	return string(raw)
}
