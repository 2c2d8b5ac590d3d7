package enqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
)

// connect is the Redis of the fleet. The examples bring their own.
func connect() (client *redis.Client, disconnect func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() { _ = client.Close(); server.Close() }
}

// The ID of an evaluation follows from its content, so submitting the same question again resumes it.
func ExampleEnqueuer_Submit() {
	client, disconnect := connect()
	defer disconnect()
	ctx := context.Background()
	queue := enqueue.New(client, zerolog.Nop())

	texts := map[string]string{"ada": "An essay.", "bob": "Another essay."}
	judge := eval.Judge{Provider: "openai", Model: "gpt-5-mini"}
	for range 2 {
		receipt, err := queue.Submit(ctx, enqueue.Compare("essays", texts, judge))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(receipt.Runs, "runs, new:", receipt.Created)
	}
	// Output:
	// 2 runs, new: true
	// 2 runs, new: false
}

// A pause lets calls in flight end, and begins no others, on any machine. What was cancelled cannot be resumed.
func ExampleEnqueuer_Pause() {
	client, disconnect := connect()
	defer disconnect()
	ctx := context.Background()
	queue := enqueue.New(client, zerolog.Nop())
	texts := map[string]string{"ada": "An essay.", "bob": "Another essay."}
	essays := enqueue.Compare("essays", texts, eval.Judge{Provider: "openai", Model: "gpt-5-mini"})
	receipt, err := queue.Submit(ctx, essays)
	if err != nil {
		log.Fatal(err)
	}

	paused, err := queue.Pause(ctx, receipt.ID)
	fmt.Println(paused, err)
	resumed, err := queue.Resume(ctx, receipt.ID)
	fmt.Println(resumed, err)
	cancelled, err := queue.Cancel(ctx, receipt.ID)
	fmt.Println(cancelled, err)
	_, err = queue.Submit(ctx, essays)
	fmt.Println(errors.Is(err, store.ErrCancelled))
	// Output:
	// paused <nil>
	// active <nil>
	// cancelled <nil>
	// true
}
