package enqueue

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func (p *pinned) Holders(context.Context) (holders []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for holder := range p.of {
		id, _, _ := strings.Cut(strings.TrimPrefix(holder, "closed/"), "/")
		holders = append(holders, id)
	}
	return holders, nil
}

// setupIn is setup of a fleet in a namespace.
func setupIn(t *testing.T, namespace string) *bench {
	t.Helper()
	b := setup(t)
	client := b.server.Client()
	if prefix := (record.Keys{Namespace: namespace}).Asynq(); prefix != "" {
		client.AddHook(gate.Prefixed(prefix))
	}
	b.store = store.New(client, namespace)
	return b
}

// move puts a pending task elsewhere, as asynq and the gate do.
func (b *bench) move(queue, task, state string) {
	b.t.Helper()
	ctx, client, prefix := b.t.Context(), b.store.Client(), "asynq:{"+queue+"}:"
	if n := client.LRem(ctx, prefix+"pending", 0, task).Val(); n != 1 {
		b.t.Fatalf("%s is not pending in %s", task, queue)
	}
	client.HSet(ctx, prefix+"t:"+task, "state", state)
	if state == "active" {
		client.LPush(ctx, prefix+state, task)
		client.HSet(ctx, prefix+"t:"+task, "owner", "w1")
		return
	}
	client.ZAdd(ctx, prefix+state, redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: task})
}

// everywhere moves four tasks of a queue, so that there are some in every state but
// active.
func (b *bench) everywhere(queue string, id eval.ID) {
	b.t.Helper()
	for i, state := range []string{"scheduled", "retry", "archived", "completed"} {
		b.move(queue, record.Task{Evaluation: id, Index: i}.ID(), state)
	}
}

// left are the keys whose names contain a word, and asynq's queues with that name.
func (b *bench) left(word string) []string {
	b.t.Helper()
	ctx, client := b.t.Context(), b.server.Client()
	left := client.Keys(ctx, "*"+word+"*").Val()
	for _, key := range client.Keys(ctx, "*:queues").Val() {
		for _, queue := range client.SMembers(ctx, key).Val() {
			if strings.Contains(queue, word) {
				left = append(left, queue+" in "+key)
			}
		}
	}
	for _, key := range client.Keys(ctx, "*asynq:{*").Val() { // lists of tasks
		for _, id := range append(client.LRange(ctx, key, 0, -1).Val(), client.ZRange(ctx, key, 0, -1).Val()...) {
			if strings.Contains(id, word) {
				left = append(left, id+" in "+key)
			}
		}
	}
	for _, key := range client.Keys(ctx, "*evaluations").Val() {
		if client.SIsMember(ctx, key, word).Val() {
			left = append(left, word+" in "+key)
		}
	}
	slices.Sort(left)
	return left
}

// ofItself bounds an evaluation, which gives it a queue of its own.
func ofItself(s Submission) Submission {
	s.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Evaluation: string(s.Evaluation.ID())}, Kind: ratelimit.Concurrency, Max: 4}}
	return s
}

func TestNothingIsLeftOfADeletedEvaluation(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{record.DefaultNamespace, "b"} {
		for name, change := range map[string]func(Submission) Submission{
			"in a queue of its own":   ofItself,
			"in its provider's queue": func(s Submission) Submission { return s },
		} {
			t.Run(namespace+" "+name, func(t *testing.T) {
				t.Parallel()
				b := setupIn(t, namespace)
				receipt := b.submit(change(submission("deleted", 4))) // 12 runs
				b.everywhere(receipt.Queues[0], receipt.ID)
				if err := b.enqueuer(b.store).Delete(t.Context(), receipt.ID, false); err != nil {
					t.Fatal(err)
				}
				for _, word := range []string{string(receipt.ID), "asynq", "queues", "{p"} {
					if left := b.left(word); len(left) != 0 {
						t.Errorf("left with %q: %v", word, left)
					}
				}
				if len(b.limits.of) != 0 {
					t.Errorf("limits are pinned: %v", b.limits.of)
				}
			})
		}
	}
}

// While a worker holds a task of a deleted evaluation, the task is the worker's. Once it
// is gone, the next process that tops queues up removes the queue as well.
func TestTaskOfADeletedEvaluationIsTheWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("deleted", 4))
	held := record.Task{Evaluation: receipt.ID, Index: 5}.ID()
	b.move("p", held, "active")
	if err := b.enqueuer(b.store).Delete(t.Context(), receipt.ID, true); err != nil {
		t.Fatal(err)
	}
	client := b.store.Client()
	if owner := client.HGet(t.Context(), "asynq:{p}:t:"+held, "owner").Val(); owner != "w1" {
		t.Errorf("the task is %q's, want w1's", owner)
	}
	if got, want := b.left(string(receipt.ID)), []string{"asynq:{p}:t:" + held, held + " in asynq:{p}:active"}; !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
	client.Del(t.Context(), "asynq:{p}:t:"+held, "asynq:{p}:active")
	topUp := b.topUp(b.store)
	topUp.dropped[receipt.ID] = time.Now().Add(-unpinAfter)
	if err := topUp.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := append(b.left("asynq"), b.left("{p}")...); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Of a cancelled evaluation no task is left. Its record stays, and so does all of another
// evaluation in the same queue.
func TestCancelRemovesTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.submit(submission("other", 4))
	receipt := b.submit(submission("cancelled", 4))
	b.everywhere("p", other.ID)
	b.everywhere("p", receipt.ID)
	before := b.left(string(other.ID))
	if status, err := b.enqueuer(b.store).Cancel(t.Context(), receipt.ID); err != nil || status != record.StatusCancelled {
		t.Fatalf("Cancel = %s, %v", status, err)
	}
	for _, left := range b.left(string(receipt.ID)) {
		if strings.Contains(left, "asynq") {
			t.Errorf("left: %s", left)
		}
	}
	if after := b.left(string(other.ID)); !slices.Equal(before, after) || len(after) < 12 {
		t.Errorf("of the other evaluation there is %v, before there was %v", after, before)
	}
	if !b.store.Client().SIsMember(t.Context(), "asynq:queues", "p").Val() {
		t.Error("the queue of the other evaluation is off asynq's list")
	}
}

// The task of a run that has a job at its provider stays: the worker that drops it
// cancels the job.
func TestTaskWithAJobStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("deleted", 4))
	task := record.Task{Evaluation: receipt.ID, Index: 3}
	progress := store.Progress{Job: &record.Job{ID: "job"}}
	if _, err := b.store.SaveProgress(t.Context(), task, progress, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.enqueuer(b.store).Delete(t.Context(), receipt.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := b.store.Client().LRange(t.Context(), "asynq:{p}:pending", 0, -1).Val(); !slices.Equal(got, []string{task.ID()}) {
		t.Errorf("pending: %v, want %s alone", got, task.ID())
	}
}

// An evaluation that is submitted again while its deletion removes tasks is pushed as a
// whole, and stays active with its limits.
func TestSubmissionWhileTasksAreRemoved(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"lrange", "srem", "sscan"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := ofItself(submission("again", 4))
			receipt := b.submit(s)
			again := sync.OnceFunc(func() { b.submit(s) })
			client := b.server.Client()
			client.AddHook(after{func(cmd redis.Cmder) {
				if cmd.Name() == at && b.store.Client().Exists(t.Context(), b.store.Keys().Record(receipt.ID)).Val() == 0 {
					again()
				}
			}})
			if err := b.enqueuer(store.New(client, "")).Delete(t.Context(), receipt.ID, false); err != nil {
				t.Fatal(err)
			}
			b.wantGoing(receipt)
		})
	}
}

// wantGoing fails unless an evaluation is active, listed and pinned, and all its 12 runs
// are pending after the next look.
func (b *bench) wantGoing(of Receipt) {
	b.t.Helper()
	ctx, client := b.t.Context(), b.store.Client()
	if err := b.topUp(b.store).Tick(ctx); err != nil {
		b.t.Fatal(err)
	}
	if n := client.LLen(ctx, "asynq:{"+of.Queues[0]+"}:pending").Val(); n != 12 {
		b.t.Errorf("%d tasks are pending, want 12", n)
	}
	for _, key := range []string{b.store.Keys().Active(), b.store.Keys().Evaluations()} {
		if !client.SIsMember(ctx, key, string(of.ID)).Val() {
			b.t.Errorf("it is not in %s", key)
		}
	}
	for _, key := range []string{"asynq:queues", b.store.Keys().Queues()} {
		if !client.SIsMember(ctx, key, of.Queues[0]).Val() {
			b.t.Errorf("its queue is not in %s", key)
		}
	}
	if _, pinned := b.limits.of[string(of.ID)]; !pinned {
		b.t.Error("its limits are not pinned")
	}
}

// after is a hook that is told of each command that was answered.
type after struct{ told func(redis.Cmder) }

func (after) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (a after) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.told(cmd)
		return err
	}
}

func (a after) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
