package results

import (
	"context"
	"math"

	"github.com/evalfleet/evalfleet/eval"
)

// Outlay is what the calls of one judge, or of one run by its name, used and how long they took.
type Outlay struct {
	Of   string // judge, or name of a run
	Used Usage
	Took Took
}

// Took sums how long answered calls took, in seconds from request to answer.
type Took struct {
	Calls        int
	Sum, Squares float64
}

// Plus adds up two sums.
func (t Took) Plus(o Took) Took { return Took{t.Calls + o.Calls, t.Sum + o.Sum, t.Squares + o.Squares} }

// Mean returns the mean, and its standard error; NaN if too few calls were answered.
func (t Took) Mean() (mean, se float64) {
	n := float64(t.Calls)
	if t.Calls == 0 {
		return math.NaN(), math.NaN()
	}
	mean = t.Sum / n
	if t.Calls == 1 {
		return mean, math.NaN()
	}
	return mean, math.Sqrt(max(0, t.Squares/n-mean*mean) / (n - 1))
}

// OutlaysByJudge sums the calls of ended runs by judge.
func (r *reader) OutlaysByJudge(ctx context.Context, id eval.ID) ([]Outlay, error) {
	return r.outlays(ctx, id, "r.judge")
}

// OutlaysByName sums the calls of ended runs by the run's name.
func (r *reader) OutlaysByName(ctx context.Context, id eval.ID) ([]Outlay, error) {
	return r.outlays(ctx, id, "r.name")
}

func (r *reader) outlays(ctx context.Context, id eval.ID, by string) ([]Outlay, error) {
	took := r.seconds("c.started_at", "c.ended_at")
	const answered = `FILTER (WHERE c.class = '' AND NOT c.cached AND c.started_at IS NOT NULL AND c.ended_at IS NOT NULL)`
	return collect(rows(ctx, &r.access, func(row scanner, o *Outlay) error {
		return row.Scan(append(append([]any{&o.Of}, o.Used.fields()...), &o.Took.Calls, &o.Took.Sum, &o.Took.Squares)...)
	}, `SELECT `+by+`, `+usageColumns+`,
  count(*) `+answered+`, coalesce(sum(`+took+`) `+answered+`, 0.0), coalesce(sum((`+took+`) * (`+took+`)) `+answered+`, 0.0)
FROM calls c JOIN runs r ON r.evaluation = c.evaluation AND r.phase = c.phase AND r.index_ = c.index_
WHERE c.evaluation = ? GROUP BY `+by+` ORDER BY `+by, string(id)))
}
