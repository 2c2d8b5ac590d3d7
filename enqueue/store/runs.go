package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Record moves a run to the state of its outcome, once, and appends run and calls to the results
// stream. If the run had ended already, recorded is false, and only the calls are kept, because
// they were paid for. The error is ErrNoEvaluation if the evaluation was deleted.
//
// Outcomes that are recorded at the same time share a script. An outcome whose ctx has ended may
// still be recorded.
func (s *Store) Record(
	ctx context.Context, evaluation eval.ID, state eval.State, run record.Run, calls []record.Call,
) (recorded bool, err error) {
	o, err := Encode(evaluation, state, run, calls)
	if err != nil {
		return false, err
	}
	done, err := s.Put(ctx, o)
	return done.Once, err
}

// Outcome is a run's outcome as Encode has encoded it.
type Outcome struct {
	id         eval.RunID
	generation int
	state      eval.State
	queue      string
	provider   string // provider whose streak of failures it continues or ends; empty: none
	class      providers.Class
	run, calls []byte
}

// Generation returns the generation of the run whose outcome it is.
func (o Outcome) Generation() int { return o.generation }

// Encode returns an Outcome, which may be put any number of times.
func Encode(evaluation eval.ID, state eval.State, run record.Run, calls []record.Call) (o Outcome, err error) {
	o = Outcome{id: run.RunID(evaluation), generation: run.Generation, state: state, queue: run.Queue}
	o.provider, o.class = run.Streak()
	run.State = state.String()
	if o.run, err = json.Marshal(run); err != nil {
		return o, fmt.Errorf("encode run %s: %w", o.id, err)
	}
	if len(calls) > 0 {
		if o.calls, err = json.Marshal(calls); err != nil {
			return o, fmt.Errorf("encode calls of run %s: %w", o.id, err)
		}
	}
	return o, nil
}

// Run returns the run's identifier.
func (o Outcome) Run() eval.RunID { return o.id }

// Has reports whether the outcome's calls include one.
func (o Outcome) Has(call string) bool {
	var calls []record.Call
	_ = json.Unmarshal(o.calls, &calls) // Encode has encoded them; empty: there are none
	return slices.ContainsFunc(calls, func(c record.Call) bool { return c.ID == call })
}

// Size returns about how many bytes the outcome takes.
func (o Outcome) Size() int { return len(o.run) + len(o.calls) + 200 }

// Recorded is the result of recording an outcome.
type Recorded struct {
	Once bool // false: the run had ended already, or was cancelled
	// Cancelled means that it was not recorded because its evaluation was cancelled.
	Cancelled bool
	// Streak is how many different runs of the provider have failed like this one in a row; 0 if it
	// did not fail, or with a class that makes no streak.
	Streak int
	// Entry is at or after what was appended for the outcome; zero: nothing was.
	Entry Entry
	// Job is the one that the run's progress had, which is gone now; nil: it had none.
	Job *record.Job
}

// Put records an encoded outcome, as Record does.
func (s *Store) Put(ctx context.Context, o Outcome) (Recorded, error) {
	answer, err := s.records.Do(ctx, o)
	if err == nil {
		err = answer.err
	}
	if err != nil {
		return Recorded{}, fmt.Errorf("record run %s: %w", o.id, err)
	}
	return answer.Recorded, nil
}

// PutAll records several encoded outcomes of one evaluation in one step: all of them are recorded,
// or none.
func (s *Store) PutAll(ctx context.Context, outcomes []Outcome) ([]Recorded, error) {
	answers, positions := make([]recorded, len(outcomes)), make([]int, len(outcomes))
	for i := range outcomes {
		positions[i] = i
	}
	s.sendRecordsOf(ctx, outcomes[0].id.Evaluation, outcomes, positions, answers)
	done := make([]Recorded, len(outcomes))
	for i, answer := range answers {
		if answer.err != nil {
			return nil, fmt.Errorf("record run %s and %d more: %w", outcomes[0].id, len(outcomes)-1, answer.err)
		}
		done[i] = answer.Recorded
	}
	return done, nil
}

type recorded struct {
	Recorded
	err error
}

// recordBytes is about how many bytes one script records. Redis does nothing else meanwhile.
const recordBytes = 1 << 20

// sendRecords runs a batch of Put, with at least one script per evaluation.
func (s *Store) sendRecords(outcomes []Outcome) ([]recorded, error) {
	answers := make([]recorded, len(outcomes))
	for id, of := range byEvaluation(outcomes, func(o Outcome) eval.ID { return o.id.Evaluation }) {
		for len(of) > 0 {
			n, bytes := 0, 0
			for n < len(of) && (n == 0 || bytes < recordBytes) {
				bytes += len(outcomes[of[n]].run) + len(outcomes[of[n]].calls)
				n++
			}
			s.sendRecordsOf(context.Background(), id, outcomes, of[:n], answers)
			of = of[n:]
		}
	}
	return answers, nil
}

// sendRecordsOf records the outcomes at some positions in one script. They all belong to one
// evaluation.
func (s *Store) sendRecordsOf(ctx context.Context, id eval.ID, outcomes []Outcome, positions []int, answers []recorded) {
	keys := []string{s.keys.Record(id), s.keys.Counts(id), s.keys.Results(id), s.keys.InProgress(id)}
	args := []any{record.EntryVersion}
	for _, i := range positions {
		o := outcomes[i]
		keys = append(keys, s.keys.States(id, o.id.Phase, o.id.Index), s.keys.Progress(o.id))
		args = append(args, o.id.Index%record.ChunkRuns, o.generation, int(o.state),
			record.CountField(o.id.Phase, o.state, o.queue), record.CountField(o.id.Phase, eval.StateFailed, o.queue),
			o.provider, string(o.class), o.id.Short(), o.run, o.calls)
	}

	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	reply, err := recordScript.Run(ctx, s.client, keys, args...).Slice()
	var results []int64
	var jobs []string
	var entry Entry
	if last := max(0, len(reply)-1); err == nil {
		results, entry, err = parseRecorded(reply[:last], len(positions))
		jobs = parseJobs(reply[last:], len(positions))
	}
	for n, i := range positions {
		switch {
		case err != nil:
			answers[i].err = err
		case results[n] == -2:
			answers[i].Recorded = Recorded{Cancelled: true, Entry: entry}
		case results[n] < 0:
			answers[i].err = ErrNoEvaluation
		default:
			answers[i].Recorded = Recorded{
				Once: results[n] > 0, Streak: int(max(0, results[n]-1)), Entry: entry, Job: jobIn(jobs[n]),
			}
		}
	}
}

// parseJobs reads the last value of that reply: the jobs of the runs, as JSON, or empty.
func parseJobs(last []any, runs int) []string {
	jobs := make([]string, runs)
	for _, value := range last {
		values, _ := value.([]any)
		for i := range min(runs, len(values)) {
			jobs[i], _ = values[i].(string)
		}
	}
	return jobs
}

// parseRecorded reads the reply of the record script for a number of runs: the result of each, and
// the last entry that was appended.
func parseRecorded(reply []any, runs int) (results []int64, last Entry, err error) {
	if len(reply) != runs+2 {
		return nil, last, fmt.Errorf("the reply has %d values for %d runs", len(reply), runs)
	}
	for _, value := range reply[:runs] {
		result, ok := value.(int64)
		if !ok {
			return nil, last, fmt.Errorf("the reply has %v as the result of a run", value)
		}
		results = append(results, result)
	}
	id, _ := reply[runs].(string)
	memory, _ := reply[runs+1].(string)
	last, err = parseEntry(id, memory)
	return results, last, err
}

// AppendCalls stores calls of a run that has not ended yet, and returns the entry with them. The
// error is ErrNoEvaluation if the evaluation was deleted.
func (s *Store) AppendCalls(ctx context.Context, id eval.ID, calls []record.Call) (entry Entry, err error) {
	raw, err := json.Marshal(calls)
	if err != nil {
		return entry, fmt.Errorf("encode calls of %s: %w", id, err)
	}
	keys := []string{s.keys.Record(id), s.keys.Results(id)}
	answer, err := appendScript.Run(ctx, s.client, keys, record.EntryVersion, raw).StringSlice()
	switch {
	case err != nil:
	case len(answer) != 2:
		err = fmt.Errorf("the reply has %d strings", len(answer))
	case answer[0] == "":
		err = ErrNoEvaluation
	default:
		entry, err = parseEntry(answer[0], answer[1])
	}
	if err != nil {
		return entry, fmt.Errorf("append calls of %s: %w", id, err)
	}
	return entry, nil
}

// Held is the part of an evaluation's results that only Redis has.
type Held struct {
	// Created distinguishes a record of an evaluation from one that replaced it; zero: there is
	// none.
	Created time.Time
	// Oldest is the first entry that waits for a results store, in the server's current memory.
	// None: the results store has every entry of this memory.
	Oldest Entry
	// Status is the evaluation's; empty: it has no record.
	Status record.Status
}

// Held reads the part of an evaluation's results that only Redis has.
func (s *Store) Held(ctx context.Context, id eval.ID) (Held, error) {
	answer, err := heldScript.Run(ctx, s.client, []string{s.keys.Record(id), s.keys.Results(id)}).StringSlice()
	if err != nil {
		return Held{}, fmt.Errorf("read what is held of %s: %w", id, err)
	}
	if len(answer) != 4 {
		return Held{}, fmt.Errorf("read what is held of %s: the reply has %d strings", id, len(answer))
	}
	h := Held{Status: record.Status(answer[2])}
	if answer[0] != "" {
		millis, err := strconv.ParseInt(answer[0], 10, 64)
		if err != nil {
			return Held{}, fmt.Errorf("read what is held of %s: %w", id, err)
		}
		h.Created = time.UnixMilli(millis)
	}
	if h.Oldest, err = parseEntry(answer[1], answer[3]); err != nil {
		return Held{}, fmt.Errorf("read what is held of %s: %w", id, err)
	}
	return h, nil
}

// Advance moves the cursor with the given field from one position to another. It returns false if
// another process has moved it, or the evaluation no longer has the revision of r. The error is
// ErrNoEvaluation if the evaluation was deleted.
func (s *Store) Advance(ctx context.Context, r record.Evaluation, cursor string, from, to int) (bool, error) {
	id := r.ID
	keys := []string{s.keys.Record(id), s.keys.Cursors(id)}
	answer, err := advanceScript.Run(ctx, s.client, keys, cursor, from, to, string(r.Revision)).Int()
	if err != nil {
		return false, fmt.Errorf("advance the cursor %s of %s: %w", cursor, id, err)
	}
	if answer < 0 {
		return false, fmt.Errorf("advance the cursor %s of %s: %w", cursor, id, ErrNoEvaluation)
	}
	return answer == 1, nil
}

// States reads the state bytes of a phase's runs from the first index to the
// last, both included; runs beyond what Redis knows are zero bytes.
func (s *Store) States(ctx context.Context, id eval.ID, phase, first, last int) ([]byte, error) {
	states, err := s.StatesIn(ctx, id, phase, [][2]int{{first, last}})
	if err != nil {
		return nil, err
	}
	return states[0].bytes, nil
}

// States are the state bytes of some of a phase's runs.
type States []stateSpan

// stateSpan are the states of runs with consecutive indexes.
type stateSpan struct {
	first int
	bytes []byte
}

// Of returns the state byte of a run that was read.
func (s States) Of(index int) byte {
	k := sort.Search(len(s), func(k int) bool { return s[k].first > index }) - 1
	return s[k].bytes[index-s[k].first]
}

// StatesIn reads the state bytes of a phase's runs whose indexes are in spans: first and last, both
// included, ascending. Runs beyond what Redis knows are zero bytes.
func (s *Store) StatesIn(ctx context.Context, id eval.ID, phase int, spans [][2]int) (States, error) {
	states := make(States, len(spans))
	type part struct {
		into []byte
		cmd  *redis.StringCmd
	}
	var parts []part
	pipe := s.client.Pipeline()
	for i, span := range spans {
		first, last := span[0], span[1]
		states[i] = stateSpan{first, make([]byte, last-first+1)}
		for at := first; at <= last; {
			offset := at % record.ChunkRuns
			n := min(record.ChunkRuns-offset, last-at+1)
			key := s.keys.States(id, phase, at)
			parts = append(parts, part{states[i].bytes[at-first:], pipe.GetRange(ctx, key, int64(offset), int64(offset+n-1))})
			at += n
		}
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read states of %s: %w", id, err)
	}
	for _, p := range parts {
		copy(p.into, p.cmd.Val())
	}
	return states, nil
}

// Finish marks an active evaluation as done if all its runs have ended, and reports whether they
// have. It returns false if the evaluation no longer has the revision of r.
func (s *Store) Finish(ctx context.Context, r record.Evaluation) (bool, error) {
	keys := []string{s.keys.Record(r.ID), s.keys.Counts(r.ID)}
	done, err := finishScript.Run(ctx, s.client, keys, string(r.Revision)).Bool()
	if err != nil {
		return false, fmt.Errorf("finish %s: %w", r.ID, err)
	}
	return done, nil
}

// keysOf lists the evaluation's keys, except for those of runs in progress and their list, which
// expire by themselves.
func (s *Store) keysOf(r record.Evaluation) []string {
	keys := []string{
		s.keys.Record(r.ID), s.keys.Plan(r.ID), s.keys.Documents(r.ID),
		s.keys.Cursors(r.ID), s.keys.Counts(r.ID), s.keys.Results(r.ID), s.keys.Rejected(r.ID),
	}
	for phase, p := range r.Phases {
		if p.Chosen {
			keys = append(keys, s.keys.Choice(r.ID, phase))
		}
		for first := 0; first < p.Runs; first += record.ChunkRuns {
			keys = append(keys, s.keys.States(r.ID, phase, first))
		}
	}
	return keys
}
