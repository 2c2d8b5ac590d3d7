package gate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// BenchmarkRuns compares tasks a second, with a handler that does nothing:
// asynq alone, through a gate, and through a gate over go-redis's AutoPipeline,
// in turn on one Redis. An iteration is a round of all three.
func BenchmarkRuns(b *testing.B) {
	b.Run("redis", func(b *testing.B) { benchmarkRuns(b, redistest.New(b).Client(), 5000) })
	b.Run("miniredis", func(b *testing.B) {
		client := redis.NewClient(redistest.Patient(&redis.Options{Addr: miniredis.RunT(b).Addr()}))
		b.Cleanup(func() { _ = client.Close() })
		benchmarkRuns(b, client, 1000)
	})
}

func benchmarkRuns(b *testing.B, plain *redis.Client, tasks int) {
	const concurrency = 64
	pipelined, err := plain.AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = pipelined.Close() })
	f := newFleet(b, plain)

	pulls := 0 // by both gates; asynq pulls in one goroutine
	alone := func() (redis.UniversalClient, *slots, func()) { return plain, nil, func() {} }
	gated := func(client redis.UniversalClient) (redis.UniversalClient, *slots, func()) {
		permits := newSlots(concurrency)
		g := New(client, Config{Owner: "w1", Permits: permits, Log: zerolog.Nop(), Pulled: func(string, int, int64) { pulls++ }})
		g.Serve(queueName)
		return g.Client(), permits, func() { _ = g.Stop(context.Background()) }
	}
	ways := []struct {
		name string
		open func() (redis.UniversalClient, *slots, func())
	}{
		{"alone", alone},
		{"gate", func() (redis.UniversalClient, *slots, func()) { return gated(plain) }},
		{"gate+autopipeline", func() (redis.UniversalClient, *slots, func()) { return gated(pipelined) }},
	}
	spent := make([]time.Duration, len(ways))
	rounds := 0
	for b.Loop() {
		for i, way := range ways {
			b.StopTimer()
			f.fill(tasks)
			var done atomic.Int64
			all := make(chan struct{})
			client, permits, stop := way.open()
			s := asynq.NewServerFromRedisClient(client, asynq.Config{
				Concurrency: concurrency, Queues: map[string]int{queueName: 1},
				TaskCheckInterval: CheckInterval, Logger: &lines{}, LogLevel: asynq.FatalLevel,
			})
			b.StartTimer()
			before := time.Now()
			if err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				if permits != nil {
					permits.Cancel("", 1)
				}
				if done.Add(1) == int64(tasks) {
					close(all)
				}
				return nil
			})); err != nil {
				b.Fatal(err)
			}
			<-all
			spent[i] += time.Since(before)
			b.StopTimer()
			stop()
			s.Shutdown()
			if n := len(f.active()) + len(f.pending()); n != 0 || done.Load() != int64(tasks) {
				b.Fatalf("%s: %d handled, %d left; want %d and none", way.name, done.Load(), n, tasks)
			}
			b.StartTimer()
		}
		rounds++
	}
	rate := func(i int) float64 { return float64(rounds*tasks) / spent[i].Seconds() }
	for i, way := range ways {
		b.ReportMetric(rate(i), way.name+"/s")
	}
	b.ReportMetric(rate(1)/rate(0), "gate:alone")
	b.ReportMetric(rate(2)/rate(0), "gate+autopipeline:alone")
	b.ReportMetric(float64(2*rounds*tasks)/float64(pulls), "tasks/pull")
	b.Logf("%d rounds of %d tasks, concurrency and permits %d, batch %d", rounds, tasks, concurrency, MaxBatch)
}

// fill pushes n tasks from several goroutines.
func (f *fleet) fill(n int) {
	var group sync.WaitGroup
	for part := range 8 {
		group.Go(func() {
			for i := part; i < n; i += 8 {
				task := asynq.NewTask("run", nil, asynq.Queue(queueName), asynq.Timeout(time.Hour), asynq.TaskID(fmt.Sprint("t", i)))
				if _, err := f.tasks.Enqueue(task); err != nil {
					f.t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
