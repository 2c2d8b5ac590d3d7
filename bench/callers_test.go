package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// callers are processes whose callers ask a limiter and then a simulated
// provider, one call after another.
type callers struct {
	b         *testing.B
	redis     *redis.Client
	simulator *simulator.Simulator
}

// network is a path on which each request takes a random time up to delay.
type network struct{ delay time.Duration }

// model is one that the simulated provider knows.
const model = "careful"

// startCallers starts processes with so many callers each, under limits on a
// provider that keeps its own.
func startCallers(b *testing.B, processes, each int, provider simulator.Config, limits ...ratelimit.Limit) *callers {
	b.Helper()
	return network{}.startCallers(b, processes, each, provider, limits...)
}

func (n network) startCallers(b *testing.B, processes, each int, provider simulator.Config, limits ...ratelimit.Limit) *callers {
	b.Helper()
	if err := provider.Validate(); err != nil {
		b.Fatal(err)
	}
	c := &callers{b: b, redis: redistest.New(b).Client(), simulator: simulator.New(provider)}
	machine(b, c.redis)
	if err := ratelimit.NewAdmin(c.redis, ratelimit.Config{}).Register(b.Context(), "bench", limits); err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(c.simulator)
	b.Cleanup(server.Close)
	var started []*process
	for i := range processes {
		started = append(started, launch(b, "call", c.redis.Options().Addr, server.URL, fmt.Sprint("w", i), strconv.Itoa(each), n.delay.String()))
	}
	// Ended before the server is closed, which waits for its calls.
	b.Cleanup(func() {
		var ending sync.WaitGroup
		for _, p := range started {
			ending.Go(p.end)
		}
		ending.Wait()
	})
	return c
}

// during is what the provider counted and Redis was sent in a stretch.
type during struct {
	arrived, rejected int64
	inFlight          float64 // on average
	scripts           int64
	took              time.Duration
	last              simulator.Stats
}

// measure lets the callers work until the provider counts what settled wants, and
// then takes the difference that a stretch makes.
func (c *callers) measure(d time.Duration, settled func(simulator.Counts) bool) during {
	c.b.Helper()
	testrun.EventuallyGot(c.b, "calls are settled", func() (string, bool) {
		counts := c.simulator.Stats().All
		return fmt.Sprintf("%+v", counts), settled(counts)
	})
	first, sent := c.simulator.Stats(), scripts(c.b, c.redis)
	time.Sleep(d)
	last := c.simulator.Stats()
	took := last.At.Sub(first.At)
	return during{
		arrived: last.All.Arrived - first.All.Arrived, rejected: last.All.Rejected,
		inFlight: (last.All.InFlightSeconds - first.All.InFlightSeconds) / took.Seconds(),
		scripts:  scripts(c.b, c.redis) - sent, took: took, last: last,
	}
}

func init() { roles["call"] = call }

// call asks a limiter and then a provider, again and again, until ctx ends.
func call(ctx context.Context, words []string) error {
	socket, provider, name := words[0], words[1], words[2]
	n, err := strconv.Atoi(words[3])
	delay, wrong := time.ParseDuration(words[4])
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Config{Worker: name, Lease: lease})
	limiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- limiter.Run(limiting) }()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: time.Minute}
	defer web.CloseIdleConnections()
	problems := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			for k := 0; ctx.Err() == nil && problems[i] == nil; k++ {
				problems[i] = oneCall(ctx, limiter, web, delay, provider, fmt.Sprintf("%s.%d.%d", name, i, k))
			}
		})
	}
	group.Wait()
	stop()
	return errors.Join(append(problems, <-ended)...)
}

func oneCall(ctx context.Context, limiter *ratelimit.Limiter, web *http.Client, delay time.Duration, provider, id string) error {
	lease, err := limiter.Acquire(ctx, ratelimit.Request{
		ID: id, Call: ratelimit.Scope{Provider: "p", Model: model, Evaluation: "ev-a"}, LatestEnd: time.Minute,
	})
	if ctx.Err() != nil {
		return nil // told to end
	}
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if lease.Check() == nil {
		time.Sleep(time.Duration(rand.Int64N(int64(delay) + 1)))
		body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": %q}]}`, model, id)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, provider+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return err
		}
		response, err := web.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
	}
	return lease.Release(ctx)
}
