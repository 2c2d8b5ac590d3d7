package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
)

// BenchmarkDrain has a controller take out of Redis what a worker records, at 1,000
// results a second with answers of 2 to 4 KB, and says how much waits for it. The
// evaluation has two million runs, half of them in the results store already; beside it,
// others of a million are paused, cancelled and deleted by the commands that people
// use, whose times include the start of the process.
func BenchmarkDrain(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { drainAtRate(b, "") })
	b.Run("postgres", func(b *testing.B) { drainAtRate(b, pgtest.New(b)) })
}

const drainRate = 1000 // results a second

// talker answers calls with a verdict that a text of 2 to 4 KB leads to.
type talker struct{ atOnce }

func (p *talker) Call(ctx context.Context, request *providers.Request) (*providers.Result, error) {
	result, err := p.atOnce.Call(ctx, request)
	if err == nil {
		words := make([]byte, 0, 4<<10)
		for n := 2<<10 + rand.N(2<<10); len(words) < n; {
			words = strconv.AppendUint(append(words, "The first says "...), rand.Uint64(), 36)
		}
		result.Text = string(words) + "\n" + result.Text
	}
	return result, err
}

func drainAtRate(b *testing.B, sink string) {
	documents, beside := sized(101, 1001), sized(1, 20)
	program := build(b)
	for b.Loop() {
		f := newFleet(b, program)
		var others []eval.ID
		for i := range beside {
			others = append(others, f.submit(fmt.Sprint("beside ", i), "nobody", documents, sink, 2))
		}
		id := f.submit("drained", "p", sized(101, 1415), sink, 2, ratelimit.Limit{
			Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Requests, Max: drainRate, Period: time.Second, Burst: drainRate / 10,
		})
		f.fill(id)
		controller := f.startController("off")
		provider := &talker{atOnce{latency: 200 * time.Millisecond}}
		stood := f.standing(id).Total(eval.StateSucceeded)
		stop := work(b, worker.Config{
			Client: f.client, Endpoints: map[string]providers.Endpoint{"p": {Provider: provider, Key: "k"}}, Slots: 500,
		})
		begun(b, func() int64 { return int64(f.standing(id).Total(eval.StateSucceeded) - stood) })
		time.Sleep(sized(time.Second, 5*time.Second))
		f.measure(id, controller.Process.Pid, stood, others)
		stop()
	}
}

// measure watches the stream while commands are given. Stood is how many runs were in
// the results store before.
func (f *fleet) measure(id eval.ID, controller, stood int, others []eval.ID) {
	b := f.b
	over := sized(2*time.Second, 60*time.Second)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	watched := make(chan [2]float64)
	go func() {
		var most, oldest float64
		for ctx.Err() == nil {
			if standings, err := store.New(f.client, "").Standings(ctx, []eval.ID{id}); err == nil {
				most = max(most, float64(standings[id].Waiting))
			}
			if first, err := f.client.XRangeN(ctx, store.New(f.client, "").Keys().Results(id), "-", "+", 1).Result(); err == nil && len(first) > 0 {
				millis, _, _ := strings.Cut(first[0].ID, "-")
				if n, err := strconv.ParseInt(millis, 10, 64); err == nil {
					oldest = max(oldest, time.Since(time.UnixMilli(n)).Seconds())
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		watched <- [2]float64{most, oldest}
	}()
	first, used, busy, began := f.standing(id).Total(eval.StateSucceeded), cpu(b, f.client), processCPU(b, controller), time.Now()
	for i, other := range others {
		time.Sleep(time.Duration(i)*over/time.Duration(len(others)) - time.Since(began))
		f.command(start, "version") // what starting a process costs in the same minute
		f.command("status", "status", string(id))
		f.command("status-all", "status")
		f.command("pause", "pause", string(other))
		f.command("resume", "resume", string(other))
		f.command("cancel", "cancel", string(other))
		f.command("delete", "delete", "--force", string(other))
	}
	time.Sleep(over - time.Since(began))
	took := time.Since(began).Seconds()
	now := f.standing(id)
	runs := float64(now.Total(eval.StateSucceeded) - first)
	if drained := now.Total(eval.StateSucceeded) - int(now.Waiting) - stood; drained <= 0 {
		b.Errorf("%d results were drained, of %d", drained, now.Total(eval.StateSucceeded)-stood)
	}
	if calls := f.calls(id); calls <= stood {
		b.Errorf("status knows of %d calls, %d of them from before", calls, stood)
	}
	b.ReportMetric(runs/took, "results/s")
	b.ReportMetric(100*(cpu(b, f.client)-used).Seconds()/took, "redis-%cpu")
	b.ReportMetric(100*(processCPU(b, controller)-busy).Seconds()/took, "controller-%cpu")
	stop()
	seen := <-watched
	b.ReportMetric(seen[0], "undrained-max")
	b.ReportMetric(seen[1], "lag-s-max")
	for name, times := range f.took {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Milliseconds()), name+"-ms-p50")
		b.ReportMetric(float64(times[len(times)-1].Milliseconds()), name+"-ms-max")
	}
}
