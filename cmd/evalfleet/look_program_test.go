package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/plain"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// looked decodes what a command of --json prints.
func looked[T any](t *testing.T, dir string, args ...string) T {
	t.Helper()
	p := launch(t, dir, append(args, "--json")...)
	if code := p.wait(); code != 0 {
		t.Fatalf("%v ended with %d: %s", args, code, p.stderr.String())
	}
	var value T
	if err := json.Unmarshal([]byte(p.stdout.String()), &value); err != nil {
		t.Fatalf("%v: %v in %s", args, err, p.stdout.String())
	}
	return value
}

// lookUntil looks until a condition holds.
func lookUntil[T any](t *testing.T, what string, look func() T, holds func(T) bool) T {
	t.Helper()
	var value T
	testrun.EventuallyGot(t, what, func() (string, bool) {
		value = look()
		return fmt.Sprintf("%+v", value), holds(value)
	})
	return value
}

// wantNarrow wants a text that no terminal of 100 columns wraps.
func wantNarrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := wording.Columns.StringWidth(strings.TrimSuffix(line, "\n")); n > plain.Width {
			t.Errorf("line of %d columns: %q", n, line)
		}
	}
}

// TestLookIntoFleet: what a fleet does is seen while it does it, from another
// process that has nothing but the address of its Redis.
func TestLookIntoFleet(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--max-in-flight", "2", "--latency", "50ms")
	calls := f.gate()
	calls.allow(6)
	f.documents(8)
	f.write("slow.yaml", `name: slow
documents: ["docs/*.md"]
judges: [simulator:careful]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 9, per_provider: {simulator: {max_concurrency: 2, requests_per_minute: 6000}}}
`)
	redis := []string{"--redis", f.redis.URL()}
	enqueue := launch(t, f.dir, append([]string{"enqueue", "slow.yaml", "--config", "fleet.yaml"}, redis...)...)
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	id := strings.TrimSpace(enqueue.stdout.String())

	last := looked[show.Run](t, f.dir, append([]string{"show", "0.55", id}, redis...)...)
	if last.State != "none" || last.Waits == nil || last.Waits.Task != nil && last.Waits.Task.State != "pending" || len(last.Prompt) != 2 {
		t.Errorf("last run before there are workers: %+v", last)
	}
	before := time.Now().Truncate(time.Second)
	f.startWorkers(2)
	status := func() view.Evaluation {
		list := looked[[]view.Evaluation](t, f.dir, append([]string{"status", id}, redis...)...)
		if len(list) != 1 {
			t.Fatalf("status of %s: %+v", id, list)
		}
		return list[0]
	}
	now := lookUntil(t, "both workers are alive, two runs have ended, and the provider's limit binds", status, func(s view.Evaluation) bool {
		return s.Uncollected >= 2 && len(s.BoundBy) > 0 && s.Phases[0].RatePerS != nil && *s.Workers == 2
	})
	if now.Name != "slow" || now.Phases[0].Runs != 56 || now.Phases[0].LeftS == nil || now.Used != nil ||
		now.BoundBy[0] != "provider simulator: 2 in flight" || len(now.Queues) != 1 || now.Queues[0].Active < 2 {
		t.Errorf("status: %+v", now)
	}
	limits := lookUntil(t, "the limit of calls binds, and the rate has room again after the last call",
		func() view.Limits { return looked[view.Limits](t, f.dir, append([]string{"limits"}, redis...)...) },
		func(v view.Limits) bool {
			return len(v.Limits) == 3 && v.Limits[1].Binds && v.Limits[2].Ready != nil && *v.Limits[2].Ready >= 1
		})
	slots, rate := limits.Limits[1], limits.Limits[2]
	if limits.Ended || *slots.InUse != 2 || slots.Allowed != 2 || slots.Waiting < 1 || slots.NextS != nil || !cmp.Equal(slots.PinnedBy, []string{id}) {
		t.Errorf("limit of calls in flight: %+v", slots)
	}
	if rate.Shared == nil || rate.Shared.Key != "{ef}:provider/simulator/requests/1m0s" || rate.Shared.Burst < 1 || rate.Binds {
		t.Errorf("limit of requests: %+v, %+v", rate, rate.Shared)
	}

	if limits.Evaluation != "" {
		t.Errorf("all limits are those of %s", limits.Evaluation)
	}
	minute := ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}
	account := ratelimit.Scope{Provider: "simulator"}
	others := []ratelimit.Limit{
		{Scope: account, Kind: ratelimit.Tokens, Max: 1_000_000_000, Period: time.Minute, Window: minute},
		{Scope: account, Kind: ratelimit.OutputTokens, Max: 1_000_000_000, Period: time.Minute},
		{Scope: account, Kind: ratelimit.Requests, Max: 1_000_000, Resets: "UTC"},
		{Scope: ratelimit.Scope{Evaluation: "ev-other"}, Kind: ratelimit.Concurrency, Max: 3},
		{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Concurrency, Max: 4},
		{Scope: ratelimit.Scope{Provider: "simulator", Model: "average"}, Kind: ratelimit.Concurrency, Max: 5},
		{Kind: ratelimit.Concurrency, Max: 99},
	}
	if err := ratelimit.NewAdmin(f.redis.Client(), ratelimit.Config{}).Register(t.Context(), "ev-other", others); err != nil {
		t.Fatal(err)
	}
	kept := looked[view.Limits](t, f.dir, append([]string{"limits", id}, redis...)...)
	var words []string
	for _, l := range kept.Limits {
		words = append(words, l.Words)
	}
	want := []string{"evaluation " + id + ": 9 in flight", "fleet: 99 in flight", slots.Words,
		"provider simulator: 1000 M output tokens/min", rate.Words, "provider simulator: 1 M requests per day (UTC)",
		"provider simulator: 1000 M tokens/min"}
	if kept.Evaluation != eval.ID(id) || kept.Name != "slow" || !cmp.Equal(words, want) {
		t.Errorf("limits of %s: %s %s, %q; want %q", id, kept.Evaluation, kept.Name, words, want)
	}

	if n := len(kept.Limits); n == len(want) {
		bucket, quota, window := kept.Limits[3], kept.Limits[5], kept.Limits[6]
		if bucket.InUse != nil || bucket.Shared != nil || bucket.NextS == nil {
			t.Errorf("a bucket of tokens: %+v; want when the next call may start", bucket)
		}
		for _, l := range []view.Limit{quota, window} {
			if l.InUse == nil || l.Shared != nil || l.NextS == nil || *l.NextS != 0 {
				t.Errorf("%s: %+v; want what is used, and that there is room", l.Words, l)
			}
		}
		if at := quota.ResetsAt; at == nil || !at.After(time.Now()) || time.Until(*at) > 24*time.Hour || at.UTC().Hour() != 0 {
			t.Errorf("the quota resets at %v, want the next midnight in UTC", at)
		}
	}

	shown := func(index int) show.Run {
		return looked[show.Run](t, f.dir, append([]string{"show", fmt.Sprintf("%s.0.%d", id, index)}, redis...)...)
	}
	ended := 0 // the index of a run that has
	first := lookUntil(t, "a run has ended", func() (r show.Run) {
		for ended = range 56 {
			if r = shown(ended); r.State == "succeeded" {
				break
			}
		}
		return r
	}, func(r show.Run) bool { return r.State == "succeeded" })
	if first.Where != "redis" || first.Outcome == nil || first.Outcome.Winner == "" || len(first.Calls) != 1 || first.Waits != nil {
		t.Errorf("a run that is not collected: %+v", first)
	}
	lookUntil(t, "a run is seen in flight", func() int {
		for index := range 56 {
			if r := shown(index); r.State == "none" && r.Waits != nil && r.Waits.Task != nil && r.Waits.Task.State == "active" {
				task := r.Waits.Task
				if task.Worker == "" { // it has ended between its state and its owner
					continue
				}
				if !task.Alive || task.Since.Before(before) || task.Since.After(time.Now()) {
					t.Errorf("a run in flight: %+v; want it with a living worker, taken since %s", task, before)
				}
				return 1
			}
		}
		return 0
	}, func(n int) bool { return n > 0 })
	if code := launch(t, f.dir, append([]string{"collect", id, "--out-dir", "out"}, redis...)...).wait(); code != 0 {
		t.Fatalf("collect ended with %d", code)
	}
	collected := looked[show.Run](t, f.dir, "show", fmt.Sprintf("0.%d", ended), "out")
	if collected.Where != "sink" || !cmp.Equal(collected.Outcome.Winner, first.Outcome.Winner) || !cmp.Equal(collected.Prompt, first.Prompt) {
		t.Errorf("collected: %+v, want what Redis had: %+v", collected, first)
	}
	limiter := ratelimit.New(f.redis.Client(), ratelimit.Config{})
	for _, scope := range []ratelimit.Scope{{Provider: "openai"}, {Provider: "simulator", Model: "careful"}} {
		if err := limiter.Cool(t.Context(), scope, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if all := looked[view.Limits](t, f.dir, append([]string{"limits"}, redis...)...).Cooldowns; len(all) != 2 || all[0].Words != "provider openai: cooldown" {
		t.Errorf("cooldowns of the fleet: %+v", all)
	}
	cooled := looked[view.Limits](t, f.dir, append([]string{"limits", id}, redis...)...).Cooldowns
	if len(cooled) != 1 || cooled[0].Words != "model simulator:careful: cooldown" || cooled[0].NextS <= 0 || cooled[0].NextS > 3600 || cooled[0].Probe {
		t.Errorf("cooldowns of %s: %+v", id, cooled)
	}
	if by := status().BoundBy; len(by) == 0 || by[0] != "model simulator:careful: cooldown" {
		t.Errorf("bound by %q during a cooldown", by)
	}
	for _, command := range []string{"status", "limits"} {
		p := launch(t, f.dir, append([]string{command}, redis...)...)
		if code := p.wait(); code != 0 || !strings.Contains(p.stdout.String(), "simulator") {
			t.Errorf("%s ended with %d: %s", command, code, p.stdout.String())
		}
		wantNarrow(t, p.stdout.String())
	}
}

// TestLookIntoFolder: the folder of a run tells of the run while it goes on, and
// of what is recorded after it was killed.
func TestLookIntoFolder(t *testing.T) {
	t.Parallel()
	f := newFleetLimited(t, 4, calm)
	f.documents(60) // 3,540 runs: more than the test waits for
	f.evaluation("killed", "simulator:careful", 4, 4)
	run := launch(t, f.dir, "run", "killed.yaml", "--config", "fleet.yaml", "--out-dir", "out")
	f.until("some runs have been answered", func(s seen) bool { return s.All.Arrived >= 12 })
	going := lookUntil(t, "the results store has results", func() view.Evaluation { return looked[[]view.Evaluation](t, f.dir, "status", "out")[0] },
		func(s view.Evaluation) bool { return s.Used != nil && s.Used.Calls > 0 && s.Phases[0].LeftS != nil })
	if going.Status != "active" || *going.Workers != 1 || going.Used.CostUSD == nil || *going.Used.CostUSD != 0 || going.Used.Input == 0 || len(going.Queues) != 1 {
		t.Errorf("while it runs: %+v, used %+v", going, going.Used)
	}
	if v := looked[view.Limits](t, f.dir, "limits", "out"); v.Ended || len(v.Limits) != 2 || v.Evaluation != going.ID {
		t.Errorf("limits while it runs: %+v", v)
	}

	if err := run.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-run.ended
	dead := looked[[]view.Evaluation](t, f.dir, "status", "out", "--watch")[0] // nothing to watch: it ends
	if dead.Status != view.StatusInterrupted || dead.Workers != nil || dead.Phases[0].Succeeded == 0 || dead.Phases[0].RatePerS == nil || dead.Phases[0].LeftS != nil {
		t.Errorf("after it was killed: %+v", dead)
	}
	v := looked[view.Limits](t, f.dir, "limits", "out")
	waited := v.Free.Calls
	for _, l := range v.Limits {
		waited += l.Waited.Calls
	}
	if !v.Ended || v.Evaluation != dead.ID || waited != dead.Used.Calls {
		t.Errorf("limits after it was killed: %d calls in %+v, want %d", waited, v, dead.Used.Calls)
	}
	if r := looked[show.Run](t, f.dir, "show", "0.0", "--out-dir", "out"); r.Evaluation != dead.ID || len(r.Prompt) != 2 {
		t.Errorf("run in the folder: %+v", r)
	}
}

// TestShowIsWhatWasSent: a provider of this test's own notes what it is sent, to
// compare with the prompt and the turns that are rebuilt: of a verdict that has to
// be repaired, and of one in two calls, and the second is made again and
// repaired.
func TestShowIsWhatWasSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first, settings, models string
	}{
		"in one call":  {first: "B, I think.", models: "{}"},
		"in two calls": {"B wins.\nIt is longer.", "json: true\njsonify: {provider: own, model: writer}\n", "{m: {json: none}, writer: {json: schema}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var sent [][]show.Turn
			answers := []string{test.first, "", `{"winner_doc_id":"B"}`, `{"winner_doc_id":"B","reason":"It is longer."}`}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct {
					Messages []show.Turn `json:"messages"`
				}
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				n := len(sent)
				sent = append(sent, body.Messages)
				if n >= len(answers) || answers[n] == "" {
					http.Error(w, "try again", http.StatusServiceUnavailable)
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
					"message": map[string]string{"role": "assistant", "content": answers[n]}, "finish_reason": "stop",
				}}})
			}))
			t.Cleanup(server.Close)
			dir := tree(t, map[string]string{
				"docs/a.md": "Alpha <b>&amp; {{.Question}}\n", "docs/b.md": "Beta.",
				"one.yaml": fmt.Sprintf(`name: one
documents: [docs/*.md]
judges: [own:m]
pairwise: {order: as_listed}
retry: {initial_delay: 10ms, jitter: 0s}
outage: 0s
providers: {own: {dialect: chat, base_url: %q, models: %s}}
%s`, server.URL, test.models, test.settings),
			})
			if p := launch(t, dir, "run", "one.yaml", "--out-dir", "out"); p.wait() != 0 {
				t.Fatal(p.stderr.String())
			}
			run := looked[show.Run](t, dir, "show", "0.0", "out")
			if len(run.Calls) != len(answers) || len(sent) != len(answers) {
				t.Fatalf("%d calls shown, %d made, want %d", len(run.Calls), len(sent), len(answers))
			}
			for i, call := range run.Calls {
				got := append([]show.Turn{}, run.Prompt...)
				if call.Alone {
					got = nil
				}
				got = append(got, call.Turns...)
				if diff := cmp.Diff(sent[i], got); diff != "" {
					t.Errorf("call %d, %s (-sent +shown):\n%s", i+1, call.Stage, diff)
				}
			}
			if run.Outcome.Winner != "b.md" || run.Outcome.Reason != "It is longer." || run.Outcome.Attempts != 4 || run.Outcome.AnsweredBy != "own:m" {
				t.Errorf("outcome: %+v", run.Outcome)
			}
		})
	}
}

func TestLookRefuses(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "status needs a fleet's Redis (--redis or REDIS_URL) or an output folder"},
		{[]string{"limits"}, "limits needs a fleet's Redis (--redis or REDIS_URL) or an output folder"},
		{[]string{"status", "a", "b"}, "status takes one ID or folder or none, got 2"},
		{[]string{"limits", "a", "b"}, "limits takes one ID or folder or none, got 2"},
		{[]string{"status", "nowhere"}, "nowhere is neither a folder nor the id of an evaluation (ev-…)"},
		{[]string{"status", "ev-abcdefgh2345"}, "ev-abcdefgh2345: name its Redis with --redis, or its output folder instead of its id"},
		{[]string{"status", empty}, empty + " has no results (no results.db): "},
		{[]string{"status", "--wach"}, "unknown flag --wach; did you mean --watch?"},
		{[]string{"shw", "0.1"}, "unknown command shw; did you mean show?"},
		{[]string{"show"}, "show wants a RUN, and its ID or folder, got 0 arguments; write evalfleet show 0.17 DIR"},
		{[]string{"show", "0.1", "a", "b"}, "show wants a RUN, and its ID or folder, got 3 arguments"},
		{[]string{"show", "0.1"}, "run 0.1: name its evaluation: evalfleet show 0.1 ID, or its output folder instead of the id"},
		{[]string{"show", empty, "0.1"}, "put the run first: evalfleet show 0.1 " + empty},
		{[]string{"show", "ev-abcdefgh2345.0.1", "ev-other"}, "run ev-abcdefgh2345.0.1 is not one of ev-other"},
		{[]string{"show", "0.1", empty}, empty + " has no results (no results.db): "},
	} {
		code, stdout, stderr := evalfleet(t, nil, c.args...)
		if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "evalfleet: "+c.want) {
			t.Errorf("%v: got %d, %q and %q; want 2 and %q", c.args, code, stdout, stderr, c.want)
		}
	}
}

// Where ids or folders are near, they are proposed.
func TestNearestEvaluation(t *testing.T) {
	t.Parallel()
	f := newFleetLimited(t, 4, calm)
	f.documents(3)
	f.evaluation("near", "simulator:careful", 4, 4)
	enqueue := launch(t, f.dir, "enqueue", "near.yaml", "--redis", f.redis.URL(), "--config", "fleet.yaml")
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	id := strings.TrimSpace(enqueue.stdout.String())
	misspelt := id[:len(id)-1] + "1"
	for _, args := range [][]string{{"status", misspelt}, {"limits", misspelt}, {"show", "0.0", misspelt}, {"show", misspelt + ".0.0"}} {
		p := launch(t, f.dir, append(args, "--redis", f.redis.URL())...)
		if code := p.wait(); code != 2 || !strings.Contains(p.stderr.String(), "did you mean "+id+"?") {
			t.Errorf("%v: got %d and %q, want 2 and %s", args, code, p.stderr.String(), id)
		}
	}
	for run, want := range map[string]string{
		"0.6": id + " has no run 0.6: the runs of phase 0 (pairwise) are 0.0 to 0.5\n", "3.0": id + " has no phase 3: its phases are 0 to 0\n",
	} {
		p := launch(t, f.dir, "show", run, id, "--redis", f.redis.URL())
		if code := p.wait(); code != 2 || p.stderr.String() != "evalfleet: "+want {
			t.Errorf("show %s: got %d and %q, want 2 and %q", run, code, p.stderr.String(), want)
		}
	}
	if err := os.MkdirAll(filepath.Join(f.dir, outdir.Root, "near-"+id), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, outdir.Root, "near-"+id, outdir.ResultsFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, f.dir, "status")
	if code := p.wait(); code != 2 || !strings.Contains(p.stderr.String(), "the newest here is "+filepath.Join(outdir.Root, "near-"+id)) {
		t.Errorf("status of nothing: got %d and %q", code, p.stderr.String())
	}
}
