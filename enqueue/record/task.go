package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Versions of Task's JSON. A task that is asked in a batch has the second: programs that know only the first would ask
// its run alone, and none of the others.
const (
	TaskVersion      = 1
	TaskVersionBatch = 2
)

// MostInBatch bounds how many positions of a queue a task may name.
const MostInBatch = 1 << 20

// Task is the payload of one asynq task, which represents one run. It holds no document text and no
// key. The task's asynq type is its Kind.
type Task struct {
	Version    int       `json:"v"`
	Evaluation eval.ID   `json:"evaluation"`
	Phase      int       `json:"phase"`
	Index      int       `json:"index"`
	Generation int       `json:"generation"`
	Kind       eval.Kind `json:"kind"`
	Name       string    `json:"name,omitempty"`      // a listed run's or a prompt's own id
	Model      string    `json:"model"`               // provider:model
	Agent      string    `json:"agent,omitempty"`     // of a panel
	Dimension  string    `json:"dimension,omitempty"` // of a panel: by id
	Documents  []string  `json:"documents"`
	// Batch is where in the queue the runs are that are asked in one batch with this one, which leads them; nil: the
	// run is asked alone.
	Batch *Span `json:"batch,omitempty"`
}

// Span is a range of positions in a phase's part of a queue: from From on and before To.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Provider returns the provider of the current model.
func (t Task) Provider() string { return providerOf(t.Model) }

func providerOf(target string) string {
	provider, _, _ := strings.Cut(target, ":")
	return provider
}

// RunID returns the id of the task's run.
func (t Task) RunID() eval.RunID {
	return eval.RunID{Evaluation: t.Evaluation, Phase: t.Phase, Index: t.Index}
}

// Shown returns the run's id as shown where its evaluation is clear: a listed run's or a prompt's
// own id, else "<phase>.<index>".
func (t Task) Shown() string { return cmp.Or(t.Name, t.RunID().Short()) }

// Known returns the documents as Run.Known does.
func (t Task) Known() []string { return known(t.Kind, t.Name, t.Documents) }

// ID returns the asynq task id: "<evaluation>.<phase>.<index>.<generation>".
func (t Task) ID() string {
	return t.RunID().String() + "." + strconv.Itoa(t.Generation)
}

// Encode returns the task as the JSON payload of an asynq task.
func (t Task) Encode() []byte {
	t.Version = TaskVersion
	if t.Batch != nil {
		t.Version = TaskVersionBatch
	}
	raw, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("record: encode task: %v", err)) // strings and numbers only
	}
	return raw
}

// ErrNewer means that a newer version of the program wrote the task.
var ErrNewer = errors.New("upgrade the worker")

// DecodeTask reads a payload. For a payload of another version, the error says which program is
// older; it is ErrNewer if this one is.
func DecodeTask(payload []byte) (Task, error) {
	var t Task
	err := json.Unmarshal(payload, &t)
	if err != nil && t.Version <= TaskVersion {
		return Task{}, fmt.Errorf("decode task payload: %w", err)
	}
	batch := err == nil && t.Version == TaskVersionBatch && t.Batch != nil
	switch {
	case t.Version > TaskVersion && !batch:
		return Task{}, fmt.Errorf("task payload has version %d, this program knows %d: %w", t.Version, TaskVersion, ErrNewer)
	case t.Version < TaskVersion:
		return Task{}, fmt.Errorf("task payload has version %d, this program writes %d: enqueue the evaluation again", t.Version, TaskVersion)
	}
	if !t.Evaluation.Valid() || !t.Kind.Known() {
		return Task{}, fmt.Errorf("task payload names evaluation %.80q and kind %.40q", string(t.Evaluation), string(t.Kind))
	}
	if err := checkPlace(t.Phase, t.Index, t.Generation); err != nil {
		return Task{}, fmt.Errorf("task payload: %w", err)
	}
	if b := t.Batch; b != nil && (b.From < 0 || b.To <= b.From || b.To-b.From > MostInBatch) {
		return Task{}, fmt.Errorf("task payload has the batch %d to %d", b.From, b.To)
	}
	return t, nil
}

// ParseTaskID reads "<evaluation>.<phase>.<index>.<generation>".
func ParseTaskID(s string) (id eval.RunID, generation int, err error) {
	run, last, ok := cutLast(s)
	if !ok {
		return eval.RunID{}, 0, fmt.Errorf("task id %q: want <evaluation>.<phase>.<index>.<generation>", s)
	}
	if generation, err = strconv.Atoi(last); err != nil || generation < 0 {
		return eval.RunID{}, 0, fmt.Errorf("task id %q: generation %q is not a number", s, last)
	}
	id, err = eval.ParseRunID(run)
	return id, generation, err
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// MaxGeneration is the highest generation that a state byte can hold.
const MaxGeneration = 63

// StateByte packs a run's state and generation into the byte stored for it: generation × 4 + state.
// The zero byte means "not ended, generation 0".
func StateByte(state eval.State, generation int) byte {
	return byte(generation<<2) | byte(state)
}

// ParseStateByte unpacks StateByte.
func ParseStateByte(b byte) (state eval.State, generation int) {
	return eval.State(b & 3), int(b >> 2)
}
