package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/record"
)

// ErrCancelled means that the evaluation was cancelled, which is for good.
var ErrCancelled = errors.New("the evaluation was cancelled")

var (
	//go:embed lua/steered.lua
	steeredSource string // in front of the scripts that pause or take up again
	//go:embed lua/pause.lua
	pauseSource string
	//go:embed lua/pause_provider.lua
	pauseProviderSource string
	//go:embed lua/resume.lua
	resumeSource string
	//go:embed lua/cancel.lua
	cancelSource string
	//go:embed lua/retry.lua
	retrySource string
	//go:embed lua/delete.lua
	deleteSource string

	pauseScript         = redis.NewScript(steeredSource + pauseSource)
	pauseProviderScript = redis.NewScript(pauseProviderSource)
	resumeScript        = redis.NewScript(steeredSource + resumeSource)
	cancelScript        = redis.NewScript(cancelSource)
	retryScript         = redis.NewScript(retrySource)
	deleteScript        = redis.NewScript(deleteSource)
)

// Pause keeps runs of an active evaluation from being begun, and returns its
// status afterwards, which is another one where there was nothing to pause. why is
// the record's Stopped.
func (s *Store) Pause(ctx context.Context, id eval.ID, why string) (record.Status, error) {
	return s.steer(ctx, "pause", id, pauseScript, []string{s.keys.Record(id)}, why, rand.Text())
}

// PauseProvider keeps runs of a provider from being begun for an active
// evaluation. paused is false when the evaluation is not active, and first when it
// was paused already.
func (s *Store) PauseProvider(ctx context.Context, id eval.ID, provider string, why record.Pause) (paused, first bool, err error) {
	text, err := json.Marshal(why)
	if err != nil {
		return false, false, fmt.Errorf("pause %s of %s: %w", provider, id, err)
	}
	answer, err := pauseProviderScript.Run(ctx, s.client, []string{s.keys.Record(id)}, provider, text).Int()
	switch {
	case err != nil:
	case answer < 0:
		err = ErrNoEvaluation
	case answer > 0:
		err = s.announce(ctx, "evaluation "+string(id))
	}
	if err != nil {
		return false, false, fmt.Errorf("pause %s of %s: %w", provider, id, err)
	}
	return answer > 0, answer == 2, nil
}

// Resume resumes a paused evaluation once it is activated, and the paused providers of an
// active one. It returns the status afterwards.
func (s *Store) Resume(ctx context.Context, r record.Evaluation) (record.Status, error) {
	keys := append([]string{s.keys.Record(r.ID), s.keys.Cursors(r.ID)}, s.keysOf(r)...)
	return s.steer(ctx, "resume", r.ID, resumeScript, keys, rand.Text())
}

// Cancel ends every unfinished run of an evaluation, and returns the evaluation's status
// afterwards. Recorded results stay; runs in flight are no longer recorded, only their calls.
func (s *Store) Cancel(ctx context.Context, r record.Evaluation) (record.Status, error) {
	var queues []any
	for i, phase := range r.Phases {
		for queue, runs := range phase.Queues {
			queues = append(queues, runs)
			for _, field := range endedFields(i, queue) {
				queues = append(queues, field)
			}
		}
	}
	return s.steer(ctx, "cancel", r.ID, cancelScript, []string{s.keys.Record(r.ID), s.keys.Counts(r.ID)}, queues...)
}

// steer runs a script that answers with a status, and announces the change.
func (s *Store) steer(ctx context.Context, what string, id eval.ID, script *redis.Script, keys []string, args ...any) (record.Status, error) {
	status, err := script.Run(ctx, s.client, keys, args...).Text()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", what, id, err)
	}
	if status == "" {
		return "", fmt.Errorf("%s %s: %w", what, id, ErrNoEvaluation)
	}
	return record.Status(status), s.announce(ctx, "evaluation "+string(id))
}

// Failed is a run that failed in a generation.
type Failed struct {
	Index, Generation int
	Queue             string
}

// Retry makes failed runs of a phase runs of their next generation, and returns
// how many that were: those that have not failed in the generation named are
// left as they are. A done evaluation is active afterwards; Activate has its
// runs pushed. A generation above record.MaxGeneration does not exist, so runs
// of that one must not be given. ErrCancelled, ErrNoEvaluation.
func (s *Store) Retry(ctx context.Context, r record.Evaluation, phase int, failed []Failed) (int, error) {
	others := s.keysOf(r)
	chunks := map[string][]any{}
	for _, run := range failed {
		chunk := s.keys.States(r.ID, phase, run.Index)
		chunks[chunk] = append(chunks[chunk], run.Index%record.ChunkRuns, run.Generation,
			record.CountField(phase, eval.StateFailed, run.Queue))
	}
	moved := 0
	for chunk, runs := range chunks {
		keys := append([]string{s.keys.Record(r.ID), chunk, s.keys.Counts(r.ID), s.keys.Cursors(r.ID)}, others...)
		n, err := retryScript.Run(ctx, s.client, keys, runs...).Int()
		switch {
		case err != nil:
		case n == -1:
			err = ErrNoEvaluation
		case n == -2:
			err = ErrCancelled
		}
		if err != nil {
			return moved, fmt.Errorf("retry runs of %s: %w", r.ID, err)
		}
		moved += n
	}
	return moved, nil
}

// Delete removes every key of an evaluation and takes it off the list. Workers
// drop its tasks, and nothing that they still write comes back. What the fleet
// holds for it besides, limits and its place among the active, goes by itself.
// Delete may be repeated; it is no error that there is nothing to delete.
func (s *Store) Delete(ctx context.Context, id eval.ID) error {
	for deleted := false; !deleted; {
		phases, err := s.client.HGet(ctx, s.keys.Record(id), fieldPhases).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("delete %s: %w", id, err)
		}
		r, err := s.Evaluation(ctx, id)
		if errors.Is(err, ErrNoEvaluation) {
			r.ID = id // what an interrupted deletion left
		} else if err != nil {
			return err
		}
		if deleted, err = deleteScript.Run(ctx, s.client, s.keysOf(r), phases).Bool(); err != nil {
			return fmt.Errorf("delete %s: %w", id, err)
		}
	}
	if err := s.announce(ctx, "evaluation "+string(id)); err != nil {
		return err
	}
	if err := s.deleteProgress(ctx, id); err != nil {
		return fmt.Errorf("delete runs in progress of %s: %w", id, err)
	}
	// Last, so that a repeated deletion finds it after an interruption.
	if err := s.client.SRem(ctx, s.keys.Evaluations(), string(id)).Err(); err != nil {
		return fmt.Errorf("take %s off the list: %w", id, err)
	}
	return nil
}

// deleteProgress removes the list of runs in progress, except those with a job at a provider:
// the worker that drops the run's task cancels it.
func (s *Store) deleteProgress(ctx context.Context, id eval.ID) error {
	var over []string
	err := s.eachInProgress(ctx, id, func(run, job string) {
		if job == "" {
			over = append(over, run)
		}
	})
	for some := range slices.Chunk(over, progressAtOnce) {
		if err == nil {
			err = s.unlinkProgress(ctx, id, some...)
		}
	}
	return err
}

// progressAtOnce is how many runs in progress are read in one go.
const progressAtOnce = 1000

// ask sends the commands of a pipeline, each with its own error then. If nothing was
// sent, because a hook refused it or ctx has ended, all have that error: go-redis leaves those
// of a hook's refusal without one.
func ask(ctx context.Context, pipe redis.Pipeliner) {
	commands, err := pipe.Exec(ctx)
	if err == nil || slices.ContainsFunc(commands, func(c redis.Cmder) bool { return c.Err() != nil }) {
		return
	}
	for _, c := range commands {
		c.SetErr(err)
	}
}

// Going says which parts of an evaluation are active.
type Going struct {
	Status record.Status           // empty: it has no record, or none that can be read
	Paused map[string]record.Pause // providers
}

// Begins reports whether runs of a provider may be begun.
func (g Going) Begins(provider string) bool {
	_, paused := g.Paused[provider]
	return (g.Status == record.StatusActive || g.Status == record.StatusDone) && !paused
}

// Going reads which parts of evaluations are active.
func (s *Store) Going(ctx context.Context, ids []eval.ID) (map[eval.ID]Going, error) {
	asked := make([]*redis.SliceCmd, len(ids))
	pipe := s.client.Pipeline()
	for i, id := range ids {
		asked[i] = pipe.HMGet(ctx, s.keys.Record(id), fieldStatus, fieldPaused)
	}
	ask(ctx, pipe)
	going := make(map[eval.ID]Going, len(ids))
	for i, id := range ids {
		values, err := asked[i].Result()
		switch {
		case err != nil && !ofOneKey(err):
			return nil, fmt.Errorf("read the runs in progress of %s: %w", id, err)
		case err != nil:
			going[id] = Going{}
			continue
		}
		status, _ := values[0].(string)
		text, _ := values[1].(string)
		paused, err := parsePauses(text)
		if err != nil {
			status = "" // nothing of it is begun
		}
		going[id] = Going{record.Status(status), paused}
	}
	return going, nil
}
