package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func isSet(flag *atomic.Bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return flag.Load(), nil }
}

// What was recorded by the time the evaluation is done is collected, too.
func TestFollowReadsOnceMoreWhenDone(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID, verdict(0))
	last := func(context.Context) (bool, error) {
		publish(t, client, e.ID, verdict(1))
		return true, nil
	}
	if err := NewCollector(client, keys, e.ID, db, Options{}).Follow(context.Background(), last); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, db, e.ID, 2)
	wantWaiting(t, client, e.ID, 0)
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID, verdict(0))

	ctx, cancel := context.WithCancel(context.Background())
	c := NewCollector(client, keys, e.ID, db, Options{Committed: func([]record.Entry) { cancel() }})
	if err := c.Follow(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context: got %v, want context.Canceled", err)
	}
	wantVerdicts(t, db, e.ID, 1)

	failed := errors.New("no counts")
	c = NewCollector(client, keys, e.ID, db, Options{})
	if err := c.Follow(context.Background(), func(context.Context) (bool, error) { return false, failed }); !errors.Is(err, failed) {
		t.Errorf("with done's error: got %v, want it", err)
	}

	c = NewCollector(client, keys, e.ID, db, Options{})
	if _, err := c.Drain(context.Background()); err != nil { // with nothing to delete, only looking helps
		t.Fatal(err)
	}
	deleted := func(ctx context.Context) (bool, error) {
		return false, client.Del(ctx, keys.Record(e.ID)).Err()
	}
	if err := c.Follow(context.Background(), deleted); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("with its record: got %v, want ErrNoEvaluation", err)
	}
}

// However many evaluations are followed, none of them keeps a connection from others
// while it waits for results.
func TestFollowHoldsNoConnection(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID)
	looks := 0
	looked := func(context.Context) (bool, error) { looks++; return looks > 5, nil }
	watched, stop := context.WithCancel(t.Context())
	most := make(chan string)
	go func() { // over a connection of its own
		watching, blocked := redis.NewClient(client.Options()), "0"
		defer watching.Close()
		for watched.Err() == nil {
			info, err := watching.InfoMap(watched, "clients").Result()
			if n := info["Clients"]["blocked_clients"]; err == nil && n != "0" {
				blocked = n
			}
		}
		most <- blocked
	}()
	if err := NewCollector(client, keys, e.ID, db, Options{}).Follow(t.Context(), looked); err != nil {
		t.Fatal(err)
	}
	stop()
	if n := <-most; n != "0" {
		t.Errorf("%s clients waited at the server", n)
	}
}

// logged is a log whose lines can be awaited.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func (l logged) want(t *testing.T, text string) {
	t.Helper()
	select {
	case line := <-l:
		if !strings.Contains(line, text) {
			t.Fatalf("logged %s, want %q", line, text)
		}
	case <-testrun.Context(t).Done():
		t.Fatalf("not logged: %q", text)
	}
}

func TestFollowWaitsForRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	client := server.Client()
	db, e := openStore(t, newPath(t))
	publish(t, client, e.ID, verdicts(3)...)
	var published atomic.Bool
	committed := make(chan int, 100)
	log := make(logged, 10)
	waits := make(chan error, 10)
	c := NewCollector(server.Client(), keys, e.ID, db, Options{
		Committed: func(entries []record.Entry) { committed <- len(entries) },
		Waiting:   func(why error) { waits <- why },
		Log:       zerolog.New(log),
	})
	ended := make(chan error)
	go func() {
		ended <- c.Follow(context.Background(), isSet(&published))
	}()
	<-committed
	server.Kill()
	log.want(t, "results wait to be collected")
	server.Start()
	log.want(t, "results are collected again")
	publish(t, client, e.ID, verdict(3), verdict(4))
	published.Store(true)
	if err := <-ended; err != nil {
		t.Errorf("follow: %v", err)
	}
	if len(log) != 0 {
		t.Errorf("logged besides: %s", <-log)
	}
	if begun, over := <-waits, <-waits; begun == nil || over != nil || len(waits) != 0 {
		t.Errorf("told of waiting for %v, then %v; want Redis away, and its end", begun, over)
	}
	wantVerdicts(t, db, e.ID, 5)
	wantWaiting(t, client, e.ID, 0)
}

func TestFollowWaitsForALockedStore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	path := newPath(t)
	db, e := openStore(t, path)
	if _, err := db.(*store).write.ExecContext(ctx, "PRAGMA busy_timeout = 20"); err != nil {
		t.Fatal(err)
	}
	other, _ := openStore(t, path)
	tx, err := other.(*store).write.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, client, e.ID, verdict(0))
	log := make(logged, 10)
	c := NewCollector(client, keys, e.ID, db, Options{Log: zerolog.New(log)})
	ended := make(chan error)
	go func() {
		ended <- c.Follow(ctx, func(context.Context) (bool, error) { return true, nil })
	}()
	log.want(t, "locked by another program")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	log.want(t, "results are collected again")
	if err := <-ended; err != nil {
		t.Errorf("follow: %v", err)
	}
	wantVerdicts(t, db, e.ID, 1)
}

// A full results store ends Follow, or is waited for: then it is said once, and what comes
// meanwhile is collected when there is room.
func TestFollowMeetsAFullDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := redistest.New(t).Client()
	db, e := openStore(t, newPath(t))
	limit := func(pages int) {
		if _, err := db.(*store).write.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Error(err)
		}
	}
	const n = 300
	publish(t, client, e.ID, verdicts(n)...)
	limit(1) // as many as there are
	if err := NewCollector(client, keys, e.ID, db, Options{}).Follow(ctx, nil); !errors.Is(err, ErrFull) {
		t.Fatalf("follow: %v, want ErrFull", err)
	}
	var published atomic.Bool
	log, waits := make(logged, 10), make(chan error, 10)
	failures := 0
	c := NewCollector(client, keys, e.ID, &failing{Store: db, failed: func() {
		if failures++; failures == 3 {
			limit(1 << 20)
		}
	}}, Options{WaitForRoom: true, Waiting: func(why error) { waits <- why }, Log: zerolog.New(log)})
	ended := make(chan error)
	go func() {
		err := c.Follow(ctx, isSet(&published))
		if !published.Load() {
			log <- fmt.Sprintf("follow ended: %v", err)
		}
		ended <- err
	}()
	log.want(t, "no space left")
	publish(t, client, e.ID, verdict(n), verdict(n+1))
	log.want(t, "results are collected again")
	published.Store(true)
	if err := <-ended; err != nil {
		t.Errorf("follow: %v", err)
	}
	if len(log) != 0 {
		t.Errorf("logged besides: %s", <-log)
	}
	if begun, over := <-waits, <-waits; !errors.Is(begun, ErrFull) || over != nil || len(waits) != 0 {
		t.Errorf("told of waiting for %v, then %v; want ErrFull, and its end", begun, over)
	}
	wantVerdicts(t, db, e.ID, n+2)
	wantWaiting(t, client, e.ID, 0)
}

// failing is a results store that tells when it could not append.
type failing struct {
	Store
	failed func()
}

func (f *failing) Append(ctx context.Context, id eval.ID, entries []record.Entry) error {
	err := f.Store.Append(ctx, id, entries)
	if err != nil {
		f.failed()
	}
	return err
}

func TestPasses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	client.Set(ctx, "text", "x", 0)
	wrongType := client.XLen(ctx, "text").Err()
	loading := client.Eval(ctx, "return redis.error_reply('LOADING Redis is loading the dataset in memory')", nil).Err()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("store: %w", ErrBusy), true},
		{redisError{"read", io.ErrUnexpectedEOF}, true},
		{redisError{"read", errors.New("redis: all sentinels are unreachable")}, true},
		{redisError{"read", loading}, true},
		{redisError{"read", wrongType}, false},
		{redisError{"read", redis.ErrClosed}, false},
		{fmt.Errorf("ask: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), true},
		{fmt.Errorf("ask: %w", loading), true},
		{errors.New("ask: no counts"), false},
		{fmt.Errorf("store: %w", ErrFull), false},
		{ErrNoEvaluation, false},
	} {
		if got := passes(test.err); got != test.want {
			t.Errorf("%v: got %v, want %v", test.err, got, test.want)
		}
	}
}
