package results

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/text/packing"
)

var keys = record.Keys{Namespace: record.DefaultNamespace}

// publish makes the evaluation's record and appends entries to its stream.
func publish(t testing.TB, client redis.UniversalClient, id eval.ID, entries ...record.Entry) {
	t.Helper()
	ctx := context.Background()
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, keys.Record(id), "v", record.EvaluationVersion, "status", "active")
		for _, entry := range entries {
			p.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(id), Values: entry.Values()})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func wantWaiting(t testing.TB, client redis.UniversalClient, id eval.ID, want int64) {
	t.Helper()
	if got, err := client.XLen(context.Background(), keys.Results(id)).Result(); got != want || err != nil {
		t.Errorf("entries left in Redis: got %d, %v, want %d", got, err, want)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	embedded := miniredis.RunT(t)
	for name, client := range map[string]redis.UniversalClient{
		"redis":    redistest.New(t).Client(),
		"embedded": redis.NewClient(redistest.Patient(&redis.Options{Addr: embedded.Addr()})),
	} {
		t.Run(name, func(t *testing.T) {
			db, e := openStore(t, newPath(t))
			const n = 2*20 + 7
			publish(t, client, e.ID, verdicts(n)...)
			told := 0
			c := NewCollector(client, keys, e.ID, db, Options{Committed: func(entries []record.Entry) {
				for _, entry := range entries {
					if entry.Run.Index != told {
						t.Errorf("told of entry %d, want %d", entry.Run.Index, told)
					}
					told++
				}
			}})
			c.size = 20
			got, err := c.Drain(context.Background())
			if got != n || told != n || err != nil {
				t.Fatalf("got %d entries, %d told, %v, want %d", got, told, err, n)
			}
			wantVerdicts(t, db, e.ID, n)
			wantWaiting(t, client, e.ID, 0)
			if got, err := c.Drain(context.Background()); got != 0 || err != nil {
				t.Errorf("nothing waits: got %d, %v, want 0", got, err)
			}
		})
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDrainRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	collect := func(db Store) error {
		_, err := NewCollector(client, keys, e.ID, db, Options{}).Drain(ctx)
		return err
	}

	client.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(e.ID), Values: verdict(0).Values()})
	if err := collect(db); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("without a record: got %v, want ErrNoEvaluation", err)
	}
	wantWaiting(t, client, e.ID, 1)
	if n := client.Exists(ctx, keys.Record(e.ID)).Val(); n != 0 {
		t.Error("a record was made where there was none")
	}

	publish(t, client, e.ID)
	empty, err := Open(ctx, newPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = empty.Close() }()
	client.HSet(ctx, keys.Record(e.ID), "sink", empty.ID(), "sink_url", "sqlite:/srv/team.db")
	err = collect(db)
	if !errors.Is(err, ErrOtherStore) || !strings.Contains(err.Error(), string(e.ID)) || !strings.Contains(err.Error(), "sqlite:/srv/team.db") {
		t.Errorf("another's evaluation: got %v, want ErrOtherStore naming the evaluation and where it is", err)
	}
	for _, random := range []string{db.ID(), empty.ID()} {
		if strings.Contains(err.Error(), random) {
			t.Errorf("another's evaluation: %v has the random id %s, which tells a person nothing", err, random)
		}
	}
	wantVerdicts(t, db, e.ID, 0)
	if err := collect(empty); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("a results store without the evaluation: got %v, want ErrNoEvaluation", err)
	}
	wantWaiting(t, client, e.ID, 1)

	client.HDel(ctx, keys.Record(e.ID), "sink")
	if err := collect(db); err != nil {
		t.Errorf("unclaimed: %v", err)
	}
	if got := client.HGet(ctx, keys.Record(e.ID), "sink").Val(); got != db.ID() {
		t.Errorf("claimed by %q, want %q", got, db.ID())
	}
}

// A claim that changes hands in the middle must not cost the new holder entries.
func TestDrainLosesItsClaim(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID, verdicts(3)...)
	c := NewCollector(client, keys, e.ID, db, Options{Committed: func([]record.Entry) {
		client.HSet(ctx, keys.Record(e.ID), "sink", "another")
	}})
	if _, err := c.Drain(ctx); !errors.Is(err, ErrOtherStore) {
		t.Errorf("got %v, want ErrOtherStore", err)
	}
	wantWaiting(t, client, e.ID, 3)
}

// After a failover to a master whose clock is behind, entries that no results store has are older
// than those that were read before it: they must not go with those.
func TestDrainKeepsOlderEntriesThatItDidNotRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID, verdicts(3)...)
	failover := func([]record.Entry) {
		client.Del(ctx, keys.Results(e.ID))
		client.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(e.ID), ID: "5-0", Values: verdict(3).Values()})
	}
	if _, err := NewCollector(client, keys, e.ID, db, Options{Committed: failover}).Drain(ctx); err != nil {
		t.Fatal(err)
	}
	wantWaiting(t, client, e.ID, 1)
	if _, err := NewCollector(client, keys, e.ID, db, Options{}).Drain(ctx); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, db, e.ID, 4)
	wantWaiting(t, client, e.ID, 0)
}

func TestDrainMeetsAnEntryItCannotRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID, verdicts(3)...)
	client.XAdd(ctx, &redis.XAddArgs{Stream: keys.Results(e.ID), ID: "99999999999999-7", Values: []string{"v", "2"}})
	got, err := NewCollector(client, keys, e.ID, db, Options{}).Drain(ctx)
	if got != 3 || err == nil || !strings.Contains(err.Error(), "99999999999999-7") || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %d, %v, want 3 and an error naming the entry and its version", got, err)
	}
	wantVerdicts(t, db, e.ID, 3)
	wantWaiting(t, client, e.ID, 1)
}

// breaker fails the n-th command, either unsent or with its reply lost.
type breaker struct {
	left  atomic.Int32
	after bool
}

var errBroken = errors.New("connection broken by the test")

func (b *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if b.left.Add(-1) != 0 {
			return next(ctx, cmd)
		}
		if b.after {
			_ = next(ctx, cmd)
		}
		cmd.SetErr(errBroken)
		return errBroken
	}
}

func TestDrainIsBrokenOffAtEachCommand(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.New(t)
	whole := server.Client()
	const n = 25
	drain := func(client redis.UniversalClient, id eval.ID, db Store) error {
		c := NewCollector(client, keys, id, db, Options{})
		c.size = 10
		_, err := c.Drain(ctx)
		return err
	}
	for _, after := range []bool{false, true} {
		for command := 1; ; command++ {
			whole.FlushAll(ctx)
			path := newPath(t)
			db, e := openStore(t, path)
			publish(t, whole, e.ID, verdicts(n)...)
			broken := server.Client()
			b := &breaker{after: after}
			b.left.Store(int32(command))
			broken.AddHook(b)
			err := drain(broken, e.ID, db)
			if err == nil {
				if command < 8 { // claim, then read and delete three times
					t.Errorf("only %d commands were broken", command-1)
				}
				break
			}
			if !errors.Is(err, errBroken) {
				t.Fatalf("command %d: %v", command, err)
			}
			if err := drain(whole, e.ID, db); err != nil {
				t.Fatalf("command %d, drained again: %v", command, err)
			}
			wantVerdicts(t, db, e.ID, n)
			wantWaiting(t, whole, e.ID, 0)
		}
	}
}

func init() {
	// Commits what waits, says so, and stays there until it is killed.
	children["commit"] = func() error {
		ctx := context.Background()
		options, err := redis.ParseURL(os.Getenv("TEST_REDIS"))
		if err != nil {
			return err
		}
		db, err := Open(ctx, os.Getenv("TEST_SINK"))
		if err != nil {
			return err
		}
		e, _ := essays()
		c := NewCollector(redis.NewClient(options), keys, e.ID, db, Options{Committed: func([]record.Entry) {
			fmt.Println("committed")
			select {}
		}})
		_, err = c.Drain(ctx)
		return err
	}
}

func TestCollectorIsKilledBetweenCommitAndDeletion(t *testing.T) {
	t.Parallel()
	for kind, newURL := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testKilledCollector(t, newURL(t))
		})
	}
}

func testKilledCollector(t *testing.T, url string) {
	server := redistest.NewTCP(t)
	client := server.Client()
	db, e := openStore(t, url)
	const n = 40
	publish(t, client, e.ID, verdicts(n)...)

	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=commit", "TEST_REDIS="+server.URL(), "TEST_SINK="+url)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(output).ReadString('\n')
	if said != "committed\n" {
		t.Errorf("the child said %q, %v", said, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	wantVerdicts(t, db, e.ID, n)
	wantWaiting(t, client, e.ID, n)
	if got, err := NewCollector(client, keys, e.ID, db, Options{}).Drain(context.Background()); got != n || err != nil {
		t.Errorf("drained again: got %d, %v, want %d", got, err, n)
	}
	wantVerdicts(t, db, e.ID, n)
	wantWaiting(t, client, e.ID, 0)
}

func TestTwoCollectorsOfOneStore(t *testing.T) {
	t.Parallel()
	for kind, newURL := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testTwoCollectors(t, newURL(t))
		})
	}
}

func testTwoCollectors(t *testing.T, url string) {
	server := redistest.New(t)
	client := server.Client()
	const n = 600
	var published atomic.Bool
	db, e := openStore(t, url)
	publish(t, client, e.ID)
	ended := make(chan error)
	for range 2 {
		own, _ := openStore(t, url)
		go func() {
			ended <- NewCollector(server.Client(), keys, e.ID, own, Options{}).Follow(context.Background(), isSet(&published))
		}()
	}
	for i := range n {
		publish(t, client, e.ID, verdict(i))
	}
	published.Store(true)
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("follow: %v", err)
		}
	}
	wantVerdicts(t, db, e.ID, n)
	wantWaiting(t, client, e.ID, 0)
}

func TestDrainMeetsAFullDisk(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	const batch, n = 100, 2*100 + 20
	publish(t, client, e.ID, verdicts(n)...)
	limit := func(pages int) {
		if _, err := db.(*store).write.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	var pages int
	if err := db.(*store).write.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit(pages + 25) // enough for one batch, too little for two
	c := NewCollector(client, keys, e.ID, db, Options{})
	c.size = batch
	got, err := c.Drain(ctx)
	if got != batch || !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "results.db") {
		t.Fatalf("got %d, %v, want %d and ErrFull naming the file", got, err, batch)
	}
	wantVerdicts(t, db, e.ID, batch)
	wantWaiting(t, client, e.ID, n-batch)
	limit(1 << 20)
	if _, err := c.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, db, e.ID, n)
	wantWaiting(t, client, e.ID, 0)
}

// BenchmarkDrain drains 10,000 entries a round, each a run and a call.
func BenchmarkDrain(b *testing.B) {
	ctx := context.Background()
	client := redistest.New(b).Client()
	const n = 10_000
	entries := verdicts(n)
	for b.Loop() {
		b.StopTimer()
		db, e := openStore(b, newPath(b)) // a new one: replaying stored runs is another thing
		publish(b, client, e.ID, entries...)
		size := client.MemoryUsage(ctx, keys.Results(e.ID)).Val()
		b.StartTimer()
		got, err := NewCollector(client, keys, e.ID, db, Options{}).Drain(ctx)
		b.StopTimer()
		if got != n || err != nil {
			b.Fatalf("got %d, %v, want %d", got, err, n)
		}
		wantVerdicts(b, db, e.ID, n)
		client.FlushAll(ctx)
		b.ReportMetric(float64(size)/n, "stream-B/entry")
		b.StartTimer()
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/n*batchEntries, "ms/batch")
}

// A batch is bounded in bytes: large entries are committed a few at a time.
func TestBatchesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	embedded := miniredis.RunT(t)
	for name, client := range map[string]redis.UniversalClient{
		"redis":    redistest.New(t).Client(),
		"embedded": redis.NewClient(redistest.Patient(&redis.Options{Addr: embedded.Addr()})),
	} {
		db, e := openStore(t, newPath(t))
		const short, size = 10, 1 << 20
		n := short + 2*batchBytes/size + 1
		entries := verdicts(n)
		for i := range entries[short:] {
			entries[short+i].Run.Answer = strings.Repeat("x", size)
		}
		publish(t, client, e.ID, entries...)
		var batches []int
		c := NewCollector(client, keys, e.ID, db, Options{Committed: func(entries []record.Entry) { batches = append(batches, len(entries)) }})
		if got, err := c.Drain(context.Background()); got != n || err != nil {
			t.Fatalf("%s: got %d entries, %v, want %d", name, got, err, n)
		}
		for _, entries := range batches {
			if entries > short+1+batchBytes/size {
				t.Errorf("%s: a batch has %d entries of 1 MiB", name, entries)
			}
		}
		wantWaiting(t, client, e.ID, 0)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A text that unpacks to more than any document or file of votes may have is refused.
func TestTextsThatUnpackToGigabytesAreRefused(t *testing.T) {
	testrun.Slow(t) // it unpacks as much as is allowed
	t.Parallel()
	path := newPath(t)
	sink, _ := openStore(t, path)
	// One frame of unknown size (RFC 8878, 3.1.1): its header, with a window of 1 MiB, and blocks
	// that each repeat a byte 128 KiB times.
	const block = 128 << 10
	bomb := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 80}
	for left := packing.MaxText/block + 1; left > 0; left-- {
		header := block<<3 | 1<<1 // 1: a repeated byte
		if left == 1 {
			header |= 1 // the last
		}
		bomb = append(bomb, byte(header), byte(header>>8), byte(header>>16), 'x')
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO documents (hash, text) VALUES ('bomb', ?)", bomb); err != nil {
		t.Fatal(err)
	}
	if text, err := sink.Text(t.Context(), "bomb"); !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		t.Errorf("%d bytes unpacked to %d, %v; want a refusal", len(bomb), len(text), err)
	}
}
