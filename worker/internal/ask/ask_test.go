package ask

import (
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/evaluations"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// TestSearchesAreBoundedUnderABudget: endpoints are told how many searches a call may
// make only where a budget has reserved as many.
func TestSearchesAreBoundedUnderABudget(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]ratelimit.Limit{nil, {ratelimit.Budget("e", 1000)}} {
		worker := &run.Session{}
		r := run.New(t.Context(), worker, "q")
		r.Task = record.Task{Kind: eval.KindPairwise}
		r.Evaluation = &evaluations.Cached{
			Asked: &eval.Evaluation{Grounding: eval.Required}, Record: record.Evaluation{Settings: record.Settings{Limits: limits}},
		}
		a := New(worker, nil, r, call.NewCaller(call.Config{Worker: worker}).Of(r, nil), nil)
		request := a.request(eval.Judge{Provider: "p", Model: "m"}, &question{})
		if _, told := request.ToldSearches(); !request.Search || told != (limits != nil) {
			t.Errorf("under limits %v: search %t, a bound is told: %t", limits, request.Search, told)
		}
	}
}
