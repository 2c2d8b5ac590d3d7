//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// poisoner writes into the Redis of a fleet what no evalfleet writes.
type poisoner struct {
	t      *testing.T
	client *redis.Client
	keys   record.Keys
	forged map[eval.ID]record.Status // by the ids that changed plans came to
}

// submit stores an evaluation of two documents.
func (p *poisoner) submit(name string) eval.ID {
	p.t.Helper()
	e := &eval.Evaluation{
		Name: name, Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Judges:   []eval.Judge{{Name: "simulator:careful", Provider: "simulator", Model: "careful"}},
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	texts := map[string]string{}
	for _, text := range []string{"Alpha.", "Beta."} {
		hash := eval.TextHash(text)
		e.Documents, texts[hash] = append(e.Documents, eval.Document{ID: text, Candidate: text, Hash: hash, Bytes: len(text)}), text
	}
	e.Normalize()
	s := store.New(p.client, "")
	q := &enqueue.Enqueuer{Store: s, Limits: ratelimit.NewAdmin(p.client, ratelimit.Config{Log: zerolog.Nop()}), Log: zerolog.Nop()}
	receipt, err := q.Submit(p.t.Context(), enqueue.Submission{Evaluation: e, Texts: texts, Settings: record.Settings{
		Priority: 1, Retry: record.DefaultRetry, Limits: []ratelimit.Limit{{Kind: ratelimit.Requests, Max: 100_000, Period: time.Minute}},
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	return receipt.ID
}

func (p *poisoner) do(args ...any) {
	p.t.Helper()
	if err := p.client.Do(p.t.Context(), args...).Err(); err != nil {
		p.t.Fatal(err)
	}
}

// field sets a field of the record.
func field(name, value string) func(*poisoner, eval.ID) {
	return func(p *poisoner, id eval.ID) { p.do("HSET", p.keys.Record(id), name, value) }
}

// changed changes the JSON of a field of the record.
func changed[T any](name string, change func(*T)) func(*poisoner, eval.ID) {
	return func(p *poisoner, id eval.ID) {
		p.t.Helper()
		var value T
		raw := p.client.HGet(p.t.Context(), p.keys.Record(id), name).Val()
		if err := json.Unmarshal([]byte(raw), &value); err != nil {
			p.t.Fatal(err)
		}
		change(&value)
		p.do("HSET", p.keys.Record(id), name, must(json.Marshal(value)))
	}
}

func settings(change func(map[string]any)) func(*poisoner, eval.ID) {
	return changed("settings", func(m *map[string]any) { change(*m) })
}

func phases(change func(phase map[string]any)) func(*poisoner, eval.ID) {
	return changed("phases", func(list *[]map[string]any) { change((*list)[0]) })
}

// inPlan changes what the evaluation asks.
func inPlan(change func(map[string]any)) func(*poisoner, eval.ID) {
	return func(p *poisoner, id eval.ID) {
		p.t.Helper()
		packed := must(p.client.Get(p.t.Context(), p.keys.Plan(id)).Bytes())
		var value map[string]any
		if err := json.Unmarshal(must(must(zstd.NewReader(nil)).DecodeAll(packed, nil)), &value); err != nil {
			p.t.Fatal(err)
		}
		change(value)
		p.do("SET", p.keys.Plan(id), must(zstd.NewWriter(nil)).EncodeAll(must(json.Marshal(value)), nil))
	}
}

// forged stores the evaluation anew under the id of a changed plan, and says which status
// it comes to.
func forged(comesTo record.Status, change func(map[string]any)) func(*poisoner, eval.ID) {
	return func(p *poisoner, id eval.ID) {
		p.t.Helper()
		inPlan(change)(p, id)
		raw := must(must(zstd.NewReader(nil)).DecodeAll(must(p.client.Get(p.t.Context(), p.keys.Plan(id)).Bytes()), nil))
		var e eval.Evaluation
		if err := json.Unmarshal(raw, &e); err != nil {
			p.t.Fatal(err)
		}
		for _, key := range []func(eval.ID) string{p.keys.Record, p.keys.Plan, p.keys.Documents} {
			p.do("COPY", key(id), key(e.ID()))
		}
		p.forged[e.ID()] = comesTo
		p.do("SADD", p.keys.Evaluations(), string(e.ID()))
		p.do("SADD", p.keys.Active(), string(e.ID()))
	}
}

// entry appends to the results what no worker records.
func entry(run, calls string) func(*poisoner, eval.ID) {
	return func(p *poisoner, id eval.ID) {
		args := []any{"XADD", p.keys.Results(id), "*", "v", "1"}
		if run != "" {
			args = append(args, "run", run)
		}
		if calls != "" {
			args = append(args, "calls", calls)
		}
		p.do(args...)
	}
}

// poisonedRecords are records, plans and counts that no evalfleet writes, by what is wrong
// with them. Their evaluations are never worked on.
var poisonedRecords = map[string]func(*poisoner, eval.ID){
	"a status that is none":      field("status", "exploded"),
	"created beyond all time":    field("created", "9223372036854775807"),
	"created before all time":    field("created", "-9223372036854775808"),
	"a name of escape sequences": field("name", "\x1b]0;owned\a\x1b[2Jname"),
	"a name of a megabyte":       field("name", strings.Repeat("n", 1<<20)),
	"settings of another kind":   field("settings", `[1,2,3]`),
	"a priority beyond all":      settings(func(s map[string]any) { s["priority"] = int64(1) << 62 }),
	"a negative priority":        settings(func(s map[string]any) { s["priority"] = -7 }),
	"negative attempts":          settings(func(s map[string]any) { s["retry"] = map[string]any{"max_attempts": -1} }),
	"attempts without end":       settings(func(s map[string]any) { s["retry"] = map[string]any{"max_attempts": 1 << 40} }),
	"negative delays":            settings(func(s map[string]any) { s["retry"] = map[string]any{"max_attempts": 3, "initial_delay": -1e18} }),
	"a timeout of 290 years":     settings(func(s map[string]any) { s["timeouts"] = map[string]any{"": int64(9e18)} }),
	"a negative timeout":         settings(func(s map[string]any) { s["timeouts"] = map[string]any{"": -5} }),
	"a negative price": settings(func(s map[string]any) {
		s["prices"] = map[string]any{"simulator:careful": map[string]any{"input": -1e9, "output": -1e300}}
	}),
	"a price beyond all": settings(func(s map[string]any) {
		s["prices"] = map[string]any{"simulator:careful": map[string]any{"input": 1e300, "output": 1e308}}
	}),
	"a limit of no kind": settings(func(s map[string]any) { s["limits"] = []any{map[string]any{"kind": "exploded", "max": 1}} }),
	"a negative limit":   settings(func(s map[string]any) { s["limits"] = []any{map[string]any{"kind": "concurrency", "max": -1}} }),
	"a limit of others": settings(func(s map[string]any) {
		s["limits"] = []any{map[string]any{"kind": "concurrency", "evaluation": "ev-bbbbbbbbbbbb", "max": 1}}
	}),
	"a negative bound on runs": settings(func(s map[string]any) { s["limit"] = -3 }),
	"a fallback that grows by e300": settings(func(s map[string]any) {
		s["fallback"] = map[string]any{"models": []string{"simulator:x"}, "auto_wait": true, "backoff_base": 1e300, "max_retries": 1 << 40}
	}),
	"negative runs": phases(func(p map[string]any) { p["runs"] = -2 }),
	"more runs than planned": phases(func(p map[string]any) {
		p["runs"] = int64(1) << 60
		p["queues"] = map[string]any{"simulator": int64(1) << 60}
	}),
	"runs in other queues": phases(func(p map[string]any) { p["queues"] = map[string]any{"a\x1b[31m}{b": 2} }),
	"a queue of escapes": phases(func(p map[string]any) {
		p["judge_queues"] = []string{"\x1b[31m{x}"}
		p["queues"] = map[string]any{"\x1b[31m{x}": 2}
	}),
	"a queue of another": phases(func(p map[string]any) {
		p["judge_queues"] = []string{"simulator~ev-bbbbbbbbbbbb"}
		p["queues"] = map[string]any{"simulator~ev-bbbbbbbbbbbb": 2}
	}),
	"too many queues":          phases(func(p map[string]any) { p["judge_queues"] = []string{"simulator", "simulator"} }),
	"a phase of another kind":  phases(func(p map[string]any) { p["kind"] = "single" }),
	"chosen without choice":    phases(func(p map[string]any) { p["chosen"] = true }),
	"a plan of another":        inPlan(func(e map[string]any) { e["name"] = "another" }),
	"a plan of endless trials": inPlan(func(e map[string]any) { e["pairwise"].(map[string]any)["trials"] = int64(1) << 62 }),
	"a plan of no documents":   inPlan(func(e map[string]any) { e["documents"] = []any{} }),
	"a plan that is none":      func(p *poisoner, id eval.ID) { p.do("SET", p.keys.Plan(id), "\x28\xb5\x2f\xfd") },
	"a plan of another type":   func(p *poisoner, id eval.ID) { p.do("DEL", p.keys.Plan(id)); p.do("RPUSH", p.keys.Plan(id), "x") },
	"a record of another type": func(p *poisoner, id eval.ID) { p.do("DEL", p.keys.Record(id)); p.do("RPUSH", p.keys.Record(id), "x") },
	"no items":                 forged(view.StatusUnreadable, func(e map[string]any) { e["items"] = []any{} }),
	"a document of no item":    forged(view.StatusUnreadable, func(e map[string]any) { e["documents"].([]any)[0].(map[string]any)["item"] = 99 }),
	"documents of negative items": forged(view.StatusUnreadable, func(e map[string]any) {
		e["documents"].([]any)[1].(map[string]any)["item"] = -1
		e["pairwise"].(map[string]any)["top_n"] = 1
		e["pairwise"].(map[string]any)["pairs"] = map[string]any{"mode": "swiss", "share": 1e-300}
	}),
	"no judges": forged(view.StatusUnreadable, func(e map[string]any) { e["judges"] = nil }),
	"overrides that are none": forged(record.StatusDone, func(e map[string]any) {
		e["judges"].([]any)[0].(map[string]any)["overrides"] = map[string]any{"temperature": "hot", "max_completion_tokens": -1e300, "reasoning_effort": []any{1}}
	}),
	"endless trials": forged(view.StatusUnreadable, func(e map[string]any) { e["pairwise"].(map[string]any)["trials"] = int64(1) << 60 }),
	"runs of no files": forged(view.StatusUnreadable, func(e map[string]any) {
		e["runs"] = map[string]any{"list": []any{map[string]any{"file_a": 7, "model": -2}}}
	}),
	"prompts of no rows": forged(view.StatusUnreadable, func(e map[string]any) {
		e["prompts"] = map[string]any{"list": []any{map[string]any{"row": 7, "model": -2}}}
	}),
	"a panel of none":   forged(view.StatusUnreadable, func(e map[string]any) { e["panel"] = map[string]any{} }),
	"a negative cursor": func(p *poisoner, id eval.ID) { p.do("HSET", p.keys.Cursors(id), "b0|simulator", "-5") },
	"a cursor beyond":   func(p *poisoner, id eval.ID) { p.do("HSET", p.keys.Cursors(id), "b0|simulator", "9000000000000000000") },
	"negative counts": func(p *poisoner, id eval.ID) {
		p.do("HSET", p.keys.Counts(id), "0|succeeded|simulator", "-9000000000000000000")
	},
	"counts beyond": func(p *poisoner, id eval.ID) {
		p.do("HSET", p.keys.Counts(id), "0|failed|simulator", "9000000000000000000")
	},
	"counts that are none": func(p *poisoner, id eval.ID) { p.do("HSET", p.keys.Counts(id), "0|failed|simulator", "NaN") },
}

// poisonedRuns are progress and states of runs that no evalfleet writes. The run waits for
// a program that can read it, or ends; other runs of the evaluation end.
var poisonedRuns = map[string]func(*poisoner, eval.ID){
	"progress of a far future": func(p *poisoner, id eval.ID) {
		p.do("HSET", p.keys.ProgressOf(id, "0.0"), "not_before", "9223372036854775807", "attempts", "-5", "started", "-9223372036854775808")
	},
	"progress of a model that is none": func(p *poisoner, id eval.ID) {
		p.do("HSET", p.keys.ProgressOf(id, "0.0"), "fallback", `{"asked":99,"waits":-1,"spent":-9}`)
	},
	"progress that is none":  func(p *poisoner, id eval.ID) { p.do("HSET", p.keys.ProgressOf(id, "0.0"), "attempts", "NaN") },
	"progress of many turns": func(p *poisoner, id eval.ID) { p.do("HSET", p.keys.ProgressOf(id, "0.0"), "said", `["a","b","c"]`) },
	"a job of an unknown run": func(p *poisoner, id eval.ID) {
		p.do("HSET", p.keys.ProgressOf(id, "0.0"), "job", `{"id":"../x","ends":"9999-01-01T00:00:00Z","call":{"phase":-4}}`)
	},
	"progress of another type": func(p *poisoner, id eval.ID) { p.do("RPUSH", p.keys.ProgressOf(id, "0.0"), "x") },
	"a state that is none":     func(p *poisoner, id eval.ID) { p.do("SET", p.keys.States(id, 0, 0), "\xff\xff\xff\xff") },
}

// poisonedEntries are results that no evalfleet writes. They are set aside, and the
// evaluation ends.
var poisonedEntries = map[string]func(*poisoner, eval.ID){
	"an entry that is no JSON":   entry("{", ""),
	"an entry of no version":     func(p *poisoner, id eval.ID) { p.do("XADD", p.keys.Results(id), "*", "x", "y") },
	"an entry without place":     entry(`{"phase":-1,"index":-9,"kind":"pairwise","state":"succeeded"}`, ""),
	"an entry beyond":            entry(`{"phase":77,"index":9000000000000000000,"kind":"pairwise","state":"succeeded"}`, ""),
	"an entry of no kind":        entry(`{"kind":"exploded","state":"succeeded"}`, ""),
	"an entry of no state":       entry(`{"kind":"pairwise","state":"exploded"}`, ""),
	"an entry without documents": entry(`{"kind":"pairwise","state":"succeeded","documents":[],"winner":"x"}`, ""),
	"a winner of none":           entry(`{"kind":"pairwise","state":"succeeded","judge":"simulator:careful","documents":["Alpha.","Beta."],"candidates":["a"],"winner":"\u001b[31mx","trial":1,"ended":"2026-01-01T00:00:00Z"}`, ""),
	"a winner of no time":        entry(`{"kind":"pairwise","state":"succeeded","documents":["Alpha.","Beta."],"winner":"Alpha.","ended":"99999-01-01T00:00:00Z"}`, ""),
	"a null run and null calls":  entry("null", "[null]"),
	"a negative cost":            entry("", `[{"id":"0.0.0-w-1","phase":0,"index":0,"usage":{"reported":true,"input":-9000000000000000000,"output":-1,"cost_usd":-1e300}}]`),
	"a cost beyond all":          entry("", `[{"id":"0.0.0-w-1","usage":{"reported":true,"input":9223372036854775807,"output":9223372036854775807,"cost_usd":1e308}},{"id":"0.0.0-w-2","usage":{"reported":true,"input":9223372036854775807,"cost_usd":1e308},"most_usd":1e308}]`),
	"a score beyond all":         entry(`{"kind":"single","state":"succeeded","documents":["Alpha."],"scores":[{"criterion":"x","score":1e308},{"criterion":"x","score":-1e308}]}`, ""),
}

// A fleet meets records, plans, progress, results, tasks and ids that no evalfleet writes.
// All its processes stay alive, and another evaluation runs to its end, is collected,
// shown and reported. No escape sequence leaves Redis.
func TestPoisonStopsNothingElse(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleetWith(t, "--latency", "5ms")
	f.write("fleet.yaml", "providers: {simulator: {base_url: \""+f.provider+"/v1\"}}\n")
	p := &poisoner{t: t, client: redis.NewClient(redistest.Patient(must(redis.ParseURL(f.redis.URL())))), keys: record.Keys{Namespace: record.DefaultNamespace}, forged: map[eval.ID]record.Status{}}
	t.Cleanup(func() { _ = p.client.Close() })
	ids := map[string]eval.ID{}
	for _, table := range []map[string]func(*poisoner, eval.ID){poisonedRecords, poisonedRuns, poisonedEntries} {
		for name, poison := range table {
			ids[name] = p.submit(name)
			poison(p, ids[name])
		}
	}
	for _, set := range []string{p.keys.Evaluations(), p.keys.Active(), p.keys.Queues(), "asynq:queues"} {
		p.do("SADD", set, "", "../../x", "\x1b]0;owned\a", "ev-}{", strings.Repeat("z", 1<<16))
	}
	for i, message := range []string{"", "null", "\x0a\x01\xff", "\x1a\x07poison3\x22\x05other", "\x1a\x07poison4\x22\x09simulator\x12\x07{\"v\":1}", "\x1a\x07poison5\x22\x09simulator\x48\x01"} {
		id := fmt.Sprintf("poison%d", i)
		p.do("HSET", "asynq:{simulator}:t:"+id, "msg", message, "state", "pending")
		p.do("LPUSH", "asynq:{simulator}:pending", id)
	}
	p.do("SET", p.keys.Worker("evil"), `{"v":1,"slots":-5,"host":"\u001b[31m"}`)

	metrics := testrun.FreeAddress(t)
	controller := launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--listen", "127.0.0.1:0", "--metrics-addr", metrics)
	f.startWorkers(1)
	alive := []*program{controller, f.workers[0]}
	good := p.submit("good")

	wanted := map[eval.ID]string{good: "good"}
	for name := range poisonedEntries {
		wanted[ids[name]] = name
	}
	testrun.EventuallyGot(t, "what can end has ended and is drained", func() (string, bool) {
		for _, p := range alive {
			select {
			case <-p.ended:
				t.Fatalf("%v ended", p.cmd.Args)
			default:
			}
		}
		now := f.statuses()
		for id, name := range wanted {
			if line := now[id]; line.Status != record.StatusDone || line.Uncollected > 0 {
				return fmt.Sprintf("%s is %s, %d results wait", name, line.Status, line.Uncollected), false
			}
		}
		return "", true
	})
	now := f.statuses()
	for name := range poisonedRecords {
		if now[ids[name]].Status != view.StatusUnreadable {
			t.Errorf("%s: %q, want unreadable", name, now[ids[name]].Status)
		}
	}
	for id, want := range p.forged {
		if now[id].Status != want {
			t.Errorf("%s of a forged plan: %q, want %s", id, now[id].Status, want)
		}
	}
	for name := range poisonedEntries {
		if n := p.client.XLen(t.Context(), p.keys.Rejected(ids[name])).Val(); n != 1 {
			t.Errorf("%s: %d entries set aside, want 1", name, n)
		}
	}
	shown := map[string]string{}
	for _, args := range [][]string{{"status"}, {"status", string(good)}, {"limits"}, {"report", string(good)}, {"show", "0.0", string(good)}} {
		p := f.onFleet(exitOK, args...)
		shown[strings.Join(args, " ")] = p.stdout.String() + p.stderr.String()
	}
	for _, page := range []string{"/", "/evaluations/" + string(good), "/workers", "/limits"} {
		eventuallySays(t, controller, page, "200 OK")
		shown[page] = get(t, controller, page)
	}
	f.scale(metrics)
	for _, q := range alive {
		q.signal(syscall.SIGTERM)
		if code := q.wait(); code != int(exitOK) {
			t.Errorf("stopped, %v ends with %d, want %d", q.cmd.Args, code, exitOK)
		}
		shown[q.cmd.Args[1]] = q.stdout.String() + q.stderr.String()
	}
	for what, text := range shown {
		if i := strings.IndexAny(text, "\x1b\a"); i >= 0 {
			t.Errorf("%s has an escape sequence: %q", what, text[max(0, i-80):min(len(text), i+80)])
		}
	}
	if found, err := os.ReadDir(filepath.Dir(f.dir)); err != nil || len(found) != 1 {
		t.Errorf("beside the working folder are %v, %v", found, err)
	}
}
