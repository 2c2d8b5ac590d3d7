package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

var (
	//go:embed lua/again.lua
	againSource string
	//go:embed lua/queues.lua
	queuesSource string
	//go:embed lua/vacate.lua
	vacateSource string
	//go:embed lua/ended.lua
	endedSource string // prefix of the scripts about evaluations that have ended
	//go:embed lua/expire.lua
	expireSource string

	againScript  = redis.NewScript(againSource)
	queuesScript = redis.NewScript(queuesSource)
	vacateScript = redis.NewScript(vacateSource)
	expireScript = redis.NewScript(revisionSource + endedSource + expireSource)
)

// Queues lists the queues that runs were pushed to and that were not dropped since.
func (s *Store) Queues(ctx context.Context) ([]string, error) {
	queues, err := s.client.SMembers(ctx, s.keys.Queues()).Result()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	slices.Sort(queues)
	return queues, nil
}

// AddQueues adds queues to those of Queues.
func (s *Store) AddQueues(ctx context.Context, queues ...string) error {
	if len(queues) == 0 {
		return nil
	}
	listed := make([]any, len(queues))
	for i, queue := range queues {
		listed[i] = queue
	}
	if err := queuesScript.Run(ctx, s.client, []string{s.keys.Queues()}, listed...).Err(); err != nil {
		return fmt.Errorf("list queues %q: %w", queues, err)
	}
	return nil
}

// DropQueue removes a queue from those of Queues.
func (s *Store) DropQueue(ctx context.Context, queue string) error {
	if err := s.client.SRem(ctx, s.keys.Queues(), queue).Err(); err != nil {
		return fmt.Errorf("drop queue %s: %w", queue, err)
	}
	return nil
}

// Use says whether an evaluation may have tasks, and in which queues.
type Use struct {
	Status     record.Status // empty: no record, or one that cannot be read
	Stopped    string        // like record.Evaluation.Stopped
	Unreadable bool          // it has a record that this program cannot read
	Queues     []string
}

// Gone reports whether the evaluation has no record.
func (u Use) Gone() bool { return u.Status == "" && !u.Unreadable }

// Uses returns the uses of evaluations.
func (s *Store) Uses(ctx context.Context, ids []eval.ID) (map[eval.ID]Use, error) {
	uses := make(map[eval.ID]Use, len(ids))
	for some := range slices.Chunk(ids, standingsAtOnce) {
		asked := make([]*redis.SliceCmd, len(some))
		pipe := s.client.Pipeline()
		for i, id := range some {
			asked[i] = pipe.HMGet(ctx, s.keys.Record(id), fieldVersion, fieldStatus, fieldPhases, fieldStopped)
		}
		ask(ctx, pipe)
		for i, id := range some {
			values, err := asked[i].Result()
			if err != nil && !ofOneKey(err) {
				return nil, fmt.Errorf("read the queues of %s: %w", id, err)
			}
			uses[id] = useOf(values)
		}
	}
	return uses, nil
}

// useOf reads version, status, phases and Stopped of a record; nil: Redis cannot read them.
func useOf(values []any) Use {
	if values != nil && !slices.ContainsFunc(values, func(v any) bool { return v != nil }) {
		return Use{}
	}
	var words [4]string
	for i, value := range values {
		words[i], _ = value.(string)
	}
	var phases []record.Phase
	if versionKnown(words[0]) != nil || words[1] == "" || json.Unmarshal([]byte(words[2]), &phases) != nil {
		return Use{Unreadable: true}
	}
	return Use{Status: record.Status(words[1]), Stopped: words[3], Queues: record.Evaluation{Phases: phases}.QueueNames()}
}

// PushAgain causes all unfinished runs of an evaluation to be pushed again, if it is active or
// paused. Call it after removing tasks of an evaluation because it had ended or had no record.
// Existing tasks are unchanged.
func (s *Store) PushAgain(ctx context.Context, id eval.ID) error {
	if err := againScript.Run(ctx, s.client, []string{s.keys.Record(id), s.keys.Cursors(id)}).Err(); err != nil {
		return fmt.Errorf("push the runs of %s again: %w", id, err)
	}
	return nil
}

// WithJob returns the runs of an evaluation, by their short IDs, that may have a job at a provider.
// A worker that drops the task of such a run cancels the job.
func (s *Store) WithJob(ctx context.Context, id eval.ID) (map[string]bool, error) {
	runs := map[string]bool{}
	err := s.eachInProgress(ctx, id, func(run string, values []string) {
		if values[0] != "" {
			runs[run] = true
		}
	}, record.ProgressJob)
	if err != nil {
		return nil, fmt.Errorf("look for jobs of %s: %w", id, err)
	}
	return runs, nil
}

// Vacate removes the leftovers of an evaluation without a record, and the evaluation from the list.
// It leaves the runs that have a job at a provider. An evaluation that gets a record meanwhile
// keeps everything. Keys that a submission writes before the record expire by themselves.
func (s *Store) Vacate(ctx context.Context, id eval.ID) error {
	vacate := func(runs []any, keys ...string) error {
		keys = append([]string{s.keys.Record(id), s.keys.InProgress(id)}, keys...)
		if err := vacateScript.Run(ctx, s.client, keys, runs...).Err(); err != nil {
			return fmt.Errorf("remove what is left of %s: %w", id, err)
		}
		return nil
	}
	listing, err := s.listing(ctx, s.keys.Evaluations(), id)
	if err != nil {
		return err
	}
	var over []string
	err = s.eachInProgress(ctx, id, func(run string, values []string) {
		if values[0] == "" {
			over = append(over, run)
		}
	}, record.ProgressJob)
	if err != nil {
		return fmt.Errorf("remove what is left of %s: %w", id, err)
	}

	for some := range slices.Chunk(over, progressAtOnce) {
		var runs []any
		var keys []string
		for _, run := range some {
			runs, keys = append(runs, run), append(keys, s.keys.ProgressOf(id, run))
		}
		if err := vacate(runs, keys...); err != nil {
			return err
		}
	}
	if err := vacate(nil, s.keys.Cursors(id), s.keys.Counts(id), s.keys.Results(id)); err != nil {
		return err
	}

	if err := s.unlist(ctx, s.keys.Evaluations(), id, listing); err != nil {
		return err
	}
	n, err := s.client.Exists(ctx, s.keys.Record(id)).Result()
	if err != nil {
		return fmt.Errorf("look whether %s was submitted meanwhile: %w", id, err)
	}
	if n > 0 {
		return s.list(ctx, s.keys.Evaluations(), id)
	}
	return nil
}

// eachInProgress calls see with fields of the progress of each run in progress of an evaluation, in the order of the list,
// which may have a run twice. A field that is missing is empty. values is valid until see returns.
func (s *Store) eachInProgress(ctx context.Context, id eval.ID, see func(run string, values []string), fields ...string) error {
	values := make([]string, len(fields))
	for cursor := uint64(0); ; {
		listed, next, err := s.client.SScan(ctx, s.keys.InProgress(id), cursor, "", progressAtOnce).Result()
		if err != nil {
			return err
		}
		read := make([]*redis.SliceCmd, len(listed))
		_, err = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, run := range listed {
				read[i] = pipe.HMGet(ctx, s.keys.ProgressOf(id, run), fields...)
			}
			return nil
		})
		if err != nil {
			return err
		}

		for i, run := range listed {
			for k, value := range read[i].Val() {
				values[k], _ = value.(string)
			}
			see(run, values)
		}

		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// Expire makes an evaluation that has ended and was drained expire in seven days. It does not
// change an unfinished one.
func (s *Store) Expire(ctx context.Context, id eval.ID) error {
	_, err := s.expire(ctx, id, 0)
	return err
}

// ExpireEnded does what Expire does, but only for an evaluation without an expiry: its drain was
// interrupted, or had nothing to drain. It reports whether the evaluation has an expiry now.
func (s *Store) ExpireEnded(ctx context.Context, id eval.ID) (bool, error) {
	return s.expire(ctx, id, 1)
}

func (s *Store) expire(ctx context.Context, id eval.ID, onlyNew int) (bool, error) {
	r, err := s.Evaluation(ctx, id)
	if errors.Is(err, ErrNoEvaluation) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	keys := []string{s.keys.Record(id), s.keys.Results(id)}
	for _, key := range s.keysOf(r) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	ends, err := expireScript.Run(ctx, s.client, keys, int(endedLife.Seconds()), onlyNew, string(r.Revision)).Bool()
	if err != nil {
		return false, fmt.Errorf("expire %s: %w", id, err)
	}
	return ends, nil
}
