package store

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// ErrCancelled means that the evaluation was cancelled, which is final.
var ErrCancelled = errors.New("the evaluation was cancelled")

// ErrReplaced means that the evaluation was deleted and submitted again while a command about it
// was under way. The command does not change the new one.
var ErrReplaced = errors.New("it was deleted, or deleted and submitted again, meanwhile")

var (
	//go:embed lua/steered.lua
	steeredSource string // prefix of the scripts that pause or resume
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
	//go:embed lua/submitted.lua
	submittedSource string

	pauseScript         = redis.NewScript(revisionSource + steeredSource + pauseSource)
	pauseProviderScript = redis.NewScript(revisionSource + steeredSource + pauseProviderSource)
	resumeScript        = redis.NewScript(revisionSource + steeredSource + resumeSource)
	cancelScript        = redis.NewScript(revisionSource + cancelSource)
	retryScript         = redis.NewScript(retrySource)
	deleteScript        = redis.NewScript(revisionSource + deleteSource)
	submittedScript     = redis.NewScript(submittedSource)
)

// Pause prevents further runs of an active evaluation from beginning. It returns the evaluation's
// status afterwards, which is not "paused" if there was nothing to pause. why becomes the record's
// Stopped.
func (s *Store) Pause(ctx context.Context, id eval.ID, why string) (record.Status, error) {
	var status string
	token := rand.Text()
	err := s.means(ctx, id, func(meant record.Revision) (stale bool, err error) {
		status, err = pauseScript.Run(ctx, s.client, []string{s.keys.Record(id)}, string(meant), why, token).Text()
		return status == staleAnswer, err
	})
	return s.steered(ctx, "pause", id, status, err)
}

// PauseProvider prevents further runs of a provider from beginning in an active evaluation. paused
// is false if the evaluation is not active; first is false if the provider was paused already.
func (s *Store) PauseProvider(ctx context.Context, id eval.ID, provider string, why record.Pause) (paused, first bool, err error) {
	text, err := json.Marshal(why)
	if err != nil {
		return false, false, fmt.Errorf("pause %s of %s: %w", provider, id, err)
	}
	answer, token := 0, rand.Text()
	err = s.means(ctx, id, func(meant record.Revision) (stale bool, err error) {
		answer, err = pauseProviderScript.Run(ctx, s.client, []string{s.keys.Record(id)}, string(meant), provider, text, token).Int()
		return answer == -2, err
	})
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

// Resume resumes a paused evaluation, which the caller has activated (Activate), and the paused
// providers of an active one. It returns the status afterwards.
func (s *Store) Resume(ctx context.Context, r record.Evaluation) (record.Status, error) {
	token := rand.Text()
	return s.steer(ctx, "resume", r, resumeScript, func(r record.Evaluation) (keys []string, args []any) {
		return append([]string{s.keys.Record(r.ID), s.keys.Cursors(r.ID)}, s.keysOf(r)...), []any{token}
	})
}

// Cancel ends every unfinished run of an evaluation, and returns the evaluation's status
// afterwards. Recorded results stay; runs in flight are no longer recorded, only their calls.
func (s *Store) Cancel(ctx context.Context, r record.Evaluation) (record.Status, error) {
	return s.steer(ctx, "cancel", r, cancelScript, func(r record.Evaluation) (keys []string, args []any) {
		for i, phase := range r.Phases {
			for queue, runs := range phase.Queues {
				args = append(args, runs)
				for _, field := range endedFields(i, queue) {
					args = append(args, field)
				}
			}
		}
		return []string{s.keys.Record(r.ID), s.keys.Counts(r.ID)}, args
	})
}

// staleAnswer is the reply of scripts that were sent for another revision of the record.
const staleAnswer = "stale"

// steer runs a script that replies with a status, and announces the change. The script gets the
// revision of r: if it is delivered late, it changes nothing. If only the revision has changed,
// steer sends it again for the new one.
func (s *Store) steer(
	ctx context.Context, what string, r record.Evaluation, script *redis.Script,
	of func(record.Evaluation) ([]string, []any),
) (record.Status, error) {
	meant := r.Created.UnixMilli()
	for {
		keys, args := of(r)
		status, err := script.Run(ctx, s.client, keys, append([]any{string(r.Revision)}, args...)...).Text()
		if err != nil || status != staleAnswer {
			return s.steered(ctx, what, r.ID, status, err)
		}

		if r, err = s.Evaluation(ctx, r.ID); err == nil && r.Created.UnixMilli() != meant {
			err = ErrReplaced
		}
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", what, r.ID, err)
		}
	}
}

// steered announces what a script that replies with a status has changed.
func (s *Store) steered(ctx context.Context, what string, id eval.ID, status string, err error) (record.Status, error) {
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", what, id, err)
	}
	if status == "" {
		return "", fmt.Errorf("%s %s: %w", what, id, ErrNoEvaluation)
	}
	return record.Status(status), s.announce(ctx, "evaluation "+string(id))
}

// means passes the current revision of the record to run, which runs a script for that revision. If
// the revision has changed before the script arrives, means calls run again with the new one. The
// error is ErrReplaced if another record has replaced this one.
func (s *Store) means(ctx context.Context, id eval.ID, run func(meant record.Revision) (stale bool, err error)) error {
	first, err := s.revision(ctx, id)
	for meant := first; err == nil; meant, err = s.revision(ctx, id) {
		if !meant.SameRecord(first) {
			return ErrReplaced
		}
		if stale, err := run(meant); err != nil || !stale {
			return err
		}
	}
	return err
}

// revision reads the revision of an evaluation's record, even if there is no record.
func (s *Store) revision(ctx context.Context, id eval.ID) (record.Revision, error) {
	values, err := s.client.HMGet(ctx, s.keys.Record(id), fieldCreated, fieldRevision, fieldChosen).Result()
	if err != nil {
		return "", fmt.Errorf("read the revision of %s: %w", id, err)
	}
	var words [3]string
	for i, value := range values {
		words[i], _ = value.(string)
	}
	return record.RevisionOf(words[0], words[1], words[2]), nil
}

// Submitted notes that an evaluation was submitted again and stays as it is. No command that was
// sent before takes effect afterwards.
func (s *Store) Submitted(ctx context.Context, id eval.ID) error {
	if err := submittedScript.Run(ctx, s.client, []string{s.keys.Record(id)}).Err(); err != nil {
		return fmt.Errorf("note the submission of %s: %w", id, err)
	}
	return nil
}

// Failed is a run that failed in a generation.
type Failed struct {
	Index, Generation int
	Queue             string
}

// Retry moves failed runs of a phase to their next generation, and returns their number. Runs that
// have not failed in the given generation are unchanged. A done evaluation becomes active; Activate
// causes its runs to be pushed. There is no generation above record.MaxGeneration, so runs of that
// generation must not be given. The error is ErrCancelled or ErrNoEvaluation in those cases.
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
		n, err := retryScript.Run(ctx, s.client, keys, append([]any{r.Created.UnixMilli()}, runs...)...).Int()
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

// Delete removes every key of an evaluation and removes it from the list. Workers drop its tasks,
// and what they still write does not restore it. What else the fleet has of it, its limits and its
// place among the active, disappears by itself.
//
// Delete may be repeated: that nothing is left to delete is not an error. The error is ErrReplaced
// if the evaluation was deleted and submitted again meanwhile; the new one stays.
func (s *Store) Delete(ctx context.Context, id eval.ID) error {
	err := s.means(ctx, id, func(meant record.Revision) (stale bool, err error) {
		phases, err := s.client.HGet(ctx, s.keys.Record(id), fieldPhases).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		r, err := s.Evaluation(ctx, id)
		if errors.Is(err, ErrNoEvaluation) {
			r.ID = id // to delete what an interrupted deletion left
		} else if err != nil {
			return false, err
		}
		deleted, err := deleteScript.Run(ctx, s.client, s.keysOf(r), string(meant), phases).Bool()
		return !deleted, err
	})

	if errors.Is(err, ErrReplaced) {
		now, readErr := s.revision(ctx, id)
		if readErr != nil || now != record.RevisionOf("", "", "") {
			return fmt.Errorf("delete %s: %w", id, cmp.Or(readErr, err))
		}
		err = nil // the first of two deliveries has deleted it
	}

	if err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	if err := s.announce(ctx, "evaluation "+string(id)); err != nil {
		return err
	}
	return s.Vacate(ctx, id) // last, so that a repeated deletion finds it
}

// progressAtOnce is how many runs in progress are read in one step.
const progressAtOnce = 1000

// ask sends the commands of a pipeline; each has its own error afterwards. If nothing was sent,
// because a hook refused it or ctx has ended, all have that error. go-redis itself sets none if a
// hook refuses.
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
	Status record.Status           // empty: no record, or one that cannot be read
	Paused map[string]record.Pause // providers
}

// Begins reports whether runs of a provider may begin.
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
			status = "" // nothing of it may begin
		}
		going[id] = Going{record.Status(status), paused}
	}

	return going, nil
}
