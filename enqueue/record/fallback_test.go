package record

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// sequence is every wait that is made while a limit keeps asking for b, in seconds,
// and the one that was not.
func sequence(b float64, next func(made int, b time.Duration) (time.Duration, bool)) (waits []float64, last float64) {
	for {
		wait, ok := next(len(waits), time.Duration(b*float64(time.Second)))
		if !ok {
			return waits, wait.Seconds()
		}
		waits = append(waits, wait.Seconds())
	}
}

func TestFallbackWaits(t *testing.T) {
	t.Parallel()
	with := func(change func(*Fallback)) Fallback {
		f := DefaultFallback
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		f       Fallback
		b       float64 // s, at a limit
		waits   []float64
		tooLong float64
		hint    float64 // s, after a 429
		refused []float64
	}{
		"half a minute":                        {DefaultFallback, 30, []float64{30, 30, 60, 120}, 240, 0, []float64{60, 120, 240}},
		"each wait is compared, not their sum": {DefaultFallback, 120, []float64{120, 120, 240}, 480, 90, []float64{90, 120, 240}},
		"exactly the maximum":                  {DefaultFallback, 75, []float64{75, 75, 150, 300}, 600, 75, []float64{75, 120, 240}},
		"at once too long":                     {DefaultFallback, 301, nil, 301, 301, nil},
		"gentle":                               {with(func(f *Fallback) { f.MaxWait, f.MaxRetries, f.Base = 600*time.Second, 5, 1.5 }), 100, []float64{100, 100, 150, 225, 337.5, 506.25}, 759.375, 10, []float64{60, 90, 135, 202.5, 303.75}},
		"no retries":                           {with(func(f *Fallback) { f.MaxRetries = 0 }), 5, []float64{5}, 5, 0, nil},
		"no waiting":                           {with(func(f *Fallback) { f.AutoWait = false }), 5, nil, 5, 0, nil},
		"any wait":                             {with(func(f *Fallback) { f.MaxWait = 0 }), 1e6, []float64{1e6, 1e6, 2e6, 4e6}, 8e6, 1e6, []float64{1e6, 1e6, 1e6}},
	} {
		waits, tooLong := sequence(c.b, c.f.LimitWait)
		refused, _ := sequence(c.hint, c.f.RefusedWait)
		if diff := cmp.Diff(c.waits, waits); diff != "" || tooLong != c.tooLong {
			t.Errorf("%s: at a limit (-want +got):\n%swant %v to be too long, got %v", name, diff, c.tooLong, tooLong)
		}
		if diff := cmp.Diff(c.refused, refused); diff != "" {
			t.Errorf("%s: after a refusal (-want +got):\n%s", name, diff)
		}
	}
	if got, ok := DefaultFallback.LimitWait(3, math.MaxInt64/2); ok || got != math.MaxInt64 {
		t.Errorf("got %s, %t, want the longest wait there is, refused", got, ok)
	}
}

func TestFallbackTargets(t *testing.T) {
	t.Parallel()
	f := &Fallback{Models: []string{"a:m", "b:n", "b:n"}}
	judge := eval.Judge{Name: "strict", Provider: "a", Model: "m", Overrides: map[string]any{"temperature": 0.5, "seed": 7.0}}
	want := []eval.Judge{judge, {Name: "strict", Provider: "b", Model: "n", Overrides: map[string]any{"temperature": 0.5}}}
	if diff := cmp.Diff(want, f.Targets(judge)); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	own := &Fallback{
		Models:    []string{"a:m", "b:n", "a:m"},
		Overrides: []map[string]any{{"seed": 8.0}, {"tier": "flex"}, {"seed": 7.0}},
	}
	want = []eval.Judge{
		judge,
		{Name: "strict", Provider: "a", Model: "m", Overrides: map[string]any{"temperature": 0.5, "seed": 8.0}},
		{Name: "strict", Provider: "b", Model: "n", Overrides: map[string]any{"temperature": 0.5, "tier": "flex"}},
	}
	if diff := cmp.Diff(want, own.Targets(judge)); diff != "" {
		t.Errorf("targets with overrides of their own (-want +got):\n%s", diff)
	}
	if got := (*Fallback)(nil).Targets(judge); len(got) != 1 || len((*Fallback)(nil).Judges()) != 0 {
		t.Errorf("without a fallback: %v", got)
	}
	if got := f.Judges(); len(got) != 2 || got[1].Target() != "b:n" {
		t.Errorf("judges: %v", got)
	}
}
