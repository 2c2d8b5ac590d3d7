package collect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A call ended as Redis lost the limiter's keys, and its outcome is recorded only after
// the results were drained: its cost reaches the budget, and a daily quota counts it. Calls that
// the quota counts itself are not counted again.
func TestBudgetIsToldOfCallsThatEndMeanwhile(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.New(t)
	s := store.New(server.Client(), "")
	limits := ratelimit.NewAdmin(server.Client(), ratelimit.Config{})
	e, texts := pairOf("budgeted")
	id := e.ID()
	quota := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Requests, Max: 100, Resets: "UTC"}
	settings := record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: []ratelimit.Limit{ratelimit.Budget(string(id), ratelimit.Dollar), quota}}
	q := &enqueue.Enqueuer{Store: s, Limits: limits, Log: zerolog.Nop()}
	if _, err := q.Submit(ctx, enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	ended := func(index int, usd float64) {
		run := record.Run{Index: index, Kind: eval.KindPairwise, Queue: "p", Winner: "a.md", Documents: []string{"a.md", "b.md"}, Candidates: []string{"a", "b"}, Judge: "p:m", Model: "p:m", Attempts: 1, Started: time.Now(), Ended: time.Now()}
		call := record.Call{ID: "c" + string(rune('0'+index)), Index: index, Stage: "verdict", Model: "p:m", Attempt: 1, Status: 200, Asked: time.Now(), Started: time.Now(), Ended: time.Now(), Usage: providers.Usage{Reported: true, CostUSD: &usd}}
		if _, err := s.Record(ctx, id, eval.StateSucceeded, run, []record.Call{call}); err != nil {
			t.Error(err)
		}
	}
	ended(0, 0.25)
	blind := time.Now().Add(500 * time.Millisecond).UnixMicro()
	if err := server.Client().HSet(ctx, "{ef}:limits", "epoch", "another", "since", time.Now().Add(time.Minute).UnixMicro(), "blind", blind).Err(); err != nil {
		t.Fatal(err)
	}
	counted := string(id) + ".c0" // it was in flight at the loss
	if err := server.Client().HSet(ctx, "{ef}:q:"+quota.ID(), "epoch", "another", "base", 0, "before", 1, "ran:"+counted, 1).Err(); err != nil {
		t.Fatal(err)
	}
	watched := server.Client()
	watched.AddHook(&uponCommand{name: "hexists", key: "{ef}:m:" + ratelimit.Budget(string(id), 0).ID(), do: func() { ended(1, 0.5) }})
	f := &Collector{Store: store.New(watched, ""), Log: zerolog.Nop(), Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) {
		return results.Open(ctx, "sqlite://"+filepath.Join(t.TempDir(), "results.db"))
	}}
	drained, err := f.Once(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	usage, err := limits.Usage(ctx)
	if err != nil || len(usage) != 2 || usage[0].Closed || usage[0].Spent != 0.75*ratelimit.Dollar || usage[1].InUse != 2 {
		t.Errorf("Usage = %+v, %v; want $0.75 spent and 2 calls of today", usage, err)
	}
	if drained.Entries != 2 {
		t.Errorf("%d entries were drained, want 2", drained.Entries)
	}
}

// pairOf is an evaluation of two runs, with its documents.
func pairOf(name string) (*eval.Evaluation, map[string]string) {
	e := &eval.Evaluation{
		Name: name, Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:    []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
		Pairwise:  &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
		Documents: []eval.Document{{ID: "a.md", Candidate: "a", Hash: eval.TextHash("a"), Bytes: 1}, {ID: "b.md", Candidate: "b", Hash: eval.TextHash("b"), Bytes: 1}},
	}
	e.Normalize()
	return e, map[string]string{eval.TextHash("a"): "a", eval.TextHash("b"): "b"}
}

// uponCommand does something once, before the first command of a name on a key.
type uponCommand struct {
	name, key string
	do        func()
	once      sync.Once
}

func (u *uponCommand) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (u *uponCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.EqualFold(cmd.Name(), u.name) && len(args) > 1 && args[1] == u.key {
			u.once.Do(u.do)
		}
		return next(ctx, cmd)
	}
}

func (u *uponCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Another server takes over that lacks the last calls: the collector tells the
// budget and a daily quota again what its results store has, one evaluation and all of a fleet. The
// server may also lack what the submission wrote last: that the evaluation is active.
func TestFollowersTellWhatAnotherServerLacks(t *testing.T) {
	t.Parallel()
	for _, follows := range []string{"one", "all"} {
		t.Run(follows, func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.New(t)
			client := server.Client()
			s := store.New(client, "")
			limits := ratelimit.NewAdmin(client, ratelimit.Config{})
			e, texts := pairOf("budgeted")
			id := e.ID()
			quota := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Requests, Max: 100, Resets: "UTC"}
			budget := ratelimit.Budget(string(id), ratelimit.Dollar)
			settings := record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: []ratelimit.Limit{budget, quota}}
			f := &Collector{Store: s, Log: zerolog.Nop(), Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) {
				return results.Open(ctx, "sqlite://"+filepath.Join(t.TempDir(), "results.db"))
			}}
			if _, _, err := f.Submit(ctx, enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}, nil); err != nil {
				t.Fatal(err)
			}
			following, stop := context.WithCancel(ctx)
			done := make(chan error)
			go func() {
				if follows == "all" {
					done <- f.FollowAll(following)
					return
				}
				_, err := f.Follow(following, id)
				done <- err
			}()
			usd := 0.25
			run := record.Run{Index: 0, Kind: eval.KindPairwise, Queue: "p", Winner: "a.md", Documents: []string{"a.md", "b.md"}, Candidates: []string{"a", "b"}, Judge: "p:m", Model: "p:m", Attempts: 1, Started: time.Now(), Ended: time.Now()}
			call := record.Call{ID: "c0", Stage: "verdict", Model: "p:m", Attempt: 1, Status: 200, Asked: time.Now(), Started: time.Now(), Ended: time.Now(), Usage: providers.Usage{Reported: true, CostUSD: &usd}}
			if _, err := s.Record(ctx, id, eval.StateSucceeded, run, []record.Call{call}); err != nil {
				t.Fatal(err)
			}
			testrun.Eventually(t, "the results store has the call", func() bool {
				return client.XLen(ctx, s.Keys().Results(id)).Val() == 0
			})
			if err := client.HSet(ctx, "{ef}:limits", "run", "the server before").Err(); err != nil {
				t.Fatal(err)
			}
			if err := client.Del(ctx, s.Keys().Active()).Err(); err != nil {
				t.Fatal(err)
			}
			connects := redis.NewClient(redistest.Patient(&redis.Options{
				Network: client.Options().Network, Addr: client.Options().Addr, OnConnect: ratelimit.OnConnect("", time.Hour),
			}))
			defer connects.Close()
			if err := connects.Ping(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			if closed, _, err := limits.Untold(ctx, string(id)); err != nil || !closed {
				t.Errorf("the budget is closed: %t, %v; want that after another server took over", closed, err)
			}
			// The grace period ends.
			if err := client.HSet(ctx, "{ef}:limits", "blind", time.Now().UnixMicro()).Err(); err != nil {
				t.Fatal(err)
			}
			testrun.EventuallyGot(t, "budget and quota know of the call", func() (string, bool) {
				usage, err := limits.Usage(ctx)
				return fmt.Sprint(usage, err), err == nil && len(usage) == 2 && !usage[0].Closed && usage[0].Spent == ratelimit.Dollar/4 && usage[1].InUse == 1
			})
			testrun.Eventually(t, "the evaluation is active", func() bool {
				active, err := s.IsActive(ctx, id)
				return err == nil && active
			})
			stop()
			if err := <-done; !errors.Is(err, context.Canceled) && err != nil && !errors.As(err, new(*InterruptedError)) {
				t.Errorf("following ended with %v", err)
			}
		})
	}
}
