package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/providers"
)

// Verdict says whether a pulled task may go on, or why it is to be dropped.
type Verdict string

// The verdicts of Check.
const (
	VerdictRun       Verdict = "run"
	VerdictGone      Verdict = "gone"      // Redis has no record of the evaluation
	VerdictPaused    Verdict = "paused"    // or its provider is: pushed again when it goes on
	VerdictCancelled Verdict = "cancelled" //
	VerdictEnded     Verdict = "ended"     // recorded already, or of another generation
)

// Progress is what outlived the workers that had a run before.
type Progress struct {
	Attempts  int             // calls made
	Answers   int             // of which were answered, with what was wanted or without
	Cooled    int             // calls that a provider refused as too many, and that are no attempts
	Deaths    int             // workers that died holding it
	NotBefore time.Time       // zero: at once
	Started   time.Time       // of the first call; zero: none yet
	Lacked    providers.Class // of the last answer without the evidence that is required; empty: none
	// Taken: the dimensions of a panel that were asked for together are asked for
	// singly from here on, whatever came of it.
	Taken bool
	// Answer is an answer in prose of which JSON is to be made, and AnswerBy the
	// provider:model that gave it; empty: there is none.
	Answer, AnswerBy string
	Fallen           record.Fallen
	Job              *record.Job // that goes on at the provider; nil: none
}

// Check decides whether a pulled task may do anything, and reads its run's
// progress. Tasks that are checked at the same time share a script.
func (s *Store) Check(ctx context.Context, t record.Task) (Verdict, Progress, error) {
	answer, err := s.checks.Do(ctx, t)
	if err == nil {
		err = answer.err
	}
	if err != nil {
		return "", Progress{}, fmt.Errorf("check run %s: %w", t.RunID(), err)
	}
	return answer.verdict, answer.progress, nil
}

type checked struct {
	verdict  Verdict
	progress Progress
	err      error
}

// sendChecks is a batch of Check.
func (s *Store) sendChecks(tasks []record.Task) ([]checked, error) {
	answers := make([]checked, len(tasks))
	for id, of := range byEvaluation(tasks, func(t record.Task) eval.ID { return t.Evaluation }) {
		keys, args := []string{s.keys.Record(id)}, []any(nil)
		for _, i := range of {
			t := tasks[i]
			keys = append(keys, s.keys.States(id, t.Phase, t.Index), s.keys.Progress(t.RunID()))
			args = append(args, t.Index%record.ChunkRuns, t.Generation, t.Provider())
		}
		ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
		words, err := checkScript.RunRO(ctx, s.client, keys, args...).StringSlice()
		cancel()
		for _, i := range of {
			if err == nil {
				answers[i], words, err = parseChecked(words)
			}
			if err != nil {
				answers[i] = checked{err: err}
			}
		}
	}
	return answers, nil
}

// parseChecked reads the answer to the first task, and returns what follows it.
func parseChecked(words []string) (answer checked, rest []string, err error) {
	if len(words) < 2 {
		return answer, nil, fmt.Errorf("%d words in the answer", len(words))
	}
	answer.verdict, rest = Verdict(words[0]), words[2:]
	n, err := strconv.Atoi(words[1])
	if err != nil || n < 0 || n > len(rest) || n%2 != 0 {
		return answer, nil, fmt.Errorf("%q words of progress among %d", words[1], len(rest))
	}
	answer.progress, answer.err = parseProgress(rest[:n])
	return answer, rest[n:], nil
}

// byEvaluation sorts positions by evaluation: no script touches two.
func byEvaluation[T any](items []T, of func(T) eval.ID) map[eval.ID][]int {
	positions := map[eval.ID][]int{}
	for i, item := range items {
		positions[of(item)] = append(positions[of(item)], i)
	}
	return positions
}

func parseProgress(words []string) (Progress, error) {
	var p Progress
	for i := 0; i < len(words); i += 2 {
		field, value := words[i], words[i+1]
		switch field {
		case record.ProgressLacked:
			p.Lacked = providers.Class(value)
			continue
		case record.ProgressFallen:
			if err := json.Unmarshal([]byte(value), &p.Fallen); err != nil {
				return p, fmt.Errorf("progress field %s: %w", field, err)
			}
			continue
		case record.ProgressAnswer:
			p.Answer = value
			continue
		case record.ProgressAnswerBy:
			p.AnswerBy = value
			continue
		case record.ProgressJob:
			if value == "" {
				continue
			}
			if err := json.Unmarshal([]byte(value), &p.Job); err != nil {
				return p, fmt.Errorf("progress field %s: %w", field, err)
			}
			continue
		}
		if strings.HasPrefix(field, "died:") {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return p, fmt.Errorf("progress field %s: %w", field, err)
		}
		switch field {
		case record.ProgressAttempts:
			p.Attempts = int(n)
		case record.ProgressAnswers:
			p.Answers = int(n)
		case record.ProgressCooled:
			p.Cooled = int(n)
		case record.ProgressDeaths:
			p.Deaths = int(n)
		case record.ProgressTaken:
			p.Taken = n != 0
		case record.ProgressNotBefore:
			p.NotBefore = time.UnixMilli(n)
		case record.ProgressStarted:
			p.Started = time.UnixMilli(n)
		}
	}
	return p, nil
}

// SaveProgress keeps the progress of a task's run that goes on, together with the
// calls that were made for it. Of a run that has ended meanwhile, only the calls
// are kept. ErrNoEvaluation when the evaluation was deleted. Deaths are counted by
// Died alone.
func (s *Store) SaveProgress(ctx context.Context, t record.Task, p Progress, calls []record.Call) error {
	id := t.RunID()
	var raw []byte
	if len(calls) > 0 {
		var err error
		if raw, err = json.Marshal(calls); err != nil {
			return fmt.Errorf("encode calls of run %s: %w", id, err)
		}
	}
	fields, err := p.fields()
	if err != nil {
		return fmt.Errorf("encode progress of run %s: %w", id, err)
	}
	values := append([]any{id.Index % record.ChunkRuns, t.Generation, int(progressLife.Seconds()), record.EntryVersion, raw}, fields...)
	keys := []string{
		s.keys.Record(id.Evaluation), s.keys.States(id.Evaluation, id.Phase, id.Index), s.keys.Progress(id), s.keys.Results(id.Evaluation),
	}
	answer, err := progressScript.Run(ctx, s.client, keys, values...).Int()
	if err == nil && answer < 0 {
		err = ErrNoEvaluation
	}
	if err != nil {
		return fmt.Errorf("save progress of run %s: %w", id, err)
	}
	return nil
}

// fields are those of the hash, and their values.
func (p Progress) fields() ([]any, error) {
	values := []any{
		record.ProgressAttempts, p.Attempts, record.ProgressAnswers, p.Answers, record.ProgressCooled, p.Cooled, record.ProgressLacked, string(p.Lacked),
	}
	if !p.NotBefore.IsZero() {
		values = append(values, record.ProgressNotBefore, p.NotBefore.UnixMilli())
	}
	if !p.Started.IsZero() {
		values = append(values, record.ProgressStarted, p.Started.UnixMilli())
	}
	if p.Taken {
		values = append(values, record.ProgressTaken, 1)
	}
	if p.AnswerBy != "" || p.Taken { // what was kept of the answer to all is none to one
		values = append(values, record.ProgressAnswer, p.Answer, record.ProgressAnswerBy, p.AnswerBy)
	}
	job := []byte(nil)
	if p.Job != nil {
		var err error
		if job, err = json.Marshal(p.Job); err != nil {
			return nil, err
		}
	}
	values = append(values, record.ProgressJob, job)
	if !p.Fallen.Begun() {
		return values, nil
	}
	raw, err := json.Marshal(p.Fallen)
	return append(values, record.ProgressFallen, raw), err
}

// ForgetProgress drops the progress of a run of an evaluation that was cancelled or
// deleted, once nothing is left to be done about it.
func (s *Store) ForgetProgress(ctx context.Context, id eval.RunID) error {
	if err := s.client.Unlink(ctx, s.keys.Progress(id)).Err(); err != nil {
		return fmt.Errorf("forget progress of run %s: %w", id, err)
	}
	return nil
}

// Died counts one more worker that died holding a task's run, once for each name
// of a death, and returns how many have. 0: the run has ended.
func (s *Store) Died(ctx context.Context, id eval.RunID, generation int, death string) (int, error) {
	keys := []string{s.keys.Record(id.Evaluation), s.keys.States(id.Evaluation, id.Phase, id.Index), s.keys.Progress(id)}
	n, err := diedScript.Run(ctx, s.client, keys, id.Index%record.ChunkRuns, generation, death, int(progressLife.Seconds())).Int()
	if err != nil {
		return 0, fmt.Errorf("count death of run %s: %w", id, err)
	}
	return n, nil
}

// Record takes a run to the state of its outcome, once, and appends run and
// calls to the results stream. recorded is false when the run had ended
// already: then only the calls are kept, because they were paid for.
// ErrNoEvaluation when the evaluation was deleted. Outcomes that are recorded at
// the same time share a script; one whose ctx has ended may be recorded all the
// same.
func (s *Store) Record(ctx context.Context, evaluation eval.ID, state eval.State, run record.Run, calls []record.Call) (recorded bool, err error) {
	o, err := Encode(evaluation, state, run, calls)
	if err != nil {
		return false, err
	}
	done, err := s.Put(ctx, o)
	return done.Once, err
}

// Outcome is what Encode made of a run's outcome.
type Outcome struct {
	id         eval.RunID
	generation int
	state      eval.State
	queue      string
	provider   string // whose streak of failures it goes on or ends; empty: nobody's
	class      providers.Class
	run, calls []byte
}

// Encode makes an Outcome, which may be put any number of times.
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

// Run is the run's identifier.
func (o Outcome) Run() eval.RunID { return o.id }

// Size is about how many bytes the outcome takes.
func (o Outcome) Size() int { return len(o.run) + len(o.calls) + 200 }

// Recorded says what became of an outcome.
type Recorded struct {
	Once bool // false: the run had ended already
	// Streak is how many different runs of the provider have failed like this one in
	// a row; 0 when it did not fail, or in a way that makes no streak.
	Streak int
}

// Put is Record of an outcome that was encoded.
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

// PutAll is Put of several outcomes of one evaluation, in one step: all of them are
// recorded, or none.
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

// recordBytes is about how much one script records: Redis does nothing else
// meanwhile.
const recordBytes = 1 << 20

// sendRecords is a batch of Record.
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

// sendRecordsOf records the outcomes at some positions, which are of one
// evaluation, in one script.
func (s *Store) sendRecordsOf(ctx context.Context, id eval.ID, outcomes []Outcome, positions []int, answers []recorded) {
	keys := []string{s.keys.Record(id), s.keys.Counts(id), s.keys.Results(id)}
	args := []any{record.EntryVersion}
	for _, i := range positions {
		o := outcomes[i]
		keys = append(keys, s.keys.States(id, o.id.Phase, o.id.Index), s.keys.Progress(o.id))
		args = append(args, o.id.Index%record.ChunkRuns, o.generation, int(o.state),
			record.CountField(o.id.Phase, o.state, o.queue), record.CountField(o.id.Phase, eval.StateFailed, o.queue),
			o.provider, string(o.class), o.run, o.calls)
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	reply, err := recordScript.Run(ctx, s.client, keys, args...).Int64Slice()
	if err == nil && len(reply) != len(positions) {
		err = fmt.Errorf("%d answers to %d runs", len(reply), len(positions))
	}
	for n, i := range positions {
		switch {
		case err != nil:
			answers[i].err = err
		case reply[n] < 0:
			answers[i].err = ErrNoEvaluation
		default:
			answers[i].Once, answers[i].Streak = reply[n] > 0, int(max(0, reply[n]-1))
		}
	}
}

// AppendCalls keeps calls of a run that has not ended yet. ErrNoEvaluation when
// the evaluation was deleted.
func (s *Store) AppendCalls(ctx context.Context, id eval.ID, calls []record.Call) error {
	raw, err := json.Marshal(calls)
	if err != nil {
		return fmt.Errorf("encode calls of %s: %w", id, err)
	}
	keys := []string{s.keys.Record(id), s.keys.Results(id)}
	answer, err := appendScript.Run(ctx, s.client, keys, record.EntryVersion, raw).Int()
	if err != nil {
		return fmt.Errorf("append calls of %s: %w", id, err)
	}
	if answer < 0 {
		return fmt.Errorf("append calls of %s: %w", id, ErrNoEvaluation)
	}
	return nil
}

// Held is what of an evaluation's results stands in Redis alone.
type Held struct {
	// Created tells one record of an evaluation from another that replaced it;
	// zero: there is none.
	Created time.Time
	// Since is how long the oldest of them has waited for a sink; negative: every
	// entry is in the sink.
	Since time.Duration
}

// Held reads what of an evaluation's results stands in Redis alone.
func (s *Store) Held(ctx context.Context, id eval.ID) (Held, error) {
	answer, err := heldScript.Run(ctx, s.client, []string{s.keys.Record(id), s.keys.Results(id)}).StringSlice()
	if err != nil {
		return Held{}, fmt.Errorf("read what is held of %s: %w", id, err)
	}
	if len(answer) != 2 {
		return Held{}, fmt.Errorf("read what is held of %s: %d words in the answer", id, len(answer))
	}
	h := Held{Since: -1}
	for i, word := range answer {
		if word == "" {
			continue
		}
		millis, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return Held{}, fmt.Errorf("read what is held of %s: %w", id, err)
		}
		if i == 0 {
			h.Created = time.UnixMilli(millis)
		} else {
			h.Since = time.Duration(millis) * time.Millisecond
		}
	}
	return h, nil
}

// Advance moves a queue's cursor from one position to another. false: somebody
// else has moved it. ErrNoEvaluation when the evaluation was deleted.
func (s *Store) Advance(ctx context.Context, id eval.ID, phase int, queue string, from, to int) (bool, error) {
	keys := []string{s.keys.Record(id), s.keys.Cursors(id)}
	answer, err := advanceScript.Run(ctx, s.client, keys, record.CursorField(phase, queue), from, to).Int()
	if err != nil {
		return false, fmt.Errorf("advance %s in queue %s: %w", id, queue, err)
	}
	if answer < 0 {
		return false, fmt.Errorf("advance %s in queue %s: %w", id, queue, ErrNoEvaluation)
	}
	return answer == 1, nil
}

// States reads the state bytes of a phase's runs from the first index to the
// last, both included; runs beyond what Redis knows are zero bytes.
func (s *Store) States(ctx context.Context, id eval.ID, phase, first, last int) ([]byte, error) {
	states := make([]byte, last-first+1)
	type part struct {
		at  int
		cmd *redis.StringCmd
	}
	var parts []part
	pipe := s.client.Pipeline()
	for at := first; at <= last; {
		offset := at % record.ChunkRuns
		n := min(record.ChunkRuns-offset, last-at+1)
		parts = append(parts, part{at - first, pipe.GetRange(ctx, s.keys.States(id, phase, at), int64(offset), int64(offset+n-1))})
		at += n
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read states of %s: %w", id, err)
	}
	for _, p := range parts {
		copy(states[p.at:], p.cmd.Val())
	}
	return states, nil
}

// Finish takes an active evaluation to done when all its runs have ended, and
// reports whether they have.
func (s *Store) Finish(ctx context.Context, r record.Evaluation) (bool, error) {
	runs := 0
	for _, phase := range r.Phases {
		runs += phase.Runs
	}
	done, err := finishScript.Run(ctx, s.client, []string{s.keys.Record(r.ID), s.keys.Counts(r.ID)}, runs).Bool()
	if err != nil {
		return false, fmt.Errorf("finish %s: %w", r.ID, err)
	}
	return done, nil
}

// Expire gives an evaluation that has ended and was drained seven days more.
func (s *Store) Expire(ctx context.Context, r record.Evaluation) error {
	pipe := s.client.Pipeline()
	for _, key := range s.keysOf(r) {
		pipe.Expire(ctx, key, endedLife)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("expire %s: %w", r.ID, err)
	}
	return nil
}

// keysOf lists the evaluation's keys, but for those of runs in progress, which
// expire by themselves.
func (s *Store) keysOf(r record.Evaluation) []string {
	keys := []string{
		s.keys.Record(r.ID), s.keys.Plan(r.ID), s.keys.Documents(r.ID),
		s.keys.Cursors(r.ID), s.keys.Counts(r.ID), s.keys.Results(r.ID),
	}
	for phase, p := range r.Phases {
		for first := 0; first < p.Runs; first += record.ChunkRuns {
			keys = append(keys, s.keys.States(r.ID, phase, first))
		}
	}
	return keys
}
