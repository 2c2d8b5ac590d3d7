package worker_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// One process submits an evaluation, and any number of processes work on it. Here both are one,
// which ends when the last outcome is there.
func Example() {
	client, disconnect := connect()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	names := []string{"ada", "bob", "cyd"}
	texts := map[string]string{"ada": "★★★", "bob": "★★", "cyd": "★"}
	comparison := enqueue.Compare("essays", texts, eval.Judge{Provider: "mine", Model: "judge-1"})
	comparison.Settings.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 2}}
	receipt, err := enqueue.New(client, zerolog.Nop()).Submit(ctx, comparison)
	if err != nil {
		log.Fatal(err)
	}

	verdicts := rank.NewTally(len(names))
	handled := make(chan observe.Handled, receipt.Runs)
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(ctx, worker.Config{
			Client:    client,
			Endpoints: map[string]providers.Endpoint{"mine": {Provider: starCounter{}}},
			Observer:  observe.Observer{Handled: func(h observe.Handled) { handled <- h }},
		})
	}()
	for outstanding := receipt.Runs; outstanding > 0; {
		h := <-handled
		if h.Run == nil { // recorded by another worker, or put back into its queue
			continue
		}
		outstanding--
		comparison := rank.Comparison{
			First: slices.Index(names, h.Run.Candidates[0]), Second: slices.Index(names, h.Run.Candidates[1]), Outcome: rank.SecondWins,
		}
		if h.Run.Winner == h.Run.Documents[0] {
			comparison.Outcome = rank.FirstWins
		}
		if err := verdicts.Add(comparison); err != nil {
			log.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	fit, err := rank.BradleyTerry(len(names), []*rank.Tally{verdicts}, rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range fit.Standings() {
		fmt.Printf("%d. %s, %d wins of %d\n", s.Rank, names[s.Candidate], s.Wins, s.Games())
	}
	// Output:
	// 1. ada, 4 wins of 4
	// 2. bob, 2 wins of 4
	// 3. cyd, 0 wins of 4
}

// starCounter is a provider: it finds that better which has more stars. Package catalog makes those
// that call a model.
type starCounter struct{}

func (starCounter) Call(_ context.Context, request *providers.Request) (*providers.Result, error) {
	prompt := request.Messages[len(request.Messages)-1].Content
	first, second, _ := strings.Cut(prompt, `<document id="B"`)
	winner := "A"
	if strings.Count(second, "★") > strings.Count(first, "★") {
		winner = "B"
	}
	return &providers.Result{
		Text:   `{"winner_doc_id": "` + winner + `", "reason": "It has more stars."}`,
		Finish: providers.FinishStop,
		Usage:  providers.Usage{Reported: true, Input: 200, Output: 20},
	}, nil
}

// connect opens the Redis that all processes share. The example brings its own.
func connect() (client *redis.Client, disconnect func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr(), OnConnect: ratelimit.OnConnect("", ratelimit.DefaultLease)})
	return client, func() { _ = client.Close(); server.Close() }
}
