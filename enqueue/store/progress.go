package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// Verdict says whether a pulled task may run, or why it must be dropped.
type Verdict string

// The verdicts of Check.
const (
	VerdictRun       Verdict = "run"
	VerdictGone      Verdict = "gone"      // Redis has no record of the evaluation
	VerdictPaused    Verdict = "paused"    // or its provider is; pushed again on resume
	VerdictCancelled Verdict = "cancelled" //
	VerdictEnded     Verdict = "ended"     // recorded already, or another generation
)

// Progress is the state of a run that outlived earlier workers. Its times are on Redis's clock.
type Progress struct {
	Attempts  int       // calls made
	Answers   int       // calls answered, with or without a usable answer
	Cooled    int       // calls refused for too many requests; they are not attempts
	Deaths    int       // workers that died while they had the run
	NotBefore time.Time // zero: at once
	// Delay is how long before NotBefore the worker saved it: no more can be left of the wait, even
	// if Redis's clock was set back. 0: unknown.
	Delay   time.Duration
	Started time.Time       // of the first call; zero: none yet
	Lacked  providers.Class // class of the last answer that lacked required evidence; empty: none
	// Taken means that the dimensions of a panel, which were asked about together, are asked about
	// one by one from now on, whatever the result.
	Taken bool
	// Answer is an answer in prose that has to be turned into JSON, and AnswerBy the provider:model
	// that gave it; empty: none.
	Answer, AnswerBy string
	Said             []string // the answers to the turns of a prompt so far
	Fallen           record.Fallen
	Job              *record.Job // running at the provider; nil: none
	Unusable         int         // unusable answers of the current model
	Excused          int         // calls that failed through no fault of the run; they are not attempts
	Cut              int         // calls cut off with their worker or lease; they are not attempts
	Faults           int         // failures of the program itself during this run
	// Submitting is when a worker was about to submit a job whose name is not known yet.
	Submitting time.Time
	// Account is where the job is being submitted; empty: its provider has no accounts.
	Account string
	Lines   int // of the batch that is being submitted; 0: none is
	// Writer names the pull that saves the progress, and Found the one that had saved it when Check
	// read it. Empty: none.
	Writer, Found string
}

// ErrTaken means that nothing was saved, because another pull of the run has saved its progress
// since this one read it.
var ErrTaken = errors.New("another pull of the run has saved its progress")

// Checked is the result of Check.
type Checked struct {
	Verdict  Verdict
	Revision record.Revision // of the evaluation's record
	Progress Progress
	Now      time.Time // on Redis's clock
}

// Check decides whether a pulled task may run, and reads its run's progress. Tasks that are checked
// at the same time share a script.
func (s *Store) Check(ctx context.Context, t record.Task) (Checked, error) {
	answer, err := s.checks.Do(ctx, t)
	if err == nil {
		err = answer.err
	}
	if err != nil {
		return Checked{}, fmt.Errorf("check run %s: %w", t.RunID(), err)
	}
	return answer.Checked, nil
}

type checked struct {
	Checked
	err error
}

// sendChecks runs a batch of Check, with one script per evaluation.
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
		words, err := checkScript.Run(ctx, s.client, keys, args...).StringSlice()
		cancel()
		if err == nil && len(words) < 2 {
			err = fmt.Errorf("the reply has %d strings", len(words))
		}
		var revision record.Revision
		var micros int64
		if err == nil {
			revision = record.Revision(words[0])
			micros, err = strconv.ParseInt(words[1], 10, 64)
			words = words[2:]
		}
		for _, i := range of {
			if err == nil {
				answers[i], words, err = parseChecked(words)
				answers[i].Revision, answers[i].Now = revision, time.UnixMicro(micros)
			}
			if err != nil {
				answers[i] = checked{err: err}
			}
		}
	}

	return answers, nil
}

// parseChecked reads the answer for the first task, and returns the rest.
func parseChecked(words []string) (answer checked, rest []string, err error) {
	if len(words) < 2 {
		return answer, nil, fmt.Errorf("the reply has %d strings", len(words))
	}
	answer.Verdict, rest = Verdict(words[0]), words[2:]
	n, err := strconv.Atoi(words[1])
	if err != nil || n < 0 || n > len(rest) || n%2 != 0 {
		return answer, nil, fmt.Errorf("the reply has %q strings of progress, of %d", words[1], len(rest))
	}
	answer.Progress, answer.err = parseProgress(rest[:n])
	if answer.err != nil {
		answer.err = fmt.Errorf("%w: %w", ErrUnreadable, answer.err)
	}
	return answer, rest[n:], nil
}

// byEvaluation groups the positions of items by evaluation, because no script touches two.
func byEvaluation[T any](items []T, of func(T) eval.ID) map[eval.ID][]int {
	positions := map[eval.ID][]int{}
	for i, item := range items {
		positions[of(item)] = append(positions[of(item)], i)
	}
	return positions
}

// latestMilli is the last moment of the year 9999 in Unix milliseconds; JSON has no later times. No
// number of the progress is greater.
const latestMilli = 253402300799999

func parseProgress(words []string) (Progress, error) {
	var p Progress
	for i := 0; i < len(words); i += 2 {
		field, value := words[i], words[i+1]
		switch field {
		case record.ProgressLacked:
			p.Lacked = providers.Class(value)
			continue
		case record.ProgressWriter:
			p.Found = value
			continue
		case record.ProgressFallen:
			if err := json.Unmarshal([]byte(value), &p.Fallen); err != nil {
				return p, fmt.Errorf("progress field %s: %w", field, err)
			}
			if err := p.Fallen.Check(); err != nil {
				return p, fmt.Errorf("progress field %s: %w", field, err)
			}
			continue
		case record.ProgressAnswer:
			p.Answer = value
			continue
		case record.ProgressAnswerBy:
			p.AnswerBy = value
			continue
		case record.ProgressAccount:
			p.Account = value
			continue
		case record.ProgressSaid:
			if err := json.Unmarshal([]byte(value), &p.Said); err != nil {
				return p, fmt.Errorf("progress field %s: %w", field, err)
			}
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
		if err != nil || n < 0 || n > latestMilli {
			return p, fmt.Errorf("progress field %.40q has an invalid number: %.40q", field, value)
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
		case record.ProgressUnusable:
			p.Unusable = int(n)
		case record.ProgressExcused:
			p.Excused = int(n)
		case record.ProgressCut:
			p.Cut = int(n)
		case record.ProgressLines:
			p.Lines = int(n)
		case record.ProgressFaults:
			p.Faults = int(n)
		case record.ProgressTaken:
			p.Taken = n != 0
		case record.ProgressSubmitting:
			if n != 0 {
				p.Submitting = time.UnixMilli(n)
			}
		case record.ProgressNotBefore:
			p.NotBefore = time.UnixMilli(n)
		case record.ProgressDelay:
			p.Delay = time.Duration(n) * time.Millisecond
		case record.ProgressStarted:
			p.Started = time.UnixMilli(n)
		}
	}

	return p, nil
}

// SaveProgress stores the progress of an unfinished task's run, together with its calls. It returns
// the entry with the calls, if any. If the run has ended meanwhile, or the error is ErrTaken, only
// the calls are stored. The error is ErrNoEvaluation if the evaluation was deleted. Only Died
// counts deaths.
func (s *Store) SaveProgress(ctx context.Context, t record.Task, p Progress, calls []record.Call) (Entry, error) {
	return s.saveProgress(ctx, t, p, calls, nil)
}

// SaveJob does what SaveProgress does for a run whose job was just submitted. It also puts the job
// into the results stream, so that a results store knows it if Redis loses it.
func (s *Store) SaveJob(ctx context.Context, t record.Task, p Progress, calls []record.Call) (Entry, error) {
	return s.saveProgress(ctx, t, p, calls, p.Job)
}

// saveProgress runs the progress script. The entry, which is set also with ErrTaken, has the calls. submitted is a job
// that was just submitted, or nil.
func (s *Store) saveProgress(
	ctx context.Context, t record.Task, p Progress, calls []record.Call, submitted *record.Job,
) (entry Entry, err error) {
	id := t.RunID()
	var paid, job []byte
	if len(calls) > 0 {
		if paid, err = json.Marshal(calls); err != nil {
			return entry, fmt.Errorf("encode calls of run %s: %w", id, err)
		}
	}

	if submitted != nil {
		if job, err = json.Marshal(submitted); err != nil {
			return entry, fmt.Errorf("encode job of run %s: %w", id, err)
		}
	}

	fields, err := p.fields()
	if err != nil {
		return entry, fmt.Errorf("encode progress of run %s: %w", id, err)
	}
	values := append([]any{
		id.Index % record.ChunkRuns, t.Generation, int(progressLife.Seconds()), id.Short(), record.EntryVersion, paid, p.Writer, p.Found, job,
	}, fields...)
	keys := append(s.progressKeys(id), s.keys.Results(id.Evaluation))
	reply, err := progressScript.Run(ctx, s.client, keys, values...).Slice()
	var answers []int64
	if err == nil {
		answers, entry, err = parseRecorded(reply, 1)
	}
	switch {
	case err != nil:
	case answers[0] == -1:
		err = ErrNoEvaluation
	case answers[0] == -2:
		err = ErrTaken
	}

	if err != nil {
		return entry, fmt.Errorf("save progress of run %s: %w", id, err)
	}
	return entry, nil
}

// fields returns the fields of the progress hash and their values alternately.
func (p Progress) fields() ([]any, error) {
	values := []any{
		record.ProgressAttempts, p.Attempts, record.ProgressAnswers, p.Answers, record.ProgressCooled, p.Cooled,
		record.ProgressLacked, string(p.Lacked),
		record.ProgressUnusable, p.Unusable, record.ProgressSubmitting, unixMilli(p.Submitting),
	}
	if p.Writer != "" {
		values = append(values, record.ProgressWriter, p.Writer)
	}
	if p.Excused > 0 {
		values = append(values, record.ProgressExcused, p.Excused)
	}
	if p.Lines > 0 {
		values = append(values, record.ProgressLines, p.Lines)
	}
	if p.Account != "" {
		values = append(values, record.ProgressAccount, p.Account)
	}
	if p.Cut > 0 {
		values = append(values, record.ProgressCut, p.Cut)
	}
	if p.Faults > 0 {
		values = append(values, record.ProgressFaults, p.Faults)
	}
	if !p.NotBefore.IsZero() {
		values = append(values, record.ProgressNotBefore, p.NotBefore.UnixMilli(), record.ProgressDelay, p.Delay.Milliseconds())
	}
	if !p.Started.IsZero() {
		values = append(values, record.ProgressStarted, p.Started.UnixMilli())
	}
	if p.Taken {
		values = append(values, record.ProgressTaken, 1)
	}
	if p.AnswerBy != "" || p.Taken { // a stored answer to all dimensions is not one to a single dimension
		values = append(values, record.ProgressAnswer, p.Answer, record.ProgressAnswerBy, p.AnswerBy)
	}
	if len(p.Said) > 0 {
		said, err := json.Marshal(p.Said)
		if err != nil {
			return nil, err
		}
		values = append(values, record.ProgressSaid, said)
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

// unixMilli returns t in Unix milliseconds; 0 for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// ForgetProgress removes the progress of a run of an evaluation that was cancelled or deleted, once
// nothing is left to be done about it. If the evaluation was submitted since, its progress stays.
func (s *Store) ForgetProgress(ctx context.Context, id eval.RunID) error {
	keys := []string{s.keys.Record(id.Evaluation), s.keys.InProgress(id.Evaluation), s.keys.Progress(id)}
	if err := forgetProgressScript.Run(ctx, s.client, keys, id.Short()).Err(); err != nil {
		return fmt.Errorf("forget progress of run %s: %w", id, err)
	}
	return nil
}

// Died counts one more worker that died while it had a run. death names the worker's death, so that
// several reports of the same one count once. It returns how many have died; 0: the run has ended.
func (s *Store) Died(ctx context.Context, id eval.RunID, generation int, death string) (int, error) {
	args := []any{id.Index % record.ChunkRuns, generation, int(progressLife.Seconds()), id.Short(), death}
	n, err := diedScript.Run(ctx, s.client, s.progressKeys(id), args...).Int()
	if err != nil {
		return 0, fmt.Errorf("count death of run %s: %w", id, err)
	}
	return n, nil
}

func (s *Store) progressKeys(id eval.RunID) []string {
	of := id.Evaluation
	return []string{s.keys.Record(of), s.keys.States(of, id.Phase, id.Index), s.keys.Progress(id), s.keys.InProgress(of)}
}

// Jobs returns the jobs of an evaluation's unfinished runs that were running at their providers when their workers last
// saved them, in no order.
func (s *Store) Jobs(ctx context.Context, id eval.ID) ([]record.Job, error) {
	jobs := map[string]record.Job{}
	err := s.eachInProgress(ctx, id, func(run string, fields []string) {
		if job := jobIn(fields[0]); job != nil {
			jobs[run] = *job
		}
	}, record.ProgressJob)
	if err != nil {
		return nil, fmt.Errorf("read the jobs of %s: %w", id, err)
	}
	return slices.Collect(maps.Values(jobs)), nil
}

// Leading returns the runs of an evaluation whose batches are at their provider, or being submitted, by
// eval.RunID.Short.
func (s *Store) Leading(ctx context.Context, id eval.ID) (map[string]bool, error) {
	leading := map[string]bool{}
	err := s.eachInProgress(ctx, id, func(run string, fields []string) {
		job, submitting, lines := jobIn(fields[0]), fields[1], fields[2]
		leading[run] = job != nil && job.Runs > 0 || lines != "" && submitting != "" && submitting != "0"
	}, record.ProgressJob, record.ProgressSubmitting, record.ProgressLines)
	if err != nil {
		return nil, fmt.Errorf("read the batches of %s: %w", id, err)
	}
	return leading, nil
}

// jobIn reads the job of a run's progress; nil: there is none, or it cannot be read.
func jobIn(text string) *record.Job {
	var job *record.Job
	if text == "" || json.Unmarshal([]byte(text), &job) != nil {
		return nil
	}
	return job
}
