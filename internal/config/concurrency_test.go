package config

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func fleet(t testing.TB, text string) *Fleet {
	t.Helper()
	f, err := LoadFleet(filepath.Join(folder(t, map[string]string{"fleet.yaml": text}), "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// own is the evaluation's own bound on calls in flight, 0 when it has none.
func own(s *Submission) int64 {
	for _, l := range s.Settings.Limits {
		if l.Evaluation != "" {
			return l.Max
		}
	}
	return 0
}

func TestWhereTheConcurrencyComesFrom(t *testing.T) {
	t.Parallel()
	forty := 40
	for _, c := range []struct {
		name    string
		file    string // under concurrency
		fleet   string
		options Options
		max     int64
		source  string
	}{
		{"nothing", "{}", "", Options{}, 5, "default"},
		{"file", "{max_concurrency: 400}", "", Options{}, 400, "file"},
		{"one at a time", "{enabled: false, max_concurrency: 4}", "", Options{}, 1, "file"},
		{"environment over file", "{max_concurrency: 400}", "", Options{Env: env("MAX_CONCURRENT_LLM_CALLS", " 50 ")}, 50, "environment"},
		{"empty variable", "{}", "", Options{Env: env("MAX_CONCURRENT_LLM_CALLS", "")}, 5, "default"},
		{"flag over environment", "{enabled: false}", "", Options{Env: env("MAX_CONCURRENT_LLM_CALLS", "3"), MaxConcurrency: &forty}, 40, "flag"},
		{"fleet alone", "{}", "concurrency: {max_concurrency: 16}", Options{}, 0, "fleet"},
		{"fleet and file", "{max_concurrency: 8}", "concurrency: {max_concurrency: 16}", Options{}, 8, "file"},
		{"every provider capped", "{per_provider: {simulator: {max_concurrency: 9}}}", "", Options{}, 0, "providers"},
		{"capped by the fleet", "{}", "concurrency: {per_provider: {simulator: {max_concurrency: 9}}}", Options{}, 0, "providers"},
		{"one of two capped", "{per_provider: {openrouter: {max_concurrency: 9}}}", "", Options{}, 9, record.ConcurrencySum},
		{"one of two capped twice", "{per_provider: {openrouter: {max_concurrency: 9}}}", "concurrency: {per_provider: {openrouter: {max_concurrency: 7}}}", Options{}, 7, record.ConcurrencySum},
		{"one of two capped low", "{per_provider: {openrouter: {max_concurrency: 2}}}", "", Options{}, 5, "default"},
		{"another provider capped", "{per_provider: {openrouter: {max_concurrency: 9}}}", "", Options{}, 5, "default"},
		{"only a model capped", "{per_provider: {simulator: {models: {careful: {max_concurrency: 9}}}}}", "", Options{}, 5, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.fleet != "" {
				c.options.Fleet = fleet(t, c.fleet)
			}
			asked := minimal
			if strings.HasPrefix(c.name, "one of two") {
				asked = strings.Replace(minimal, `judges: [`, `judges: ["openrouter:m", `, 1)
			}
			s := load(t, with(two, "eval.yaml", asked+"concurrency: "+c.file+"\n"), c.options)
			if got := own(s); got != c.max || s.Settings.ConcurrencySource != c.source {
				t.Errorf("got %d from %q, want %d from %q", got, s.Settings.ConcurrencySource, c.max, c.source)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := load(t, with(two, "eval.yaml", minimal+"retry: {max_attempts: 9, jitter: 1s}\nconcurrency: {timeout_seconds: 7}\n"), Options{
		Fleet: fleet(t, "retry: {max_attempts: 8, max_delay: 50s}\nconcurrency: {timeout_seconds: 6, per_provider: {simulator: {timeout_seconds: 5}}}\n"),
		Env:   env("RETRY_MAX_ATTEMPTS", "4", "RETRY_INITIAL_DELAY", "0.25", "LLM_CALL_TIMEOUT", "90"),
	})
	retry := s.Settings.Retry
	if retry.MaxAttempts != 4 || retry.InitialDelay != 250*time.Millisecond || retry.MaxDelay != 50*time.Second || retry.Jitter != time.Second {
		t.Errorf("retry: got %+v, want 4 attempts (environment), 250ms (environment), 50s (fleet), jitter 1s (file)", retry)
	}
	if a, b := s.Settings.Timeout(eval.Judge{Provider: "simulator", Model: "careful"}), s.Settings.Timeout(eval.Judge{Provider: "other", Model: "m"}); a != 5*time.Second || b != 90*time.Second {
		t.Errorf("timeouts: got %v for simulator and %v for others, want 5s and 90s", a, b)
	}
	for _, c := range []struct{ name, value, want string }{
		{"MAX_CONCURRENT_LLM_CALLS", "0", "MAX_CONCURRENT_LLM_CALLS must be >= 1, got 0"},
		{"MAX_CONCURRENT_LLM_CALLS", "-3", "MAX_CONCURRENT_LLM_CALLS must be >= 1, got -3"},
		{"MAX_CONCURRENT_LLM_CALLS", "51", "MAX_CONCURRENT_LLM_CALLS must be <= 50, got 51; for more, use max_concurrency in the evaluation file or --max-concurrency"},
		{"MAX_CONCURRENT_LLM_CALLS", "five", `MAX_CONCURRENT_LLM_CALLS: got "five"; want a whole number from 1 to 50`},
		{"RETRY_MAX_ATTEMPTS", "0", `RETRY_MAX_ATTEMPTS: got "0"; want a whole number of at least 1`},
		{"RETRY_INITIAL_DELAY", "1s", `RETRY_INITIAL_DELAY: got "1s"; want a number of seconds, for example 1.5`},
		{"RETRY_MAX_DELAY", "-1", `RETRY_MAX_DELAY: got "-1"; want a number of seconds, for example 1.5`},
		{"LLM_CALL_TIMEOUT", "0", `LLM_CALL_TIMEOUT: got "0"; want a number of seconds above 0`},
		{"LLM_CALL_TIMEOUT", "NaN", `LLM_CALL_TIMEOUT: got "NaN"; want a number of seconds above 0`},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Parallel()
			hundred := 100 // a stronger flag does not excuse the variable
			_, got := problemsOf(t, with(two, "eval.yaml", minimal), Options{Env: env(c.name, c.value), MaxConcurrency: &hundred})
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	_, got := problemsOf(t, with(two, "eval.yaml", minimal), Options{JSON: "maybe"})
	if want := `--json-mode: got "maybe"; want auto, true or false`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	none := 0
	_, got = problemsOf(t, with(two, "eval.yaml", minimal), Options{MaxConcurrency: &none})
	if want := "--max-concurrency: 0 calls in flight; want a whole number of at least 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Limits of --config and of the file hold together; the tighter of one id stays,
// and what can never bind is a warning.
func TestLimitsAreCombined(t *testing.T) {
	t.Parallel()
	account := "concurrency:\n  max_concurrency: 16\n  per_provider:\n    simulator: {max_concurrency: 9, requests_per_minute: 600}\n" +
		"    openai: {max_concurrency: 3, requests_per_minute: 500}\n" // is not called, so its limits are not the evaluation's
	for _, c := range []struct {
		name     string
		file     string
		limits   map[string]int64
		warnings []string
	}{
		{"tighter in the file", "{per_provider: {simulator: {max_concurrency: 4}}, max_concurrency: 3}",
			map[string]int64{"fleet/concurrency": 16, "provider/simulator/concurrency": 4, "provider/simulator/requests/1m0s": 600, "own": 3}, nil},
		{"looser in the file", "{per_provider: {simulator: {max_concurrency: 12, requests_per_minute: 700}}, max_concurrency: 20}",
			map[string]int64{"fleet/concurrency": 16, "provider/simulator/concurrency": 9, "provider/simulator/requests/1m0s": 600, "own": 20},
			[]string{
				"eval.yaml:4:59: concurrency.per_provider.simulator.max_concurrency: never reached: provider simulator: 9 in flight (fleet.yaml:4) is always reached first; remove it, or make it tighter",
				"eval.yaml:4:84: concurrency.per_provider.simulator.requests_per_minute: never reached: provider simulator: 600 requests/min (fleet.yaml:4) is always reached first; remove it, or make it tighter",
				"eval.yaml:4:108: concurrency.max_concurrency: never reached: fleet: 16 in flight (fleet.yaml:2) is always reached first; remove it, or make it tighter",
			}},
		{"the same in both", "{per_provider: {simulator: {max_concurrency: 9}}, max_concurrency: 2}",
			map[string]int64{"fleet/concurrency": 16, "provider/simulator/concurrency": 9, "provider/simulator/requests/1m0s": 600, "own": 2}, nil},
		{"model above its provider", "{per_provider: {simulator: {models: {careful: {max_concurrency: 10}}}}, max_concurrency: 2}",
			map[string]int64{"fleet/concurrency": 16, "provider/simulator/concurrency": 9, "provider/simulator/requests/1m0s": 600,
				"provider/simulator/model/careful/concurrency": 10, "own": 2},
			[]string{"eval.yaml:4:78: concurrency.per_provider.simulator.models.careful.max_concurrency: never reached: provider simulator: 9 in flight (fleet.yaml:4) is always reached first; remove it, or make it tighter"}},
		{"unused names", "{per_provider: {openrouter: {max_concurrency: 1}, simulator: {models: {crareful: {max_concurrency: 1}}}}, groups: {g: {requests_per_minute: 5}}, max_concurrency: 2}",
			map[string]int64{"fleet/concurrency": 16, "provider/simulator/concurrency": 9, "provider/simulator/requests/1m0s": 600, "own": 2},
			[]string{
				"eval.yaml:4:30: concurrency.per_provider.openrouter: provider openrouter gets no calls; remove it",
				"eval.yaml:4:85: concurrency.per_provider.simulator.models.crareful: model simulator:crareful gets no calls; did you mean careful?",
				"eval.yaml:4:129: concurrency.groups.g: no run of this evaluation belongs to group g; remove it",
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, with(two, "eval.yaml", minimal+"concurrency: "+c.file+"\n", "fleet.yaml", account))
			f, err := LoadFleet(filepath.Join(dir, "fleet.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{Fleet: f})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for _, l := range s.Settings.Limits {
				id := l.ID()
				if l.Evaluation != "" {
					id = "own"
				}
				got[id] = l.Max
			}
			if diff := gocmp.Diff(c.limits, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			warnings := strings.ReplaceAll(Problems(s.Warnings).Error(), dir+string(filepath.Separator), "")
			if want := strings.Join(c.warnings, "\n"); warnings != want {
				t.Errorf("warnings: got\n%s\nwant\n%s", warnings, want)
			}
		})
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	sliding := func(d time.Duration) ratelimit.Window { return ratelimit.Window{Shape: ratelimit.Sliding, Length: d} }
	for _, c := range []struct {
		text string
		want ratelimit.Limit
	}{
		{"rate_limit: {qps: 8, burst: 16}", ratelimit.Limit{Max: 8, Period: time.Second, Burst: 16, Jitter: ratelimit.Measured}},
		{"rate_limit: {qps: 0.2}", ratelimit.Limit{Max: 1, Period: 5 * time.Second}},
		{"rate_limit: {qps: 2.5}", ratelimit.Limit{Max: 1, Period: 400 * time.Millisecond}},
		{"rate_limit: {qps: 1.5}", ratelimit.Limit{Max: 1, Period: 666666667 * time.Nanosecond}},
		{"requests_per_minute: 500", ratelimit.Limit{Max: 500, Period: time.Minute, Window: sliding(time.Minute), Jitter: ratelimit.Measured}},
		{"{requests_per_minute: 500, window: sliding:10s, jitter: 0s}", ratelimit.Limit{Max: 500, Period: time.Minute, Window: sliding(10 * time.Second)}},
		{"{requests_per_minute: 500, window: sliding}", ratelimit.Limit{Max: 500, Period: time.Minute, Window: sliding(time.Minute), Jitter: ratelimit.Measured}},
		{"{requests_per_minute: 500, window: fixed:60s, jitter: 1s}", ratelimit.Limit{Max: 500, Period: time.Minute,
			Window: ratelimit.Window{Shape: ratelimit.Fixed, Length: time.Minute}, Jitter: time.Second}},
		{"{tokens_per_minute: 200000, window: fixed:60s, jitter: 1s}", ratelimit.Limit{Kind: ratelimit.Tokens, Max: 200000, Period: time.Minute,
			Window: ratelimit.Window{Shape: ratelimit.Fixed, Length: time.Minute}, Jitter: time.Second}},
		{"input_tokens_per_minute: 3", ratelimit.Limit{Kind: ratelimit.InputTokens, Max: 3, Period: time.Minute, Window: sliding(time.Minute), Jitter: 500 * time.Millisecond}},
		{"enqueued_tokens: 2_000_000", ratelimit.Limit{Kind: ratelimit.EnqueuedTokens, Max: 2_000_000}},
		{"enqueued_tokens: 15000000000", ratelimit.Limit{Kind: ratelimit.EnqueuedTokens, Max: 15_000_000_000}},
		{"{output_tokens_per_minute: 4000, window: bucket}", ratelimit.Limit{Kind: ratelimit.OutputTokens, Max: 4000, Period: time.Minute}},
		{"requests_per_day: 10000", ratelimit.Limit{Max: 10000, Resets: "UTC"}},
		{"{requests_per_day: 10000, day_resets: America/Los_Angeles}", ratelimit.Limit{Max: 10000, Resets: "America/Los_Angeles"}},
		{"{requests_per_minute: 500, window: bucket}", ratelimit.Limit{Max: 500, Period: time.Minute}},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			block := strings.Trim(c.text, "{}")
			if strings.HasPrefix(c.text, "rate_limit") {
				block = c.text
			}
			f := fleet(t, "concurrency: {per_provider: {simulator: {"+block+"}}}\n")
			c.want.Provider, c.want.Kind = "simulator", cmp.Or(c.want.Kind, ratelimit.Requests)
			if diff := gocmp.Diff([]ratelimit.Limit{c.want}, f.Limits); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBeats(t *testing.T) {
	t.Parallel()
	minute := func(n int64, shape ratelimit.Shape, length time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Kind: ratelimit.Requests, Max: n, Period: time.Minute, Window: ratelimit.Window{Shape: shape, Length: length}}
	}
	bucket := func(qps, burst int64) ratelimit.Limit {
		return ratelimit.Limit{Kind: ratelimit.Requests, Max: qps, Period: time.Second, Burst: burst}
	}
	slots := func(n int64, s ratelimit.Scope) ratelimit.Limit {
		return ratelimit.Limit{Scope: s, Kind: ratelimit.Concurrency, Max: n}
	}
	batches := func(n int64, s ratelimit.Scope) ratelimit.Limit {
		return ratelimit.Limit{Scope: s, Kind: ratelimit.EnqueuedTokens, Max: n}
	}
	adapts := func(l ratelimit.Limit) ratelimit.Limit {
		l.Adaptive = true
		return l
	}
	tokens := func(kind ratelimit.Kind, n int64, charged bool) ratelimit.Limit {
		l := minute(n, ratelimit.Sliding, time.Minute)
		l.Kind, l.Charged = kind, charged
		return l
	}
	day := func(n int64, zone string) ratelimit.Limit {
		return ratelimit.Limit{Kind: ratelimit.Requests, Max: n, Resets: zone}
	}
	const here, there = "UTC", "America/Los_Angeles"
	p, m := ratelimit.Scope{Provider: "p"}, ratelimit.Scope{Provider: "p", Model: "m"}
	for _, c := range []struct {
		name string
		a, b ratelimit.Limit
		want bool
	}{
		{"fewer slots, same scope", slots(4, p), slots(5, p), true},
		{"more slots", slots(6, p), slots(5, p), false},
		{"provider over model", slots(5, p), slots(5, m), true},
		{"model over provider", slots(1, m), slots(5, p), false},
		{"fleet over provider", slots(5, ratelimit.Scope{}), slots(5, p), true},
		{"another provider", slots(1, ratelimit.Scope{Provider: "q"}), slots(5, p), false},
		{"slots over requests", slots(1, p), bucket(100, 100), false},
		{"fewer enqueued tokens", batches(5, p), batches(5, m), true},
		{"more enqueued tokens", batches(6, p), batches(5, m), false},
		{"enqueued tokens over slots", batches(1, p), slots(5, p), false},
		{"slower bucket", bucket(5, 5), bucket(6, 5), true},
		{"slower bucket with a larger burst", bucket(5, 9), bucket(6, 5), false},
		{"bucket within a window", bucket(8, 16), minute(496, ratelimit.Sliding, time.Minute), true},
		{"bucket over a window by its burst", bucket(8, 17), minute(496, ratelimit.Sliding, time.Minute), false},
		{"window over a bucket", minute(60, ratelimit.Sliding, 10*time.Second), bucket(1, 10), true},
		{"window over a narrow bucket", minute(60, ratelimit.Sliding, 10*time.Second), bucket(1, 9), false},
		{"short window over a long one", minute(60, ratelimit.Sliding, 10*time.Second), minute(60, ratelimit.Sliding, time.Minute), true},
		{"long window over a short one", minute(60, ratelimit.Sliding, time.Minute), minute(60, ratelimit.Sliding, 10*time.Second), false},
		{"fixed over sliding", minute(60, ratelimit.Fixed, time.Minute), minute(60, ratelimit.Sliding, time.Minute), false},
		{"fixed over sliding of twice", minute(60, ratelimit.Fixed, time.Minute), minute(120, ratelimit.Sliding, time.Minute), true},
		{"fixed over adaptive", slots(9, p), adapts(slots(9, p)), false},
		{"adaptive over fixed", adapts(slots(9, p)), slots(9, p), true},
		{"both adapt", adapts(slots(9, p)), adapts(slots(10, p)), true},
		{"a model that adapts by itself", adapts(slots(9, p)), adapts(slots(10, m)), false},
		{"fewer tokens", tokens(ratelimit.Tokens, 9, false), tokens(ratelimit.Tokens, 10, false), true},
		{"more tokens", tokens(ratelimit.Tokens, 11, false), tokens(ratelimit.Tokens, 10, false), false},
		{"tokens over their input", tokens(ratelimit.Tokens, 10, false), tokens(ratelimit.InputTokens, 10, false), true},
		{"tokens over their output", tokens(ratelimit.Tokens, 10, true), tokens(ratelimit.OutputTokens, 10, true), true},
		{"input over tokens", tokens(ratelimit.InputTokens, 1, false), tokens(ratelimit.Tokens, 10, false), false},
		{"input over output", tokens(ratelimit.InputTokens, 1, false), tokens(ratelimit.OutputTokens, 10, false), false},
		{"tokens used over tokens reserved", tokens(ratelimit.Tokens, 1, false), tokens(ratelimit.Tokens, 10, true), false},
		{"tokens over requests", tokens(ratelimit.Tokens, 1, false), minute(10, ratelimit.Sliding, time.Minute), false},
		{"a minute over a day", minute(10, ratelimit.Sliding, time.Minute), day(14400, here), true},
		{"a minute over a smaller day", minute(10, ratelimit.Sliding, time.Minute), day(14399, here), false},
		{"a minute over a day that may have 25 hours", minute(10, ratelimit.Sliding, time.Minute), day(14999, there), false},
		{"a minute over the longest day", minute(10, ratelimit.Sliding, time.Minute), day(15000, there), true},
		{"a bucket over a day", bucket(1, 5), day(86405, here), true},
		{"a bucket over a smaller day", bucket(1, 5), day(86404, here), false},
		{"a day over a minute", day(5, here), minute(10, ratelimit.Sliding, time.Minute), true},
		{"a day over a minute at midnight", day(6, here), minute(10, ratelimit.Fixed, time.Minute), false},
		{"a day over a bucket", day(5, here), bucket(1, 10), true},
		{"a day over a bucket at midnight", day(5, here), bucket(1, 9), false},
		{"a smaller day", day(5, here), day(6, here), true},
		{"a smaller day elsewhere", day(5, here), day(6, there), false},
		{"sliding over fixed", minute(60, ratelimit.Sliding, time.Minute), minute(60, ratelimit.Fixed, time.Minute), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := beats(c.a, c.b); got != c.want {
				t.Errorf("beats(%v, %v) = %v, want %v", c.a, c.b, got, c.want)
			}
		})
	}
}

func TestTightest(t *testing.T) {
	t.Parallel()
	a := ratelimit.Limit{Kind: ratelimit.Requests, Max: 600, Period: time.Minute, Burst: 9, Jitter: time.Second,
		Window: ratelimit.Window{Shape: ratelimit.Fixed, Length: time.Minute}}
	b := ratelimit.Limit{Kind: ratelimit.Requests, Max: 500, Period: time.Minute, Burst: 12,
		Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}}
	want := a
	want.Max, want.Window = 500, b.Window
	for _, got := range []ratelimit.Limit{tightest(a, b), tightest(b, a)} {
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	b.Burst, b.Window = 0, ratelimit.Window{}
	want.Burst, want.Window = 0, a.Window
	for _, got := range []ratelimit.Limit{tightest(a, b), tightest(b, a)} {
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	c := a
	c.Charged = true
	if !tightest(a, c).Charged || !tightest(c, a).Charged {
		t.Error("one of two charges what is reserved: got a limit that does not")
	}
	b.Window = ratelimit.Window{Shape: ratelimit.Fixed, Length: time.Second}
	if got := tightest(a, b).Window; got != b.Window {
		t.Errorf("windows: got %+v, want the shorter %+v", got, b.Window)
	}
}

// A setting that holds calls of vanished workers takes effect.
func TestAbandonedCalls(t *testing.T) {
	t.Parallel()
	hold := "concurrency: {abandoned_calls: hold}"
	for _, c := range []struct {
		name, fleet, file string
		want              bool
		warning           string
	}{
		{"unset", "", "{}", false, ""},
		{"free", "", "{abandoned_calls: free}", false, ""},
		{"the file", "", "{abandoned_calls: hold}", true, ""},
		{"the fleet", hold, "{}", true, ""},
		{"the fleet against the file", hold, "{abandoned_calls: free}", true,
			"concurrency.abandoned_calls: the fleet's setting is hold, which applies to every evaluation; remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var options Options
			if c.fleet != "" {
				options.Fleet = fleet(t, c.fleet)
			}
			s := load(t, with(two, "eval.yaml", minimal+"concurrency: "+c.file+"\n"), options)
			if s.Settings.Hold != c.want {
				t.Errorf("got %v, want %v", s.Settings.Hold, c.want)
			}
			if got := Problems(s.Warnings).Error(); !strings.HasSuffix(got, c.warning) || (c.warning == "") != (got == "") {
				t.Errorf("warnings: got %q, want %q", got, c.warning)
			}
		})
	}
}

// A day ends where the fleet's settings say, or else the file's.
func TestWhereADayEnds(t *testing.T) {
	t.Parallel()
	quota := func(keys string) string {
		return "concurrency: {per_provider: {simulator: {" + keys + "}}}\n"
	}
	for _, c := range []struct{ name, fleet, file, want, warning string }{
		{"unset", "requests_per_day: 9", "requests_per_day: 8", "UTC", ""},
		{"the file", "requests_per_day: 9", "requests_per_day: 8, day_resets: Asia/Tokyo", "Asia/Tokyo", ""},
		{"the fleet", "requests_per_day: 9, day_resets: Asia/Tokyo", "requests_per_day: 8", "Asia/Tokyo", ""},
		{"both the same", "requests_per_day: 9, day_resets: UTC", "requests_per_day: 8, day_resets: UTC", "UTC", ""},
		{"the fleet against the file", "requests_per_day: 9, day_resets: Asia/Tokyo", "requests_per_day: 8, day_resets: UTC", "Asia/Tokyo",
			"concurrency.per_provider.simulator.day_resets: no effect: Asia/Tokyo (FLEET:1) is stricter; use the same value, or remove it"},
		{"without a quota", "requests_per_day: 9", "day_resets: Asia/Tokyo", "UTC",
			"concurrency.per_provider.simulator.day_resets: day_resets has no effect here; set requests_per_day beside it, or remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fleet(t, quota(c.fleet))
			s := load(t, with(two, "eval.yaml", minimal+quota(c.file)), Options{Fleet: f})
			for _, l := range s.Settings.Limits {
				if l.Kind == ratelimit.Requests && l.Resets != c.want {
					t.Errorf("got %v, want days of %s", l, c.want)
				}
			}
			want := strings.ReplaceAll(c.warning, "FLEET", f.written[0].at.file)
			if got := Problems(s.Warnings).Error(); !strings.HasSuffix(got, want) || (want == "") != (got == "") {
				t.Errorf("warnings: got %q, want %q", got, want)
			}
		})
	}
}

// Window and jitter shape limits a minute, and jitter a bucket; beside none they are a mistake.
func TestShapesOfNothing(t *testing.T) {
	t.Parallel()
	f := fleet(t, "concurrency: {groups: {g: {window: bucket, jitter: 1s, max_concurrency: 2}}}\n")
	for i, key := range []string{"window has no effect here; set a limit per minute beside it", "jitter has no effect here; set a limit per minute, or the burst of a rate_limit beside it"} {
		if len(f.Warnings) != 2 || !strings.HasSuffix(f.Warnings[i].String(), key+", or remove it") {
			t.Errorf("warnings: got %v, want %q", f.Warnings, key)
		}
	}
	f = fleet(t, "concurrency: {groups: {g: {jitter: 1s, rate_limit: {qps: 2, burst: 9}}}}\n")
	if len(f.Warnings) != 0 || f.Limits[0].Jitter != time.Second {
		t.Errorf("got %v, warnings %v; want the jitter of the bucket", f.Limits, f.Warnings)
	}
}

// OpenAI and Azure charge what a call reserves, wherever their providers are
// configured; others what it used; and a provider may say so itself.
func TestWhatTokensAreCharged(t *testing.T) {
	t.Parallel()
	f := fleet(t, `
concurrency:
  groups: {g: {tokens_per_minute: 1}}
  per_provider:
    openai-chat: {tokens_per_minute: 10, requests_per_minute: 5, models: {m: {output_tokens_per_minute: 3}}}
    openrouter: {tokens_per_minute: 10}
    azure: {input_tokens_per_minute: 10}
    mine: {tokens_per_minute: 10}
    settles: {tokens_per_minute: 10}
providers:
  azure: {base_url: "https://me.openai.azure.com/openai/v1"}
  mine: {base_url: "http://127.0.0.1/v1", charges: reserved}
  settles: {base_url: "https://api.openai.com/v1", charges: used}
`)
	charged := map[string]bool{}
	for _, l := range f.Limits {
		if l.Charged {
			charged[l.ID()] = true
		}
	}
	want := map[string]bool{
		"provider/openai-chat/tokens/1m0s": true, "provider/openai-chat/model/m/output_tokens/1m0s": true,
		"provider/azure/input_tokens/1m0s": true, "provider/mine/tokens/1m0s": true,
	}
	if diff := gocmp.Diff(want, charged); diff != "" {
		t.Errorf("limits that charge what is reserved (-want +got):\n%s", diff)
	}
	s := load(t, with(two, "eval.yaml", minimal+"concurrency: {per_provider: {mine: {tokens_per_minute: 5}, simulator: {tokens_per_minute: 5}}}\n"+
		"providers: {mine: {base_url: \"http://127.0.0.1/v1\", charges: reserved}}\n"), Options{})
	for _, l := range s.Settings.Limits {
		if l.Kind == ratelimit.Tokens && l.Charged != (l.Provider == "mine") {
			t.Errorf("of an evaluation: %v charges what is reserved: %v", l, l.Charged)
		}
	}
	if (catalog.Entry{BaseURL: "https://notopenai.azure.com.example/v1"}).ChargesReserved() {
		t.Error("a host that only looks like Azure's charges what is reserved")
	}
}
