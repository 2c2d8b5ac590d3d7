package results

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
	"github.com/evalfleet/evalfleet/providers"
)

// What is kept as sums is what the rows add up to, after every batch of two writers:
// with entries that come again, in one batch, too, runs that give way or do not, and
// calls stored anew.
func testTotals(t *testing.T, url string) {
	first, e := openStore(t, url)
	second, _ := openStore(t, url)
	seed := rand.Uint64()
	made := &maker{rand.New(rand.NewPCG(seed, 0)), nil}
	for n := range 25 {
		var both sync.WaitGroup
		for _, db := range []Store{first, second} {
			batch := made.batch()
			both.Go(func() {
				if err := db.Append(context.Background(), e.ID, batch); err != nil {
					t.Errorf("append: %v", err)
				}
			})
		}
		both.Wait()
		since := []time.Time{{}, epoch, epoch.Truncate(time.Minute), epoch.Add(made.upTo(7 * time.Minute))}
		want, got := addedUp(t, first.(*store), e.ID, since), kept(t, second, e.ID, since)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("batch %d of seed %d (-added up +kept):\n%s", n, seed, diff)
		}
	}
}

// maker makes entries at random.
type maker struct {
	*rand.Rand
	made []record.Entry
}

func (m *maker) upTo(d time.Duration) time.Duration {
	return time.Duration(m.Int64N(int64(d))).Truncate(time.Microsecond)
}

func (m *maker) any(words ...string) string { return words[m.IntN(len(words))] }

func (m *maker) batch() []record.Entry {
	var batch []record.Entry
	for range 1 + m.IntN(12) {
		if len(m.made) > 0 && m.IntN(3) == 0 {
			batch = append(batch, m.made[m.IntN(len(m.made))]) // redelivered
			continue
		}
		entry := record.Entry{Run: m.run()}
		for range m.IntN(3) {
			entry.Calls = append(entry.Calls, m.call(entry.Run))
		}
		if m.IntN(8) == 0 {
			entry.Run = nil // discarded
		}
		m.made, batch = append(m.made, entry), append(batch, entry)
	}
	return batch
}

func (m *maker) run() *record.Run {
	r := verdict(m.IntN(12)).Run
	r.Phase, r.Generation = m.IntN(2), len(m.made)/20+m.IntN(3) // rows give way to the end
	r.Model = m.any("openai:a", "odd␛:\x00\xff")
	r.AnsweredBy = m.any(r.Model, "google:b", "")
	r.Started = epoch.Add(m.upTo(5 * time.Minute))
	r.Ended = r.Started.Add(m.upTo(2 * time.Minute))
	r.RateLimitWaits, r.RateLimitFallbacks, r.ContextFallbacks = m.IntN(3), m.IntN(2), m.IntN(2)
	switch r.State = m.any("succeeded", "failed", "failed", "cancelled"); r.State {
	case "failed":
		r.Class = providers.Class(m.any("timeout", "malformed"))
	case "cancelled":
		r.Started = time.Time{}
		if m.IntN(2) == 0 {
			r.Ended = time.Time{}
		}
	}
	return r
}

func (m *maker) call(r *record.Run) record.Call {
	return call(r.Phase, r.Index, r.Generation, m.IntN(4), func(c *record.Call) {
		c.Model, c.Stage, c.Class = r.Model, m.any("verdict", "repair"), providers.Class(m.any("", "timeout"))
		c.BoundBy, c.MaybeBill, c.Cached = m.any("", "fleet/requests/1m0s"), m.IntN(2) == 0, m.IntN(4) == 0
		c.Asked = c.Asked.Add(m.upTo(time.Second))
		c.Started = c.Asked.Add(m.upTo(time.Minute))
		if c.Cached {
			c.Started = time.Time{}
		}
		if cost := m.Float64() / 10; m.IntN(2) == 0 {
			read, write := 0.1, 1.25
			c.Usage.CostUSD = &cost
			c.Price = &providers.Price{Rates: providers.Rates{Input: 1, CachedInput: &read, CacheWrite: &write}}
		}
		if u := &c.Usage; m.IntN(2) == 0 {
			u.Reported, u.Input, u.Output, u.Cached, u.Reasoning = true, m.Int64N(900), m.Int64N(90), m.Int64N(9), m.Int64N(90)
			u.Written = m.Int64N(9)
		}
	})
}

// sums are in words what a results store says.
type sums map[string]string

func (s sums) add(key string, value any) { s[key] = fmt.Sprint(value) }

func kept(t *testing.T, db Store, id eval.ID, since []time.Time) sums {
	t.Helper()
	ctx, all := t.Context(), sums{}
	counts, err := db.Counts(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		all.add(fmt.Sprint("runs of phase ", c.Phase), []int{c.Succeeded, c.Failed, c.Cancelled})
		for class, n := range c.Classes {
			all.add(fmt.Sprint("failed in phase ", c.Phase, ": ", class), n)
		}
	}
	statistics, err := db.Statistics(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	all.add("statistics", statistics)
	totals, err := db.CallTotals(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range totals {
		key := fmt.Sprintf("%q %s", c.Model, c.Stage)
		cost, saved := c.CostUSD, c.SavedUSD
		c.CostUSD, c.SavedUSD = 0, 0
		all.add(key, c.Usage)
		all.add(key+" costs", fmt.Sprintf("%.12f", cost))
		all.add(key+" saves", fmt.Sprintf("%.12f", saved))
		for _, class := range slices.Sorted(maps.Keys(c.Errors)) {
			all.add(key+" "+class, c.Errors[class])
		}
	}
	waits, err := db.Waits(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range waits {
		all.add("waited for "+w.Limit, []any{w.Calls, w.Total})
	}
	for _, from := range since {
		paces, err := db.Pace(ctx, id, from)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paces {
			all.add(fmt.Sprint("since ", from, " in phase ", p.Phase), []any{p.Runs, p.First, p.Last})
		}
	}
	return all
}

// addedUp goes through all rows.
func addedUp(t *testing.T, s *store, id eval.ID, since []time.Time) sums {
	t.Helper()
	all := sums{}
	each := func(query string, args []any, scan func(scanner) error) {
		found := rows(t.Context(), &s.access, func(row scanner, _ *struct{}) error { return scan(row) }, query, append([]any{string(id)}, args...)...)
		mustCollect(t, found)
	}
	each(`SELECT p.phase, count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'failed'), count(*) FILTER (WHERE state = 'cancelled')
FROM phases p LEFT JOIN runs r ON r.evaluation = p.evaluation AND r.phase = p.phase WHERE p.evaluation = ? GROUP BY p.phase`, nil, func(row scanner) error {
		var phase int
		n := make([]int, 3)
		err := row.Scan(&phase, &n[0], &n[1], &n[2])
		all.add(fmt.Sprint("runs of phase ", phase), n)
		return err
	})
	each("SELECT phase, class, count(*) FROM runs WHERE evaluation = ? AND state = 'failed' GROUP BY phase, class", nil, func(row scanner) error {
		var phase, n int
		var class string
		err := row.Scan(&phase, &class, &n)
		all.add(fmt.Sprint("failed in phase ", phase, ": ", class), n)
		return err
	})
	each(`SELECT count(*), count(*) FILTER (WHERE state = 'succeeded' AND answered_by = model),
  count(*) FILTER (WHERE state = 'succeeded' AND answered_by <> model), coalesce(sum(rate_limit_waits), 0),
  coalesce(sum(rate_limit_fallbacks), 0), coalesce(sum(context_fallbacks), 0), count(*) FILTER (WHERE rate_limit_waits > 0)
FROM runs WHERE evaluation = ? AND (state = 'failed' OR state = 'succeeded' AND answered_by <> '')`, nil, func(row scanner) error {
		var s Statistics
		err := row.Scan(&s.Total, &s.Primary, &s.Fallback, &s.RateLimitWaits, &s.RateLimitFallbacks, &s.ContextFallbacks, &s.Waited)
		all.add("statistics", s)
		return err
	})
	each("SELECT c.model, c.stage, "+usageColumns+", sum(CAST(round(coalesce(cost_usd, 0) * 1e12) AS BIGINT)), sum(CAST(round(coalesce(saved_usd, 0) * 1e12) AS BIGINT)) FROM calls c WHERE c.evaluation = ? GROUP BY c.model, c.stage", nil, func(row scanner) error {
		var model, stage string
		var u Usage
		var pico, saved int64
		err := row.Scan(append(append([]any{&model, &stage}, u.fields()...), &pico, &saved)...)
		u.CostUSD, u.SavedUSD = 0, 0
		all.add(fmt.Sprintf("%q %s", model, stage), u)
		all.add(fmt.Sprintf("%q %s costs", model, stage), fmt.Sprintf("%.12f", float64(pico)/1e12))
		all.add(fmt.Sprintf("%q %s saves", model, stage), fmt.Sprintf("%.12f", float64(saved)/1e12))
		return err
	})
	each(`SELECT model, stage, class, count(*) FILTER (WHERE NOT cached) FROM calls
WHERE evaluation = ? AND class <> '' GROUP BY model, stage, class`, nil, func(row scanner) error {
		var model, stage, class string
		var n int
		err := row.Scan(&model, &stage, &class, &n)
		all.add(fmt.Sprintf("%q %s %s", model, stage, class), n)
		return err
	})
	each("SELECT bound_by, count(*), coalesce(sum("+s.seconds("asked_at", "started_at")+"), 0.0) FROM calls WHERE evaluation = ? AND NOT cached GROUP BY bound_by", nil, func(row scanner) error {
		var limit string
		var n int
		var seconds float64
		err := row.Scan(&limit, &n, &seconds)
		all.add("waited for "+limit, []any{n, wholeMilliseconds(seconds)})
		return err
	})
	for _, from := range since {
		each(`SELECT phase, count(*), (SELECT min(started_at) FROM runs b WHERE b.evaluation = r.evaluation AND b.phase = r.phase), max(ended_at)
FROM runs r WHERE evaluation = ? AND ended_at >= ? GROUP BY evaluation, phase`, []any{from.Format(table.TimeLayout)}, func(row scanner) error {
			var phase, n int
			var first, last stamp
			err := row.Scan(&phase, &n, &first, &last)
			all.add(fmt.Sprint("since ", from, " in phase ", phase), []any{n, later(from, first.Time), last.Time})
			return err
		})
	}
	return all
}
