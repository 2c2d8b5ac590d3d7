//go:build unix

package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

const (
	chaosInBatch  = 20     // runs at most
	chaosEnqueued = 80_000 // tokens that each provider allows in batches

	// chaosBatchStuck is as long as a limit counts a batch that was cancelled, and some minutes.
	chaosBatchStuck = 18 * time.Minute

	// chaosBatch is added to the files of evaluations. Its deadline is longer than Redis's clock jumps.
	chaosBatch = "batch: {use: prefer, runs: 20, deadline: 8760h}\n"

	chaosBatchedSimulator = `{"max_in_flight": 8, "latency": "100ms..700ms", "answer_tokens": "100", "keys": [%q],
  "batch_time": "1s..4s", "batch_expire_rate": 0.05, "models": {
    "careful": {"enqueued_tokens": %[2]d}, "average": {"enqueued_tokens": %[2]d},
    "careless": {"enqueued_tokens": %[2]d}, "dear": {"enqueued_tokens": %[2]d}}}`
	// Calls count for all models together at this provider, and batches for each. So each dialect has a model and a part
	// of the calls.
	chaosBatchedFleet = `providers:
  simulator: {base_url: "http://%[1]s/v1", api_key_env: %[2]s, batch: true}
  responses: {base_url: "http://%[1]s/v1", dialect: responses, api_key_env: %[2]s, batch: true}
  messages: {base_url: "http://%[1]s", dialect: messages, api_key_env: %[2]s, batch: true}
  generate: {base_url: "http://%[1]s", dialect: generate, api_key_env: %[2]s, batch: true}
  metered: {base_url: "%[3]s/v1"}
prices: {"generate:dear": {input: 1, output: 4, tiers: {batch: 0.5}}}
concurrency:
  lease: %[4]s
  abandoned_calls: hold
  timeout_seconds: 10
  per_provider:
    simulator: {max_concurrency: 2, enqueued_tokens: %[7]d}
    responses: {max_concurrency: 2, enqueued_tokens: %[7]d}
    messages: {max_concurrency: 2, enqueued_tokens: %[7]d}
    generate: {max_concurrency: 2, enqueued_tokens: %[7]d}
    metered: {max_concurrency: 2, requests_per_day: %[5]d, day_resets: %[6]q}
`
)

// chaosProviders by folder, of evaluations that are asked in batches; the models are those of chaosJudges.
var chaosProviders = map[string]string{"a": "simulator", "b": "messages", "c": "responses", "d": "generate", "m": "metered"}

// chaosOf returns what a schedule strikes. In every second one it is batches.
func chaosOf(seed uint64) chaosSize {
	size := chaosWhole
	size.batched = seed%2 == 0
	return size
}

// batchFaults strike what workers and providers say to each other about batches.
var batchFaults = []chaosFault{
	{"a submission arrives after a reset", func(c *chaos, target uint64) (string, func()) {
		if c.providerStruck {
			return "", nil
		}
		kinds := []string{"POST /v1/batches ", "POST /v1/messages/batches ", ":batchGenerateContent"}
		which := kinds[target%uint64(len(kinds))]
		c.providerStruck = true
		c.provider.delay(which)
		return strings.Trim(which, ": "), func() {
			c.provider.deliver()
			c.providerStruck = false
		}
	}},
	{"a worker is killed that waits for the provider", func(c *chaos, target uint64) (string, func()) {
		if c.providerStruck {
			return "", nil
		}
		return onMember(isWorker, func(c *chaos, m *member) func() {
			c.providerStruck = true
			c.provider.cut()
			time.Sleep(10 * chaosLook) // it may submit a batch now
			c.kill(m)
			return func() {
				c.provider.mend()
				c.providerStruck = false
				c.restart(m)
			}
		})(c, target)
	}},
}

// judgeOf returns whom an evaluation asks.
func (c *chaos) judgeOf(folder string) string {
	if !c.size.batched {
		return chaosJudges[folder]
	}
	_, model, _ := strings.Cut(chaosJudges[folder], ":")
	return chaosProviders[folder] + ":" + model
}

// simulatorSettings returns the settings of the provider without a quota.
func (c *chaos) simulatorSettings() string {
	if c.size.batched {
		return fmt.Sprintf(chaosBatchedSimulator, chaosKey, chaosEnqueued)
	}
	return fmt.Sprintf(chaosSimulator, chaosKey)
}

// fleetFile returns a file of the fleet in which the provider without a quota has an address.
func (c *chaos) fleetFile(address string) string {
	if c.size.batched {
		return fmt.Sprintf(chaosBatchedFleet, address, chaosKeyVariable, c.meter, c.size.lease, c.size.quota, c.zone, chaosEnqueued)
	}
	return fmt.Sprintf(chaosFleet, address, chaosKeyVariable, c.meter, c.size.lease, c.size.quota, c.zone)
}

// budgetOf returns what so many calls of evaluation d cost, in nano-USD; in batches, about that.
func (c *chaos) budgetOf(calls int) int64 {
	if c.size.batched {
		return int64(calls) * ratelimit.Dollar / 2500
	}
	return int64(calls) * callCosts
}

// chargedBy returns what a provider has charged for evaluation d, in nano-USD.
func (c *chaos) chargedBy(counts arrivals) int64 {
	if c.size.batched {
		return int64(math.Round(counts.ChargedUSD * ratelimit.Dollar)) // its prices are those of the fleet's file
	}
	return counts.OutputTokens * 10 * 1000
}

// inFlight returns how many prompts of an evaluation may arrive after a pause: those in flight, and those in batches that
// are being submitted.
func (c *chaos) inFlight() int {
	if c.size.batched {
		return chaosLimit + len(c.members)*chaosInBatch
	}
	return chaosLimit
}

// judgeBatches compares the batches that providers have seen with the runs.
func (c *chaos) judgeBatches(counts seen) {
	c.t.Helper()
	if !c.size.batched {
		return
	}
	all := counts.All.Batches
	c.t.Logf("%d requests in %d batches, %d refused, %d answered; faults may have lost %d requests",
		all.Requests, all.Submitted, all.Refused, all.Answered, c.again)
	if all.Refused > 0 {
		c.breach("limits", "%d batches were refused, want none", all.Refused)
	}
	for folder, judge := range chaosJudges {
		if folder == "m" {
			continue
		}
		_, model, _ := strings.Cut(judge, ":")
		seen, runs := counts.Models[model].Batches, c.size.runs[folder]
		unanswered := seen.Failed + seen.Expired + seen.Cancelled // a pause or a submission may ask these in a batch again
		c.t.Logf("%s: %d requests in %d batches for %d runs, %d not answered, at most %d tokens",
			model, seen.Requests, seen.Submitted, runs, unanswered, seen.MostEnqueued)
		if once := seen.Requests - unanswered; once > runs+c.again {
			c.breach("batches", "%d requests of %s were answered in batches, for %d runs; the faults can have lost %d", once, model, runs, c.again)
		}
		if seen.MostEnqueued > chaosEnqueued {
			c.breach("limits", "%d tokens of %s were in batches, want at most %d", seen.MostEnqueued, model, chaosEnqueued)
		}
	}
}
