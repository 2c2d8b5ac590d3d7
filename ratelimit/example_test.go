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

// connect is the Redis that all processes share. The examples bring their own.
func connect() (client *redis.Client, disconnect func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() { _ = client.Close(); server.Close() }
}

// The usual case: all processes of a service together start no more than so many calls.
func Example() {
	client, disconnect := connect()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())

	limiter, err := ratelimit.Start(ctx, client, ratelimit.Service{
		Name:   "my-service",
		Limits: []ratelimit.Limit{{Kind: ratelimit.Requests, Max: 500, Period: time.Minute, Burst: 10}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		if err := limiter.Wait(ctx, ratelimit.Scope{}); err != nil {
			log.Fatal(err)
		}
		fmt.Println("call", i+1)
	}

	stop()
	<-limiter.Ended()
	// Output:
	// call 1
	// call 2
	// call 3
}

// A limit of calls in flight needs to know when a call ends: Acquire returns a lease. It holds
// until its release, or expires when the process dies.
func ExampleLimiter_Acquire() {
	client, disconnect := connect()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())

	limiter, err := ratelimit.Start(ctx, client, ratelimit.Service{
		Name:   "my-service",
		Limits: []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 2}},
	})
	if err != nil {
		log.Fatal(err)
	}
	lease, err := limiter.Acquire(ctx, ratelimit.Request{})
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

	stop()
	<-limiter.Ended()
	// Output:
	// calls in flight: 1
}

// Limits have scopes: a call keeps every limit that matches it. After a provider has answered
// 429, a cooldown stops all processes, and MaxWait turns a long wait into an answer at once.
func ExampleLimiter_Cool() {
	client, disconnect := connect()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())

	account := ratelimit.Scope{Provider: "openai"}
	limiter, err := ratelimit.Start(ctx, client, ratelimit.Service{
		Name: "my-service",
		Limits: []ratelimit.Limit{
			{Scope: account, Kind: ratelimit.Concurrency, Max: 40},
			{Scope: account, Kind: ratelimit.Requests, Max: 500, Period: time.Minute},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := limiter.Cool(ctx, account, time.Minute); err != nil {
		log.Fatal(err)
	}
	call := ratelimit.Scope{Provider: "openai", Model: "gpt-5-mini"}
	_, err = limiter.Acquire(ctx, ratelimit.Request{Call: call, MaxWait: time.Second})
	var refusal *ratelimit.Refusal
	fmt.Println("refused:", errors.As(err, &refusal))
	fmt.Println("by:", ratelimit.WaitedFor(refusal.Limit))

	stop()
	<-limiter.Ended()
	// Output:
	// refused: true
	// by: provider openai: cooldown
}

// An Admin shows what limits are used, and changes them while Limiters run.
func ExampleAdmin() {
	client, disconnect := connect()
	defer disconnect()
	ctx := context.Background()

	admin := ratelimit.NewAdmin(client, ratelimit.Config{})
	account := ratelimit.Scope{Provider: "openai"}
	for _, most := range []int64{40, 16} { // the second replaces the first
		err := admin.Register(ctx, "my-service", []ratelimit.Limit{{Scope: account, Kind: ratelimit.Concurrency, Max: most}})
		if err != nil {
			log.Fatal(err)
		}
	}
	usage, err := admin.Usage(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, u := range usage {
		fmt.Println(u.Limit, "- used:", u.InUse)
	}
	// Output:
	// provider openai: 16 in flight - used: 0
}
