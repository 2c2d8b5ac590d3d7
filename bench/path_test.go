package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/providers/transport"
	"github.com/evalfleet/evalfleet/worker"
)

// BenchmarkPath compares the whole way of a run, from its queue to its recorded
// result, with what asynq alone does with tasks whose handler does nothing. Runs
// have no limits, and but for http their calls are answered within the process.
//
//   - saturated: calls take no time;
//   - steady: 500 runs a second, by calls of 100 to 300 ms in 100 slots;
//   - embedded: saturated, on the Redis that `evalfleet run` brings;
//   - http: saturated, with calls over HTTP to a provider in another process that answers
//     at once. With -cpuprofile it shows where a worker's time goes.
//
// Results are taken out of Redis by another process, which only counts them;
// for the embedded one the results store of a run takes them, in the same process.
func BenchmarkPath(b *testing.B) {
	b.Run("saturated", func(b *testing.B) {
		comparePath(b, redistest.New(b).Client(), pathSettings{slots: 100, warm: 2 * time.Second, measured: sized(time.Second, 5*time.Second), perSecond: 50_000})
	})
	b.Run("steady", func(b *testing.B) {
		comparePath(b, redistest.New(b).Client(), pathSettings{slots: 100, latency: 200 * time.Millisecond, warm: 2 * time.Second, measured: sized(time.Second, 5*time.Second), perSecond: 600})
	})
	b.Run("http", func(b *testing.B) {
		comparePath(b, redistest.New(b).Client(), pathSettings{slots: 64, url: served(b), warm: 2 * time.Second, measured: sized(time.Second, 5*time.Second), perSecond: 10_000})
	})
	b.Run("embedded", func(b *testing.B) {
		comparePath(b, nil, pathSettings{slots: 100, warm: 2 * time.Second, measured: sized(time.Second, 5*time.Second), perSecond: 6_000})
	})
}

type pathSettings struct {
	slots          int
	url            string        // of the provider; "": calls are answered within the process
	latency        time.Duration // of a call, and of asynq's handler: half as long to half as long again
	warm, measured time.Duration
	perSecond      int // more than either does, so that work is always there
}

// stretch is what happened while a way was measured.
type stretch struct {
	runs            int64
	took, redis, us time.Duration // us: CPU of this process
	sent            int64         // scripts
}

func (s *stretch) add(o stretch) {
	s.runs += o.runs
	s.took += o.took
	s.redis += o.redis
	s.us += o.us
	s.sent += o.sent
}

func (s stretch) rate() float64 { return float64(s.runs) / s.took.Seconds() }

func (s stretch) micros(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(s.runs) }

// comparePath measures both ways in turn. Without a client, each has an embedded
// Redis of its own.
func comparePath(b *testing.B, client *redis.Client, s pathSettings) {
	var bare, path stretch
	for b.Loop() {
		bare.add(bareAsynq(b, client, s))
		path.add(wholePath(b, client, s))
	}
	b.ReportMetric(bare.rate(), "asynq/s")
	b.ReportMetric(path.rate(), "runs/s")
	b.ReportMetric(path.rate()/bare.rate(), "runs:asynq")
	b.ReportMetric(path.micros(path.us), "process-µs/run")
	b.ReportMetric(bare.micros(bare.us), "process-µs/asynq")
	if client != nil {
		machine(b, client)
		b.ReportMetric(path.micros(path.redis), "redis-µs/run")
		b.ReportMetric(bare.micros(bare.redis), "redis-µs/asynq")
		b.ReportMetric(path.micros(path.redis)/bare.micros(bare.redis), "redis:asynq")
		b.ReportMetric(float64(path.sent)/float64(path.runs), "scripts/run")
		rivals(b, client)
	}
	b.Logf("%d slots, calls of %s, %s measured after %s, %d rounds", s.slots, s.latency, s.measured, s.warm, b.N)
}

// measure lets something work and takes the difference that a stretch of it
// makes. count is of what has been done.
func measure(b *testing.B, client *redis.Client, s pathSettings, count func() int64) stretch {
	b.Helper()
	time.Sleep(s.warm)
	sample := func() (m stretch) {
		if client != nil {
			m.redis, m.sent = cpu(b, client), scripts(b, client)
		}
		m.us, m.runs = ownCPU(b), count()
		return m
	}
	first, began := sample(), time.Now()
	time.Sleep(s.measured)
	last := sample()
	return stretch{runs: last.runs - first.runs, took: time.Since(began), redis: last.redis - first.redis, us: last.us - first.us, sent: last.sent - first.sent}
}

// lease is of the benchmarks' workers: in a Redis that was empty no call is admitted
// for so long.
const lease = 2 * time.Second

// begun waits until the first is done.
func begun(b *testing.B, count func() int64) {
	b.Helper()
	testrun.Eventually(b, "the first is done", func() bool { return count() > 0 })
}

func ownCPU(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// onRedis is an empty Redis for one way.
func onRedis(b *testing.B, client *redis.Client) (*redis.Client, func()) {
	b.Helper()
	if client != nil {
		if err := client.FlushAll(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		return client, func() {}
	}
	server, err := embedded.Start(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	own := redis.NewClient(options)
	return own, func() {
		own.Close()
		server.Close()
	}
}

// bareAsynq is asynq with a handler that only waits for the latency.
func bareAsynq(b *testing.B, real *redis.Client, s pathSettings) stretch {
	b.Helper()
	client, end := onRedis(b, real)
	defer end()
	tasks := int(float64(s.perSecond) * (s.warm + s.measured + time.Second).Seconds())
	tool := asynq.NewClientFromRedisClient(client)
	payload := record.Task{
		Evaluation: "ev-abcdefghijkl", Index: 123_456, Kind: eval.KindPairwise, Model: "p:m", Documents: []string{"d0001.md", "d0002.md"},
	}.Encode()
	var group sync.WaitGroup
	for part := range 16 {
		group.Go(func() {
			for i := part; i < tasks; i += 16 {
				task := asynq.NewTask("pairwise", payload, asynq.Queue("p"), asynq.Timeout(time.Hour), asynq.TaskID(strconv.Itoa(i)))
				if _, err := tool.Enqueue(task); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	var handled atomic.Int64
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: s.slots, Queues: map[string]int{"p": 1}, LogLevel: asynq.FatalLevel,
	})
	caller := witness.NewClient(s.url)
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if s.url != "" {
			if _, err := caller.Call(ctx, pathModel, string(task.Payload())); err != nil {
				return err
			}
		}
		if s.latency > 0 {
			time.Sleep(s.latency/2 + rand.N(s.latency))
		}
		handled.Add(1)
		return nil
	})); err != nil {
		b.Fatal(err)
	}
	m := measure(b, real, s, handled.Load)
	server.Shutdown()
	if int(handled.Load()) >= tasks {
		b.Fatalf("all of asynq's %d tasks were handled before the end", tasks)
	}
	return m
}

// atOnce is a provider in this process.
type atOnce struct {
	next    providers.Provider // if set, answers in its place
	latency time.Duration      // half as long to half as long again; 0: none
	calls   atomic.Int64
	most    atomic.Int64 // calls in flight at once
	flying  atomic.Int64
}

func (p *atOnce) Call(ctx context.Context, request *providers.Request) (*providers.Result, error) {
	p.calls.Add(1)
	now := p.flying.Add(1)
	defer p.flying.Add(-1)
	for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
	}
	if p.next != nil {
		return p.next.Call(ctx, request)
	}
	if p.latency > 0 {
		select {
		case <-time.After(p.latency/2 + rand.N(p.latency)):
		case <-ctx.Done():
			return nil, &providers.Error{Class: providers.ClassOf(ctx.Err()), Message: "given up", Err: ctx.Err()}
		}
	}
	return &providers.Result{
		Text:   `{"winner_doc_id": "tie", "reason": "Both say the same in other words."}`,
		Finish: providers.FinishStop, Usage: providers.Usage{Reported: true, Input: 900, Output: 30},
	}, nil
}

// pairs is an evaluation of documents·(documents−1) runs by one judge.
func pairs(b *testing.B, documents int) (*eval.Evaluation, map[string]string) {
	b.Helper()
	e := &eval.Evaluation{
		Name: b.Name(), Items: []eval.Item{{}}, JSON: eval.JSONAuto, Blind: true,
		Judges:   []eval.Judge{{Name: "p:m", Provider: "p", Model: "m"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, Ties: true},
	}
	texts := map[string]string{}
	for i := range documents {
		text := fmt.Sprintf("The answer to question %d is %d.", i, i*i)
		hash := eval.TextHash(text)
		e.Documents = append(e.Documents, eval.Document{ID: fmt.Sprintf("d%04d.md", i), Candidate: fmt.Sprint(i), Hash: hash, Bytes: len(text)})
		texts[hash] = text
	}
	e.Normalize()
	return e, texts
}

// wholePath is a worker with an evaluation that has no limits.
func wholePath(b *testing.B, real *redis.Client, s pathSettings) stretch {
	b.Helper()
	client, end := onRedis(b, real)
	defer end()
	runs := float64(s.perSecond) * (s.warm + s.measured + time.Second).Seconds()
	documents := 150 // above 10,000 runs; asynq keeps one in 100 of them
	for float64(documents*(documents-1)) < runs {
		documents++
	}
	e, texts := pairs(b, documents)
	of := store.New(client, "")
	receipt := submit(b, client, enqueue.Submission{Evaluation: e, Texts: texts})
	if real != nil {
		collector := launch(b, "count", client.Options().Addr, string(receipt.ID))
		defer collector.end()
	} else {
		defer collect(b, client, of, receipt.ID, e, texts)()
	}

	provider := &atOnce{latency: s.latency}
	if s.url != "" {
		entry := catalog.Entry{Name: "p", Dialect: catalog.Chat, BaseURL: s.url + "/v1"}
		var err error
		if provider.next, err = entry.Open(transport.NewClient(transport.Connections{Slots: s.slots}), catalog.Credentials{}); err != nil {
			b.Fatal(err)
		}
	}
	stop := work(b, worker.Config{
		Client: client, Endpoints: map[string]providers.Endpoint{"p": {Provider: provider, Key: "k"}}, Slots: s.slots,
	})
	recorded := func() int64 {
		standings, err := of.Standings(b.Context(), []eval.ID{receipt.ID})
		if err != nil {
			b.Fatal(err)
		}
		return int64(standings[receipt.ID].Total(eval.StateSucceeded))
	}
	begun(b, provider.calls.Load)
	m := measure(b, real, s, recorded)
	stop()
	switch n := recorded(); {
	case n >= int64(receipt.Runs):
		b.Fatalf("all %d runs were made before the end", receipt.Runs)
	case n > provider.calls.Load():
		b.Fatalf("%d runs recorded after %d calls", n, provider.calls.Load())
	}
	return m
}

// collect drains an evaluation's results into a results store until the returned function
// is called, as `evalfleet run` does.
func collect(b *testing.B, client *redis.Client, of *store.Store, id eval.ID, e *eval.Evaluation, texts map[string]string) (end func()) {
	b.Helper()
	sink, err := results.Open(b.Context(), filepath.Join(b.TempDir(), "results.db"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := of.Evaluation(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	stored := results.Evaluation{ID: id, Plan: e, Settings: r.Settings, Phases: r.Phases, Created: r.Created}
	if err := sink.PutEvaluation(b.Context(), stored, func(yield func(string, string) bool) {
		for hash, text := range texts {
			if !yield(hash, text) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- results.NewCollector(client, of.Keys(), id, sink, results.Options{}).Follow(ctx, nil) }()
	return func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Errorf("collect: %v", err)
		}
		sink.Close()
	}
}

const pathModel = "m"

func init() {
	roles["count"] = count
	roles["witness"] = serve
}

// served starts a provider in another process and returns its URL.
func served(b *testing.B) string {
	b.Helper()
	address := testrun.FreeAddress(b)
	launch(b, "witness", address)
	testrun.Eventually(b, "the provider listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	return "http://" + address
}

// serve is the provider that served starts.
func serve(ctx context.Context, words []string) error {
	server := &http.Server{Addr: words[0], Handler: witness.New([]witness.Model{{Name: pathModel}})}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// count takes results out of Redis as a collector does, and only counts them.
func count(ctx context.Context, words []string) error {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: words[0]})
	defer client.Close()
	stream := store.New(client, "").Keys().Results(eval.ID(words[1]))
	for ctx.Err() == nil {
		read, err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, "0"}, Count: 500, Block: 100 * time.Millisecond}).Result()
		if errors.Is(err, redis.Nil) || ctx.Err() != nil {
			continue
		}
		if err != nil {
			return err
		}
		messages := read[0].Messages
		for _, m := range messages {
			if m.Values[record.RunField] == nil {
				return fmt.Errorf("entry %s holds no run", m.ID)
			}
		}
		last := messages[len(messages)-1].ID
		whole := context.WithoutCancel(ctx) // what was read is removed, also at the end
		if err := client.XDel(whole, stream, last).Err(); err != nil {
			return err
		}
		if err := client.XTrimMinID(whole, stream, last).Err(); err != nil {
			return err
		}
		if len(messages) < 500 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}
