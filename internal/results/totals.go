package results

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

// The columns of totals other than the evaluation: keys, and the sums for them.
const (
	runTotalKey  = "phase, state, class, model, answered_by"
	runTotalSums = "runs, rate_limit_waits, rate_limit_fallbacks, context_fallbacks, waited"

	callTotalKey  = "model, stage, class, bound_by"
	callTotalSums = "calls, from_cache, input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, " +
		"unreported, cost_pico_usd, saved_pico_usd, unpriced, waited_ms"
)

var (
	addRunTotal  = addition("run_totals", "evaluation, "+runTotalKey, runTotalSums)
	addRunMinute = addition("run_minutes", "evaluation, phase, minute", "runs")
	addCallTotal = addition("call_totals", "evaluation, "+callTotalKey, callTotalSums)
)

type runTotal struct {
	phase                           int
	state, class, model, answeredBy string
}

type runMinute struct {
	phase  int
	minute time.Time // in which the runs ended
}

type callTotal struct{ model, stage, class, boundBy string }

// callSums are the values of callTotalSums.
type callSums [12]int64

// totals are a transaction's changes to the sums over runs and calls. They are stored with the
// rows, so that readers do not have to scan millions of them.
type totals struct {
	runs    map[runTotal][5]int64
	minutes map[runMinute]int64
	calls   map[callTotal]callSums
}

func newTotals() *totals {
	return &totals{map[runTotal][5]int64{}, map[runMinute]int64{}, map[callTotal]callSums{}}
}

// run adds (by is 1) or subtracts (by is -1) a row of runs.
func (t *totals) run(r *record.Run, by int64) {
	key := runTotal{r.Phase, r.State, string(r.Class), r.Model, r.AnsweredBy}
	sums := t.runs[key]
	for i, n := range []int{1, r.RateLimitWaits, r.RateLimitFallbacks, r.ContextFallbacks, one(r.RateLimitWaits > 0)} {
		sums[i] += by * int64(n)
	}
	t.runs[key] = sums
	if !r.Ended.IsZero() {
		t.minutes[runMinute{r.Phase, r.Ended.UTC().Truncate(time.Minute)}] += by
	}
}

// call adds (by is 1) or subtracts (by is -1) a row of calls. A reused answer used nothing. A call
// counts as possibly charged if it was answered or says so.
func (t *totals) call(c *record.Call, by int64) {
	key := callTotal{c.Model, c.Stage, string(c.Class), c.BoundBy}
	charged := c.Class == "" || c.MaybeBill
	var cost, saved, waited int64
	if c.Usage.CostUSD != nil {
		cost = picoUSD(*c.Usage.CostUSD)
	}
	if usd, known := c.Saved(); known {
		saved = picoUSD(usd)
	}
	if !c.Cached && !c.Asked.IsZero() && !c.Started.IsZero() {
		waited = c.Started.Truncate(time.Millisecond).Sub(c.Asked.Truncate(time.Millisecond)).Milliseconds()
	}

	var used [5]int64
	if u := c.Usage; u.Reported {
		used = [5]int64{u.Input, u.Output, u.Cached, u.Written, u.Reasoning}
	}
	sums := t.calls[key]
	for i, n := range []int64{
		int64(one(!c.Cached)), int64(one(c.Cached)), used[0], used[1], used[2], used[3], used[4],
		int64(one(charged && !c.Usage.Reported)), cost, saved, int64(one(charged && c.Usage.CostUSD == nil)), waited,
	} {
		sums[i] += by * n
	}
	t.calls[key] = sums
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// picoUSD converts a call's cost to a unit in which sums are exact, in any order: a token of the
// cheapest model costs thousands of it. It clips amounts that do not fit.
func picoUSD(usd float64) int64 {
	const most = 9e6 // fits into an int64
	return int64(math.Round(max(-most, min(usd, most)) * 1e12))
}

// put adds the statements that store the changes.
func (t *totals) put(a *appender) {
	for k, n := range t.runs {
		if n != ([5]int64{}) {
			a.add(addRunTotal, a.evaluation, k.phase, k.state, k.class, k.model, k.answeredBy, n[0], n[1], n[2], n[3], n[4])
		}
	}
	for k, n := range t.minutes {
		if n != 0 {
			a.add(addRunMinute, a.evaluation, k.phase, stamp{k.minute}, n)
		}
	}
	for k, n := range t.calls {
		if n != (callSums{}) {
			a.add(addCallTotal, a.evaluation, k.model, k.stage, k.class, k.boundBy,
				n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11])
		}
	}
}

// NotSent says how many calls of a model were sent without requested fields, because the model
// refuses them.
type NotSent struct {
	Model  string   `json:"model"`
	Fields []string `json:"fields"`
	Calls  int      `json:"calls"`
}

// NotSent lists what calls asked for and their models refuse.
func (r *reader) NotSent(ctx context.Context, id eval.ID) ([]NotSent, error) {
	return collect(rows(ctx, &r.access, func(row scanner, n *NotSent) error {
		var fields string
		if err := row.Scan(&n.Model, &fields, &n.Calls); err != nil {
			return err
		}
		return json.Unmarshal([]byte(fields), &n.Fields)
	}, `
SELECT model, dropped, count(*) FROM calls WHERE evaluation = ? AND dropped IS NOT NULL
GROUP BY model, dropped ORDER BY model, dropped`, string(id)))
}

// Named returns what providers called the models that answered, by the model asked ("provider:model"), each list sorted.
func (r *reader) Named(ctx context.Context, id eval.ID) (map[string][]string, error) {
	found, err := collect(rows(ctx, &r.access, func(row scanner, n *namedModel) error {
		var metadata string
		if err := row.Scan(&metadata); err != nil {
			return err
		}
		return json.Unmarshal([]byte(metadata), n)
	}, "SELECT metadata FROM events WHERE evaluation = ? AND run = '' AND name = '"+eventNamed+"'", string(id)))
	if err != nil {
		return nil, err
	}
	named := map[string][]string{}
	for _, n := range found {
		named[n.Model] = append(named[n.Model], n.Named)
	}
	for _, names := range named {
		slices.Sort(names)
	}
	return named, nil
}

// CallTotals sums all calls by model and stage.
func (r *reader) CallTotals(ctx context.Context, id eval.ID) ([]CallTotal, error) {
	type group struct {
		model, stage, class string
		used                Usage
	}
	groups := rows(ctx, &r.access, func(row scanner, g *group) error {
		return row.Scan(append([]any{&g.model, &g.stage, &g.class}, g.used.fields()...)...)
	}, `
SELECT model, stage, class, sum(calls), sum(from_cache), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
  sum(cache_write_tokens), sum(reasoning_tokens), sum(unreported), CAST(sum(cost_pico_usd) AS DOUBLE PRECISION) / 1e12,
  CAST(sum(saved_pico_usd) AS DOUBLE PRECISION) / 1e12, sum(unpriced)
FROM call_totals WHERE evaluation = ? AND calls + from_cache > 0
GROUP BY model, stage, class ORDER BY model, stage, class`, string(id))
	var sums []CallTotal
	for g, err := range groups {
		if err != nil {
			return nil, err
		}
		if n := len(sums); n == 0 || sums[n-1].Model != g.model || sums[n-1].Stage != g.stage {
			sums = append(sums, CallTotal{Model: g.model, Stage: g.stage, Errors: map[string]int{}})
		}
		total := &sums[len(sums)-1]
		total.Usage = total.Plus(g.used)
		if g.class != "" {
			total.Errors[g.class] += g.used.Calls
		}
	}

	return sums, nil
}

// Waits sums how long calls waited, by limit.
func (r *reader) Waits(ctx context.Context, id eval.ID) ([]Wait, error) {
	return collect(rows(ctx, &r.access, func(row scanner, w *Wait) error {
		var milliseconds int64
		err := row.Scan(&w.Limit, &w.Calls, &milliseconds)
		w.Total = time.Duration(milliseconds) * time.Millisecond
		return err
	}, `
SELECT bound_by, sum(calls), sum(waited_ms) FROM call_totals WHERE evaluation = ? AND calls > 0
GROUP BY bound_by ORDER BY sum(calls) DESC, bound_by`, string(id)))
}

// Pace counts the runs that ended at or after since. It sums whole minutes, and counts the runs of
// the minute of since one by one.
func (r *reader) Pace(ctx context.Context, id eval.ID, since time.Time) ([]Pace, error) {
	since = since.UTC()
	whole := since.Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
	from := since.Format(table.TimeLayout)
	paces, err := collect(rows(ctx, &r.access, func(row scanner, p *Pace) error {
		var lately stamp
		err := row.Scan(&p.Phase, &p.Runs, &lately)
		p.Last = lately.Time
		return err
	}, `
SELECT phase, sum(runs), max(ended) FROM (
  SELECT phase, runs, minute AS ended FROM run_minutes WHERE evaluation = ? AND minute >= ? AND runs > 0
  UNION ALL
  SELECT phase, 1, ended_at FROM runs`+r.using("runs_by_end")+` WHERE evaluation = ? AND ended_at >= ? AND ended_at < ?
) AS counted GROUP BY phase ORDER BY phase`,
		string(id), whole.Format(table.TimeLayout), string(id), from, whole.Format(table.TimeLayout)))

	for i := range paces {
		p := &paces[i]
		var first, last stamp
		err := r.one(ctx, `
SELECT (SELECT min(started_at) FROM runs`+r.using("runs_by_start")+` WHERE evaluation = ? AND phase = ? AND started_at IS NOT NULL),
  (SELECT max(ended_at) FROM runs`+r.using("runs_by_end")+` WHERE evaluation = ? AND ended_at >= ? AND ended_at < ? AND phase = ?)`,
			string(id), p.Phase, string(id), stamp{p.Last}, stamp{p.Last.Add(time.Minute)}, p.Phase).Scan(&first, &last)
		if err != nil {
			return nil, r.unread(err)
		}
		p.First, p.Last = later(since, first.Time), last.Time
	}

	return paces, err
}
