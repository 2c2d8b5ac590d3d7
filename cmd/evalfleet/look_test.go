package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/plain"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// fits wants no line to be wider than columns (0: any width) or to end in a blank.
func fits(t *testing.T, name, got string, columns int) {
	t.Helper()
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		if n := wording.Columns.StringWidth(line); columns > 0 && n > columns || strings.HasSuffix(line, " ") || strings.ContainsRune(line, '\x1b') {
			t.Errorf("%s: line of %d columns: %q, want at most %d, no blank at its end and no control character", name, n, line, columns)
		}
	}
}

// golden compares a text with testdata/look/<name>.txt, and wants no line to be
// wider than columns (0: any width) or to end in a blank.
func golden(t *testing.T, name, got string, columns int) {
	t.Helper()
	fits(t, name, got, columns)
	path := filepath.Join("testdata", "look", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%swant\n%s", path, got, want)
	}
}

var lookedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const longName = "a-very-long-name-that-somebody-gave-to-an-evaluation-because-every-setting-was-to-stand-in-it-temperature-0.7-top-p-0.95"

func ptr[T any](v T) *T { return &v }

func TestStatusText(t *testing.T) {
	t.Parallel()
	essays := view.Evaluation{
		ID: "ev-abcdefgh2345", Name: "essays", Status: record.StatusActive, Created: lookedAt.Add(-3 * time.Minute),
		Phases: []view.Phase{
			{Kind: eval.KindSingle, Runs: 96, Succeeded: 95, Failed: 1, RatePerS: ptr(12.5)},
			{Kind: eval.KindPairwise, Runs: 1104, Succeeded: 409, Failed: 3, RatePerS: ptr(56.0), LeftS: ptr(12.36)},
		},
		Uncollected: 12, Classes: map[string]int{"timeout": 1, "malformed": 2, "refused": 1},
		Used:    &view.Used{Calls: 530, Input: 812_345, Output: 61_234, Unpriced: 530},
		BoundBy: []string{"provider openai: 16 in flight"},
		Queues:  []view.Queue{{Name: "openai", Pending: 200, Active: 17, Retry: 3, Scheduled: 1}},
		Workers: ptr(4),
	}
	millions := essays
	millions.ID, millions.Name, millions.Status = "ev-zzzzzzzz2345", longName+" \x1b[31m字字字字字字", record.StatusPaused
	millions.Created = lookedAt.Add(-90 * 24 * time.Hour)
	millions.Phases = []view.Phase{
		{Kind: eval.KindPairwise, Runs: 100_000_000, Succeeded: 9_999_999, Failed: 1_234_567, Cancelled: 7_654_321, RatePerS: ptr(0.001), LeftS: ptr(1e12)},
	}
	millions.Used = &view.Used{Calls: 123_456_789, Input: 98_765_432_109, Output: 12_345_678_901, Unreported: 1_234_567, CostUSD: ptr(1_234_567.891), Unpriced: 7_654_321}
	millions.Classes = map[string]int{}
	for _, class := range []string{"rate_limited", "overloaded", "transient", "timeout", "quota_daily", "quota_billing", "context_length", "refused", "auth", "malformed"} {
		millions.Classes[class] = 123_456
	}
	millions.BoundBy = []string{"model " + longName + ":" + longName + ": 16 in flight", "fleet: 99 in flight"}
	millions.Queues = []view.Queue{{Name: longName + "~ev-zzzzzzzz2345", Pending: 12_345_678, Active: 1_000_000, Retry: 99_999_999, Paused: true}, essays.Queues[0]}

	ended := essays
	ended.Status, ended.Uncollected, ended.Workers, ended.Queues = record.StatusDone, 0, nil, nil
	ended.BoundBy = []string{"provider openai: 16 in flight, 83 % of calls"}
	ended.Phases = []view.Phase{{Kind: eval.KindPairwise, Runs: 1104, Succeeded: 1104, RatePerS: ptr(0.04)}}
	verdicts := view.Used{Calls: 1004, Input: 8, Output: 7, CostUSD: ptr(1.25)}
	repairs := view.Used{Calls: 100, Input: 1, Output: 1, Unpriced: 100}
	ended.Used = &view.Used{Calls: 1104, Input: 9, Output: 8, CostUSD: ptr(1.25), Unpriced: 100, Stages: []view.Stage{
		{Model: "openai:gpt-5-mini", Stage: "verdict", Used: verdicts}, {Model: "p:" + longName, Stage: "repair", Used: repairs},
	}}
	ended.Classes = nil
	cancelled := ended
	cancelled.Status, cancelled.Used, cancelled.BoundBy = record.StatusCancelled, nil, nil
	cancelled.Phases = []view.Phase{{Kind: eval.KindPairwise, Runs: 1104, Succeeded: 4, Cancelled: 1100}}
	paused := view.Evaluation{
		ID: "ev-333333333333", Name: "paused", Status: record.StatusActive, Created: lookedAt.Add(-time.Hour), Workers: ptr(2),
		Phases: []view.Phase{{Kind: eval.KindPairwise, Runs: 264, Succeeded: 112, Failed: 20}},
		Paused: map[string]record.Pause{
			"openai": {Class: providers.Auth, Message: "Incorrect API key provided."},
			"google": {Class: providers.ModelUnavailable, Message: "no such model", Runs: 20},
		},
		BoundBy: []string{view.Cooldown{Words: "provider anthropic: parked", NextS: 18_000, Parked: true}.Text(lookedAt)},
	}
	empty := view.Evaluation{ID: "ev-222222222222", Status: record.StatusActive, Created: lookedAt.Add(time.Second), Phases: []view.Phase{{Kind: eval.KindSingle}}, Workers: ptr(0)}

	for name, list := range map[string][]view.Evaluation{
		"status-none": {}, "status": {essays}, "status-ended": {ended, cancelled}, "status-wide": {millions, essays}, "status-no-runs": {empty}, "status-paused": {paused},
	} {
		golden(t, name, plain.Status(list, lookedAt, plain.Width), plain.Width)
		for _, columns := range []int{60, 80, 140} {
			fits(t, name, plain.Status(list, lookedAt, columns), columns)
		}
	}
}

func TestLimitsText(t *testing.T) {
	t.Parallel()
	slots := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Concurrency, Max: 16}
	adaptive := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "openai", Model: "gpt-5"}, Kind: ratelimit.Concurrency, Max: 16, Adaptive: true}
	cut := adaptive
	cut.Max = 7
	minute := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Requests, Max: 600, Period: time.Minute}
	wide := ratelimit.Limit{Scope: ratelimit.Scope{Provider: longName, Model: "字" + longName}, Kind: ratelimit.Requests, Max: 1_000_000_000, Period: 31 * 24 * time.Hour}
	used := func(l ratelimit.Limit, change func(*view.Limit)) view.Limit {
		v := view.NewLimit(l)
		change(&v)
		return v
	}
	key := ratelimit.NewAdmin(nil, ratelimit.Config{})
	shared := func(l ratelimit.Limit) *view.SharedRate {
		k, r, _ := key.RedisRate(l)
		return &view.SharedRate{Key: k, Rate: r.Rate, Burst: r.Burst, Period: r.Period}
	}
	running := view.Limits{Limits: []view.Limit{
		used(slots, func(v *view.Limit) {
			v.InUse, v.Waiting, v.Binds, v.PinnedBy = ptr(16), 4, true, []string{"ev-abcdefgh2345", "worker/w7k2p9qa"}
		}),
		used(adaptive, func(v *view.Limit) {
			v.InUse, v.NextS, v.PinnedBy = ptr(9), ptr(0.0), []string{"ev-abcdefgh2345"}
		}),
		used(cut, func(v *view.Limit) {
			v.InUse, v.Cap, v.CutAt, v.PinnedBy = ptr(7), adaptive.Max, ptr(lookedAt.Add(-90*time.Second)), []string{"ev-abcdefgh2345"}
		}),
		used(minute, func(v *view.Limit) {
			v.Ready, v.NextS, v.Waiting, v.Shared = ptr(0), ptr(0.0834), 2, shared(minute)
			v.PinnedBy = []string{"ev-222222222222", "ev-333333333333", "ev-444444444444", "ev-555555555555", "ev-666666666666", "worker/w7k2p9qa", "worker/w7k2p9qb"}
		}),
		used(wide, func(v *view.Limit) {
			v.Ready, v.NextS, v.Waiting, v.Shared, v.Binds, v.PinnedBy = ptr(1), ptr(2_600_000.0), 1_000_000, shared(wide), true, []string{longName}
		}),
		used(ratelimit.Limit{Kind: ratelimit.Concurrency, Max: 1_000_000_000}, func(v *view.Limit) {
			v.InUse, v.NextS, v.PinnedBy = ptr(999_999_999), ptr(0.0), []string{"worker/w7k2p9qa"}
		}),
		used(ratelimit.Limit{Scope: slots.Scope, Kind: ratelimit.Requests, Max: 10_000, Resets: "America/Los_Angeles"}, func(v *view.Limit) {
			v.InUse, v.NextS, v.Waiting, v.Binds, v.PinnedBy = ptr(10_000), ptr(30_000.0), 1, true, []string{"worker/w7k2p9qa"}
			v.ResetsAt = ptr(lookedAt.Add(30_000 * time.Second))
		}),
		used(ratelimit.Limit{Scope: slots.Scope, Kind: ratelimit.InputTokens, Max: 200_000, Period: time.Minute}, func(v *view.Limit) {
			v.InUse, v.Waiting, v.Binds, v.PinnedBy = ptr(199_000), 2, true, []string{"worker/w7k2p9qa"}
		}),
		used(ratelimit.Limit{
			Scope: slots.Scope, Kind: ratelimit.Tokens, Max: 600_000, Period: time.Minute,
			Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: 10 * time.Second},
		}, func(v *view.Limit) {
			v.InUse, v.Debt, v.PinnedBy = ptr(101_234), 1_234, []string{"worker/w7k2p9qa"}
		}),
	}, Cooldowns: view.Cooldowns([]ratelimit.Cooldown{
		{ID: "provider/openai/cooldown", Wait: 12_300 * time.Millisecond},
		{ID: "provider/google/cooldown", Wait: 5 * time.Hour, Parked: true},
		{ID: "provider/openai/model/gpt-5/cooldown", Wait: 900 * time.Millisecond, Probe: true},
		{ID: ratelimit.MemoryID, Wait: 7_700 * time.Millisecond},
	}, func(ratelimit.Limit) bool { return true })}
	golden(t, "limits", plain.Limits(running, lookedAt, plain.Width), plain.Width)
	for _, columns := range []int{60, 80, 140} {
		text := plain.Limits(running, lookedAt, columns)
		fits(t, "limits", text, columns)
		if n := strings.Count(text, "limiting"); n != 8 {
			t.Errorf("%d columns: %d limits bind, want 8: none is left out:\n%s", columns, n, text)
		}
		if name := "provider openai: 600 requests/min"; !strings.Contains(text, name) {
			t.Errorf("%d columns: %s cannot be read:\n%s", columns, name, text)
		}
	}
	golden(t, "limits-none", plain.Limits(view.Limits{}, lookedAt, plain.Width), plain.Width)
	of := view.Limits{Evaluation: "ev-abcdefgh2345", Name: longName, Limits: running.Limits[:1]}
	golden(t, "limits-evaluation", plain.Limits(of, lookedAt, plain.Width), plain.Width)
	of.Name, of.Limits = "essays", nil
	golden(t, "limits-evaluation-none", plain.Limits(of, lookedAt, plain.Width), plain.Width)

	e := results.Evaluation{
		ID: "ev-abcdefgh2345", Plan: &eval.Evaluation{Name: longName},
		Settings: record.Settings{Limits: []ratelimit.Limit{minute, wide, slots}},
	}
	golden(t, "limits-no-calls", plain.Limits(view.LimitsOf(e, nil), lookedAt, plain.Width), plain.Width)
	golden(t, "limits-ended", plain.Limits(view.LimitsOf(e, []results.Wait{
		{Limit: slots.ID(), Calls: 12_000_912, Total: 1_000_000 * time.Hour}, {Limit: "", Calls: 190, Total: time.Second},
		{Limit: minute.ID(), Calls: 2, Total: 900 * time.Millisecond}, {Limit: "group/" + longName + "/concurrency", Calls: 1, Total: time.Minute},
		{Limit: "provider/openai/model/gpt-5/cooldown", Calls: 3, Total: time.Minute}, {Limit: "redis/memory", Calls: 1, Total: 10 * time.Second},
	}), lookedAt, plain.Width), plain.Width)
}

func TestShowText(t *testing.T) {
	t.Parallel()
	at := lookedAt.Add(-time.Minute)
	ended := &show.Run{
		ID: "ev-abcdefgh2345.1.17", Evaluation: "ev-abcdefgh2345", Name: "essays", Kind: eval.KindPairwise, State: "succeeded",
		Judge: "strict", Model: "openai:gpt-5-mini", Item: "q1", Documents: []string{"a.md", "b.md"}, Candidates: []string{"a.md", "ann"},
		Trial: 1, Queue: "openai", Where: "redis",
		Outcome: &record.Run{
			State: "succeeded", Model: "openai:gpt-5-mini", AnsweredBy: "openai:gpt-5", Winner: "a.md", Reason: "It cites\nits sources.\x1b[2J",
			Attempts: 3, Started: at, Ended: at.Add(4200 * time.Millisecond), Worker: "w7k2p9qa",
		},
		Prompt: []show.Turn{{Role: "system", Content: "You are a judge."}, {Role: "user", Content: "Which is better?\n\n<doc>\x07\u202e</doc>\n"}},
		Calls: []show.Call{
			{Call: record.Call{
				ID: "1.17.0-w7k2p9qa-1", Stage: "verdict", Model: "openai:gpt-5-mini", Attempt: 1, Asked: at, Started: at.Add(1500 * time.Millisecond),
				Ended: at.Add(1600 * time.Millisecond), BoundBy: "provider/openai/concurrency", Status: 429, Class: providers.RateLimited, Error: "slow down",
			}, Bound: "provider openai: 16 in flight"},
			{Call: record.Call{
				ID: "1.17.0-w7k2p9qa-2", Stage: "verdict", Model: "openai:gpt-5-mini", Attempt: 2, Asked: at, Started: at, Ended: at.Add(time.Second),
				Status: 200, RequestID: "req_1", Finish: "stop", Text: "I like a.md.", Usage: providers.Usage{Reported: true, Input: 900, Output: 5, Reasoning: 3},
				Grounding: &providers.Grounding{Searches: 1, Queries: []string{"who wrote\na.md"}, Sources: []providers.Source{
					{URL: "https://example.org/a", Title: "A page\x1b[2J"}, {URL: "https://example.org/b"},
				}},
				Reasoning: "First a.md.\nThen b.md.",
			}},
			{Call: record.Call{
				ID: "1.17.0-w7k2p9qa-3", Stage: "repair", Model: "openai:gpt-5-mini", Attempt: 3, Asked: at, Started: at.Add(20 * time.Millisecond),
				Ended: at.Add(time.Second), Status: 200, Finish: "stop", Text: `{"winner_doc_id":"a.md"}`,
				Usage: providers.Usage{Reported: true, Input: 950, Output: 40, CostUSD: ptr(0.00125)},
			}, Turns: []show.Turn{{Role: "assistant", Content: "I like a.md."}, {Role: "user", Content: "That answer cannot be used."}}, Insisted: "\n\nYou must search."},
			{Call: record.Call{
				ID: "1.17.0-w7k2p9qa-4", Stage: "json", Model: "openai:gpt-4.1-mini", Attempt: 4, Asked: at, Started: at, Ended: at,
				Status: 500, Class: providers.Transient, Error: "broken",
			}, Turns: []show.Turn{{Role: "user", Content: "Write down what it says."}}, Alone: true},
		},
	}
	waiting := &show.Run{
		ID: "ev-abcdefgh2345.0.3", Name: "essays", Kind: eval.KindSingle, State: "none", Generation: 1,
		Judge: "openai:gpt-5-mini", Model: "openai:gpt-5-mini", Documents: []string{"a.md"}, Candidates: []string{"a.md"}, Trial: 2, Queue: "openai",
		Outcome: &record.Run{State: "failed", Class: providers.Timeout, Error: "no answer in 2m0s", Attempts: 1, Started: at, Ended: at.Add(2 * time.Minute), Worker: "w7k2p9qa"},
		Waits: &show.Wait{
			Check: "run", Attempts: 1, Deaths: 2, NotBefore: ptr(lookedAt.Add(12 * time.Second)),
			Job:  &show.Job{ID: "resp_1", Model: "openai:o3-deep-research", Started: at, Ends: lookedAt.Add(90 * time.Minute)},
			Task: &show.Task{ID: "ev-abcdefgh2345.0.3.1", State: "retry", Next: ptr(lookedAt.Add(12 * time.Second)), Why: "back to the queue for 12s: rate_limited"},
		},
		Prompt: []show.Turn{{Role: "user", Content: "Score it."}},
		Calls: []show.Call{{Call: record.Call{
			ID: "0.3.0-w7k2p9qa-1", Stage: "verdict", Model: "openai:gpt-5-mini", Attempt: 1, Asked: at, Started: at, Ended: at.Add(2 * time.Minute),
			Class: providers.Timeout, Error: "no answer in 2m0s", MaybeBill: true,
		}}},
	}
	scored := &show.Run{
		ID: "ev-abcdefgh2345.0.4", Name: "essays", Kind: eval.KindSingle, State: "succeeded", Judge: "j", Model: "openai:gpt-5-mini",
		Documents: []string{"a.md"}, Candidates: []string{"a.md"}, Trial: 1, Queue: "openai",
		Outcome: &record.Run{State: "succeeded", Scores: []record.Score{{Criterion: "style", Score: 4.5, Reason: "Clear."}}, Attempts: 1, Started: at, Ended: at, Worker: "w7k2p9qa"},
	}
	unpushed := &show.Run{
		ID: "ev-abcdefgh2345.0.9", Name: "essays", Kind: eval.KindSingle, State: "none", Judge: "j", Model: "openai:gpt-5-mini",
		Documents: []string{"a.md"}, Candidates: []string{"a.md"}, Trial: 1, Queue: "openai", Waits: &show.Wait{Check: "run"}, Prompt: waiting.Prompt,
	}
	held, left := *unpushed, *unpushed
	held.Waits = &show.Wait{Check: "run", Task: &show.Task{
		ID: "ev-abcdefgh2345.0.9.0", State: "active", Worker: "w7k2p9qa", Alive: true, Since: ptr(lookedAt.Add(-3200 * time.Millisecond)),
	}}
	left.Waits = &show.Wait{Check: "run", Deaths: 1, Task: &show.Task{
		ID: "ev-abcdefgh2345.0.9.0", State: "active", Worker: "w7k2p9qa", Since: ptr(lookedAt.Add(-12 * time.Second)),
	}}
	paused := *unpushed
	paused.Waits = &show.Wait{Check: "paused"}
	for name, run := range map[string]*show.Run{
		"show": ended, "show-waiting": waiting, "show-scored": scored, "show-unpushed": unpushed, "show-paused": &paused, "show-held": &held, "show-left": &left,
	} {
		golden(t, name, plain.Run(run, lookedAt, 0), 0)
	}
}
