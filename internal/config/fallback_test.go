package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

func TestFallback(t *testing.T) {
	t.Parallel()
	const models = "models: [gemini:gemini-2.5-flash-lite, simulator:careless]"
	balanced := func(change func(*record.Fallback)) *record.Fallback {
		f := record.DefaultFallback
		f.Models = []string{"google:gemini-2.5-flash-lite", "simulator:careless"}
		change(&f)
		return &f
	}
	for name, c := range map[string]struct {
		written string
		want    *record.Fallback
	}{
		"none":     {"", nil},
		"defaults": {"fallback: {" + models + "}", balanced(func(*record.Fallback) {})},
		"balanced": {"fallback: {preset: balanced, " + models + "}", balanced(func(*record.Fallback) {})},
		"conservative": {"fallback: {preset: conservative, " + models + "}", balanced(func(f *record.Fallback) {
			f.MaxWait, f.MaxRetries, f.Base = 600*time.Second, 5, 1.5
		})},
		"aggressive, but for what is set before it": {"fallback: {max_retries: 4, on_error: after_retries, preset: aggressive, " + models + "}", balanced(func(f *record.Fallback) {
			f.MaxWait, f.MaxRetries, f.Base, f.AfterRetries = 30*time.Second, 4, 3, true
		})},
		"all": {"fallback: {" + models + ", auto_wait: false, max_wait_seconds: none, max_retries: 0, backoff_base: 1, after_429_seconds: 0.5, on_error: immediate}", balanced(func(f *record.Fallback) {
			f.AutoWait, f.MaxWait, f.MaxRetries, f.Base, f.After429 = false, 0, 0, 1, time.Second/2
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, with(two, "eval.yaml", minimal+c.written+"\n"), Options{})
			if diff := cmp.Diff(c.want, s.Settings.Fallback); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(s.Warnings) > 0 {
				t.Errorf("warned: %v", s.Warnings)
			}
		})
	}
}

// Limits of a provider that is only fallen back to are no mistake, and how runs
// fall back is no part of what is asked.
func TestFallbackIsHowAndNotWhat(t *testing.T) {
	t.Parallel()
	const limited = "concurrency: {per_provider: {google: {max_concurrency: 2}, simulator: {max_concurrency: 3}}}\n"
	s := load(t, with(two, "eval.yaml", minimal+limited+"fallback: {models: [google:gemini-2.5-flash]}\n"), Options{})
	if len(s.Warnings) > 0 || s.Settings.ConcurrencySource != "providers" {
		t.Errorf("warnings %v, bound by %s; want none, and the providers' bounds", s.Warnings, s.Settings.ConcurrencySource)
	}
	plain := load(t, with(two, "eval.yaml", minimal), Options{})
	if s.Evaluation.ID() != plain.Evaluation.ID() {
		t.Errorf("with a fallback it is %s, without %s: want the same evaluation", s.Evaluation.ID(), plain.Evaluation.ID())
	}
}
