package enqueue

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// sweeper is one for which whatever looks left behind is.
func (b *bench) sweeper(s *store.Store) *Sweeper {
	sweeper := NewSweeper(s, b.limits, zerolog.New(zerolog.NewTestWriter(b.t)))
	sweeper.wait, sweeper.pause = 0, 0
	return sweeper
}

func (b *bench) sweep() {
	b.t.Helper()
	if err := b.sweeper(b.store).Sweep(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// lose removes what expires of an evaluation, which is then no more active.
func (b *bench) lose(id eval.ID) {
	b.t.Helper()
	keys := b.store.Keys()
	b.store.Client().Unlink(b.t.Context(), keys.Record(id), keys.Plan(id), keys.Documents(id), keys.Cursors(id),
		keys.Counts(id), keys.Results(id), keys.States(id, 0, 0))
	if err := b.store.Deactivate(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
}

// everything is what Redis holds, by key.
func (b *bench) everything() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	client := b.server.Client()
	for _, key := range client.Keys(b.t.Context(), "*").Val() {
		all[key] = client.Dump(b.t.Context(), key).Val()
	}
	return all
}

// changed names the keys that differ.
func changed(before, after map[string]string) (keys []string) {
	for key, value := range before {
		if after[key] != value {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, known := before[key]; !known {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Nothing is left of an evaluation whose record expired, or whose deletion was killed,
// at whatever point. Another one, whose runs are in the same queue, keeps everything.
func TestSweepRemovesWhatHasNoRecord(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{record.DefaultNamespace, "b"} {
		for name, change := range map[string]func(Submission) Submission{
			"in a queue of its own":   ofItself,
			"in its provider's queue": func(s Submission) Submission { return s },
		} {
			t.Run(namespace+" "+name, func(t *testing.T) {
				t.Parallel()
				b := setupIn(t, namespace)
				other := b.submit(submission("other", 4))
				b.everywhere("p", other.ID)
				b.move("p", record.Task{Evaluation: other.ID, Index: 5}.ID(), "active")
				before := b.everything()

				gone := b.submit(change(submission("gone", 4)))
				b.everywhere(gone.Queues[0], gone.ID)
				client, keys := b.store.Client(), b.store.Keys()
				if _, err := b.store.SaveProgress(t.Context(), record.Task{Evaluation: gone.ID, Index: 3}, store.Progress{Attempts: 1}, []record.Call{{ID: "x"}}); err != nil {
					t.Fatal(err)
				}
				if err := b.limits.Close(t.Context(), ratelimit.Scope{Evaluation: string(gone.ID)}); err != nil {
					t.Fatal(err)
				}
				b.lose(gone.ID)
				client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Results(gone.ID), Values: []string{"v", "1"}}) // written after the expiry was set
				b.sweep()
				if left := b.left(string(gone.ID)); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
				for holder := range b.limits.of {
					if strings.Contains(holder, string(gone.ID)) {
						t.Errorf("limits are pinned by %s", holder)
					}
				}
				if keys := changed(before, b.everything()); len(keys) != 0 {
					t.Errorf("of another evaluation these have changed: %v", keys)
				}
			})
		}
	}
}

// Before a minute is over, what has no record may be a submission or a deletion under
// way, and is left alone.
func TestSweepWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("gone", 4))
	b.lose(receipt.ID)
	before := b.everything()
	sweeper := b.sweeper(b.store)
	sweeper.wait = time.Hour
	for range 3 {
		if err := sweeper.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if keys := changed(before, b.everything()); len(keys) != 0 {
		t.Errorf("these have changed: %v", keys)
	}
	sweeper.wait = 0
	if err := sweeper.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val(); n != 0 {
		t.Errorf("%d tasks are pending after the wait", n)
	}
}

// Of an evaluation that has ended, tasks that wait are removed, of a cancelled one all.
// Tasks in a queue that is not its runs' go, too, and completed ones whose time is over.
// Its record is given an end, if it has none.
func TestSweepOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client, ctx := b.store.Client(), t.Context()
	statuses := map[record.Status]eval.ID{}
	for _, status := range []record.Status{record.StatusActive, record.StatusPaused, record.StatusDone, record.StatusCancelled} {
		receipt := b.submit(submission(string(status), 4))
		statuses[status] = receipt.ID
		b.everywhere("p", receipt.ID)
		client.HSet(ctx, b.store.Keys().Record(receipt.ID), "status", string(status))
		stray := record.Task{Evaluation: receipt.ID, Index: 7}.ID()
		client.HSet(ctx, "asynq:{strays}:t:"+stray, "state", "pending")
		client.LPush(ctx, "asynq:{strays}:pending", stray)
		old := record.Task{Evaluation: receipt.ID, Index: 8}.ID()
		b.move("p", old, "completed")
		client.ZAdd(ctx, "asynq:{p}:completed", redis.Z{Score: 1, Member: old})
	}
	if err := b.store.AddQueues(ctx, "strays"); err != nil {
		t.Fatal(err)
	}
	b.sweep()
	count := func(id eval.ID) (waiting, kept, strays int) {
		for _, key := range client.Keys(ctx, "asynq:*:t:"+string(id)+".*").Val() {
			switch state := client.HGet(ctx, key, "state").Val(); {
			case strings.Contains(key, "{strays}"):
				strays++
			case state == "archived" || state == "completed":
				kept++
			default:
				waiting++
			}
		}
		return waiting, kept, strays
	}
	for status, want := range map[record.Status][3]int{
		record.StatusActive: {9, 2, 0}, record.StatusPaused: {9, 2, 0}, record.StatusDone: {0, 2, 0}, record.StatusCancelled: {0, 0, 0},
	} {
		waiting, kept, strays := count(statuses[status])
		if got := [3]int{waiting, kept, strays}; got != want {
			t.Errorf("%s: %v tasks wait, are kept, are in another queue; want %v", status, got, want)
		}
		ends := client.PTTL(ctx, b.store.Keys().Record(statuses[status])).Val() > 0
		if want := status == record.StatusDone || status == record.StatusCancelled; ends != want {
			t.Errorf("%s: the record has an end: %v", status, ends)
		}
	}
}

// The task of a cancelled run that has a job at its provider was lost. It is pushed again, so that a worker cancels the
// job, and once the job is gone, the evaluation is not looked at any more.
func TestSweepRecallsJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, client := t.Context(), b.store.Client()
	receipt := b.submit(submission("cancelled", 4))
	task := record.Task{Evaluation: receipt.ID, Index: 3}
	job := record.Job{ID: "job", Call: record.Call{Index: 3}}
	if _, err := b.store.SaveProgress(ctx, task, store.Progress{Job: &job}, nil); err != nil {
		t.Fatal(err)
	}
	if status, err := b.enqueuer(b.store).Cancel(ctx, receipt.ID); err != nil || status != record.StatusCancelled {
		t.Fatalf("Cancel = %s, %v", status, err)
	}
	pending := func() []string { return client.LRange(ctx, "asynq:{p}:pending", 0, -1).Val() }
	client.Del(ctx, "asynq:{p}:pending", "asynq:{p}:t:"+task.ID())

	sweeper := b.sweeper(b.store)
	for range 2 {
		if err := sweeper.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if got := pending(); !slices.Equal(got, []string{task.ID()}) {
			t.Errorf("pending: %v, want %s alone", got, task.ID())
		}
	}
	if _, err := b.store.SaveProgress(ctx, task, store.Progress{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := sweeper.Sweep(ctx); err != nil || !sweeper.clear[receipt.ID] {
		t.Errorf("after the job has ended, it is looked for again: %v", err)
	}
}

// An evaluation submitted during a sweep, at any point of it, continues.
func TestSubmissionDuringASweep(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"smembers", "lrange", "sscan", "srem", "evalsha"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := ofItself(submission("again", 4))
			receipt := b.submit(s)
			b.lose(receipt.ID)
			again := sync.OnceFunc(func() { b.submit(s) })
			client := b.server.Client()
			client.AddHook(after{func(cmd redis.Cmder) {
				if cmd.Name() == at {
					again()
				}
			}})
			if err := b.sweeper(store.New(client, "")).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantGoing(receipt)
		})
	}
}

// Two processes sweep at the same moment, wherever the one is when the other sweeps, and
// the evaluation is submitted again before or after that: it goes on as a whole.
func TestTwoSweepsAndASubmission(t *testing.T) {
	t.Parallel()
	orders := map[string]func(sweep, submit func()){
		"sweep, submission": func(sweep, submit func()) { sweep(); submit() },
		"submission, sweep": func(sweep, submit func()) { submit(); sweep() },
		"at once": func(sweep, submit func()) {
			var both sync.WaitGroup
			both.Go(sweep)
			both.Go(submit)
			both.Wait()
		},
	}
	for order, meet := range orders {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for before := 1; ; before++ {
				if err := b.store.Client().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				s := ofItself(submission("again", 4))
				receipt := b.submit(s)
				b.lose(receipt.ID)
				client, met := b.server.Client(), &redistest.Meeting{Do: func() { meet(b.sweep, func() { b.submit(s) }) }}
				client.AddHook(met)
				met.Before(before)
				if err := b.sweeper(store.New(client, "")).Sweep(t.Context()); err != nil {
					t.Fatalf("met before command %d: %v", before, err)
				}
				if !met.Met() { // all were tried
					if before < 20 {
						t.Errorf("a sweep made fewer than %d commands", before)
					}
					return
				}
				b.wantGoing(receipt)
				if t.Failed() {
					t.Fatalf("met before command %d", before)
				}
			}
		})
	}
}
