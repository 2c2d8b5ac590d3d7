package gate

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// losing is a connection that, once armed, breaks after Redis has run the next
// command that contains word, and before its answer arrives.
type losing struct {
	net.Conn
	word  []byte
	armed *atomic.Int64 // answers still to lose
	lose  atomic.Bool
}

func (c *losing) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.word) && c.armed.Add(-1) >= 0 {
		c.lose.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *losing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.lose.Load() && err == nil {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// loseAnswers is a client that loses answers to commands containing word.
func loseAnswers(server *redistest.Server, word string) (client *redis.Client, armed *atomic.Int64) {
	armed = new(atomic.Int64)
	client = server.Client(func(o *redis.Options) {
		socket := o.Addr
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, err
			}
			return &losing{Conn: conn, word: []byte(word), armed: armed}, nil
		}
	})
	return client, armed
}

// go-redis would send the pull again and never show the first batch.
func TestTasksOfALostAnswerAreFound(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	f := newFleet(t, server.Client())
	f.push(20)
	if err := takeScript.Load(t.Context(), f.redis).Err(); err != nil {
		t.Fatal(err)
	}
	client, armed := loseAnswers(server, takeScript.Hash())
	armed.Store(2)
	var handled ids
	before := time.Now()
	w := f.work("w1", 16, func(ctx context.Context, _ *asynq.Task) error {
		handled.add(ctx)
		return nil
	}, workerOptions{client: client})
	f.eventually("all ended", handled.all(f, 20))
	if armed.Load() > 0 {
		t.Fatal("no answer was lost")
	}
	if n, most := handled.distinct(); n != 20 || most != 1 {
		t.Errorf("%d tasks handled, one of them %d times; want 20, each once", n, most)
	}
	t.Logf("took %v", time.Since(before))
	w.end()
	if !w.slots.allFree() {
		t.Error("permits are missing")
	}
	if got := w.log.except(); len(got) > 0 {
		t.Errorf("asynq logged %q, want nothing", got)
	}
}

func TestStopReturnsTasksOnTheirWay(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]int64{"answer lost": 1, "answer arrives": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t)
			f := newFleet(t, server.Client())
			f.push(3)
			if err := takeScript.Load(t.Context(), f.redis).Err(); err != nil {
				t.Fatal(err)
			}
			client, armed := loseAnswers(server, takeScript.Hash())
			armed.Store(lose)
			permits := newSlots(9)
			g := New(client, Config{Owner: "w1", Permits: permits})
			g.Serve(queueName)
			stopped := make(chan error)
			client.AddHook(wire{func(cmd redis.Cmder) {
				if len(cmd.Args()) < 2 || cmd.Args()[1] != takeScript.Hash() {
					return
				}
				go func() { stopped <- g.Stop(context.Background()) }()
				f.eventually("Stop has begun", func() bool {
					g.mu.RLock()
					defer g.mu.RUnlock()
					return g.stopped
				})
			}})
			if f.pullBy(g) {
				t.Error("answered with a task while stopping")
			}
			if err := <-stopped; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"t1", "t2", "t3"}, f.pending()); diff != "" {
				t.Errorf("pending (-want +got):\n%s", diff)
			}
			if got := f.active(); len(got) != 0 || !permits.allFree() {
				t.Errorf("active = %v, all permits free = %v; want none, true", got, permits.allFree())
			}
		})
	}
}

// A slow Redis comes to a pull only after its worker has given it up.
func TestAPullGivenUpTakesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(2)
		keys, lease := keysOf(queueName), time.Now().Add(leaseFor)
		if err := reclaim(t.Context(), f.redis, keys, "w1", 7); err != nil {
			t.Fatal(err)
		}
		if got, err := pullTasks(t.Context(), f.redis, keys, "w1", 7, 1, lease); !redis.HasErrorPrefix(err, "FENCED") {
			t.Errorf("pull 7 = %+v, %v; want FENCED", got, err)
		}
		for _, other := range []struct {
			owner string
			pull  int64
		}{{"w1", 8}, {"w2", 7}} {
			if got, err := pullTasks(t.Context(), f.redis, keys, other.owner, other.pull, 1, lease); err != nil || len(got.tasks) != 1 {
				t.Errorf("pull %d of %s = %+v, %v; want one task", other.pull, other.owner, got, err)
			}
		}
	})
}

// asynq repeats an ending that failed, and what it repeats must count.
func TestEndingOfALostAnswerCounts(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	f := newFleet(t, server.Client())
	client, armed := loseAnswers(server, "processed:")
	var handled ids
	w := f.work("w1", 1, func(ctx context.Context, _ *asynq.Task) error {
		handled.add(ctx)
		armed.Store(1)
		return nil
	}, workerOptions{client: client})
	f.push(3)
	w.gate.Filled(queueName)
	f.eventually("all ended", handled.all(f, 3))
	w.end()
	if n, most := handled.distinct(); n != 3 || most != 1 {
		t.Errorf("%d tasks handled, one of them %d times; want 3, each once", n, most)
	}
	if got := w.log.except(); len(got) > 0 {
		t.Errorf("asynq logged %q, want nothing", got)
	}
}
