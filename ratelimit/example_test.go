package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// Every process that makes calls runs one Limiter. Together they keep the limits that any
// of them has registered.
func Example() {
	server, err := miniredis.Run() // in production: the Redis that all processes share
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	ctx, stop := context.WithCancel(context.Background())
	limiter := ratelimit.New(client, ratelimit.Config{Worker: "worker-1"})
	ended := make(chan error, 1)
	go func() { ended <- limiter.Run(ctx) }()

	// A new Redis knows of no calls. Without this the limiter first waits until any that
	// Redis may have forgotten must have ended.
	if err := limiter.Begin(ctx, time.Hour); err != nil {
		log.Fatal(err)
	}
	account := ratelimit.Scope{Provider: "openai"}
	err = limiter.Register(ctx, "my-service", []ratelimit.Limit{
		{Scope: account, Kind: ratelimit.Concurrency, Max: 2},
		{Scope: account, Kind: ratelimit.Requests, Max: 500, Period: time.Minute},
	})
	if err != nil {
		log.Fatal(err)
	}

	// Acquire blocks until every limit of the call has room.
	call := ratelimit.Scope{Provider: "openai", Model: "gpt-5-mini"}
	lease, err := limiter.Acquire(ctx, ratelimit.Request{ID: "call-1", Call: call})
	if err != nil {
		log.Fatal(err)
	}
	if err := lease.Check(); err != nil { // immediately before sending
		log.Fatal(err)
	}
	fmt.Println("calls in flight:", lease.InFlight())
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}

	// MaxWait turns a long wait into an answer at once.
	if err := limiter.HoldBack(ctx, account, time.Minute); err != nil { // the provider said 429
		log.Fatal(err)
	}
	_, err = limiter.Acquire(ctx, ratelimit.Request{ID: "call-2", Call: call, MaxWait: time.Second})
	var refusal *ratelimit.Refusal
	fmt.Println("refused:", errors.As(err, &refusal))

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// calls in flight: 1
	// refused: true
}
