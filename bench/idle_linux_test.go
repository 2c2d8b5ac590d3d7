package bench

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// BenchmarkIdle is what worker processes that serve empty queues cost Redis, over TCP, and their
// machine.
func BenchmarkIdle(b *testing.B) {
	workers, queues := sized(3, 100), 20
	f := newFleet(b, build(b))
	provider, address := simulated(b, 0)
	e, texts := pairs(b, 2)
	e.Judges = []eval.Judge{{Name: "absent:m", Provider: "absent", Model: "m"}} // whose runs keep the evaluation going
	var names []string
	for i := range queues {
		names = append(names, fmt.Sprint("p", i))
		e.Judges = append(e.Judges, eval.Judge{Name: names[i] + ":m", Provider: names[i], Model: "m"})
	}
	e.Normalize()
	f.askAt(address, names...)
	submit(b, f.client, enqueue.Submission{Evaluation: e, Texts: texts})
	var processes []int
	for range workers {
		processes = append(processes, f.startWorker().Process.Pid)
	}
	testrun.EventuallyGot(b, fmt.Sprintf("%d workers, and calls for %d runs", workers, 2*queues), func() (string, bool) {
		alive, calls := f.client.ZCard(b.Context(), "{ef}:alive").Val(), provider.Stats().All.Arrived
		return fmt.Sprintf("%d workers, %d calls", alive, calls), alive >= int64(workers) && calls >= int64(2*queues)
	})
	time.Sleep(sized(2*time.Second, 15*time.Second)) // until all is quiet
	busy := func() (sum time.Duration) {
		for _, pid := range processes {
			sum += processCPU(b, pid)
		}
		return sum
	}
	for b.Loop() {
		before, used, own, began := allCommands(b, f.client), cpu(b, f.client), busy(), time.Now()
		time.Sleep(sized(time.Second, 20*time.Second))
		n, took := allCommands(b, f.client)-before, time.Since(began).Seconds()
		b.ReportMetric(n/took, "commands/s")
		b.ReportMetric(n/took/float64(workers), "commands/s/worker")
		b.ReportMetric(n/took/float64(workers*queues), "commands/s/queue")
		core := 100 * (cpu(b, f.client) - used).Seconds() / took
		b.ReportMetric(core, "redis-%cpu")
		b.ReportMetric(100*(busy()-own).Seconds()/took/float64(workers), "%cpu/worker")
		connections, err := strconv.Atoi(info(b, f.client, "clients")["connected_clients"])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(connections), "connections")
		if *full && (core > 15 || connections > 50*workers) {
			b.Errorf("%.1f %% of a CPU of Redis and %d connections, want at most 15 %% and %d", core, connections, 50*workers)
		}
	}
	b.Logf("%d worker processes with %d empty queues each", workers, queues)
}
