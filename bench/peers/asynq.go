package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// asynqPeer is asynq used as its documentation shows. A semaphore in Redis bounds calls in flight; its refusals go back
// to the queue. redis_rate bounds rates; its refusals are waited for in place.
type asynqPeer struct{ self string }

func (asynqPeer) name() string { return "asynq" }

// callTimeout bounds a task, and with it the time for which a dead process keeps its part of
// the semaphore. It is evalfleet's default.
const callTimeout = 2 * time.Minute

func (p asynqPeer) enqueue(_ context.Context, e env) error {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: e.redisAddr()})
	defer client.Close()
	for _, q := range e.job.Queues {
		for n := range q.Runs {
			task := asynq.NewTask(q.Model, []byte(strconv.Itoa(n)))
			if _, err := client.Enqueue(task, asynq.Queue(q.Model), asynq.Timeout(callTimeout), asynq.MaxRetry(1000)); err != nil {
				return fmt.Errorf("asynq: enqueue: %w", err)
			}
		}
	}
	return nil
}

func (p asynqPeer) worker(ctx context.Context, e env) (*exec.Cmd, error) {
	raw, err := json.Marshal(e.job)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, p.self, "asynq-worker", string(raw)), nil
}

// errLater is the error of a refused task; in is the time after which it may be tried again.
type errLater struct{ in time.Duration }

func (e errLater) Error() string { return "limit reached, retry in " + e.in.String() }

// runAsynqWorker serves all queues of a job until ctx ends.
func runAsynqWorker(ctx context.Context, j job) error {
	limits := map[string]contenderQueue{}
	queues := map[string]int{}
	for _, q := range j.Queues {
		limits[q.Model], queues[q.Model] = q, 1
	}
	addr := "127.0.0.1:" + strconv.Itoa(j.RedisPort)
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()

	rates := redis_rate.NewLimiter(rdb)
	client := witness.NewClient(j.URL)
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
		Concurrency:              j.Concurrency * len(j.Queues),
		Queues:                   queues,
		LogLevel:                 asynq.ErrorLevel,
		DelayedTaskCheckInterval: time.Second, // the default of 5 s leaves slots idle for longer
		IsFailure:                func(err error) bool { return !errors.As(err, new(errLater)) },
		RetryDelayFunc: func(n int, err error, t *asynq.Task) time.Duration {
			if later := new(errLater); errors.As(err, later) {
				return later.in
			}
			return asynq.DefaultRetryDelayFunc(n, err, t)
		},
	})
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		q := limits[task.Type()]
		if q.InFlight > 0 {
			id, _ := asynq.GetTaskID(ctx)
			s := semaphore{rdb, "semaphore:" + q.Model, q.InFlight}
			switch ok, err := s.acquire(ctx, id); {
			case err != nil:
				return err
			case !ok:
				return errLater{time.Second}
			}
			defer s.release(context.WithoutCancel(ctx), id)
		}
		for {
			if err := waitForRate(ctx, rates, q); err != nil {
				return err
			}
			wait, err := client.Call(ctx, q.Model, q.Model+" "+string(task.Payload()))
			if err != nil || wait == 0 {
				return err
			}
			if err := outage.Pause(ctx, wait); err != nil {
				return err
			}
		}
	})
	if err := server.Start(handler); err != nil {
		return fmt.Errorf("asynq: start: %w", err)
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// waitForRate blocks until redis_rate allows a call of q.
func waitForRate(ctx context.Context, rates *redis_rate.Limiter, q contenderQueue) error {
	var limit redis_rate.Limit
	switch {
	case q.Max > 0:
		limit = redis_rate.Limit{Rate: q.Max, Burst: q.Max, Period: time.Duration(q.WindowMS) * time.Millisecond}
	case q.Burst > 0:
		limit = redis_rate.Limit{Rate: int(q.Rate), Burst: q.Burst, Period: time.Second}
	default:
		return nil
	}
	for {
		answer, err := rates.Allow(ctx, q.Model, limit)
		if err != nil || answer.Allowed > 0 {
			return err
		}
		if err := outage.Pause(ctx, answer.RetryAfter); err != nil {
			return err
		}
	}
}

// semaphore is a sorted set of holders scored by the time at which each expires. It is the algorithm of the semaphore
// in asynq's module x/rate, which has no release that works with asynq 0.26.
type semaphore struct {
	rdb  *redis.Client
	key  string
	size int
}

var acquireScript = redis.NewScript(`
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", ARGV[1])
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call("ZADD", KEYS[1], ARGV[3], ARGV[4])
return 1`)

func (s semaphore) acquire(ctx context.Context, holder string) (bool, error) {
	now := time.Now()
	n, err := acquireScript.Run(ctx, s.rdb, []string{s.key}, now.Unix(), s.size, now.Add(callTimeout).Unix(), holder).Int()
	return n == 1, err
}

func (s semaphore) release(ctx context.Context, holder string) { s.rdb.ZRem(ctx, s.key, holder) }
