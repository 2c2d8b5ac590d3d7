package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/internal/cli/commandline"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// estimated runs the estimate command and reads its --json.
func estimated(t *testing.T, args ...string) estimate.Estimate {
	t.Helper()
	code, stdout, stderr := evalfleet(t, nil, append([]string{"estimate", "--json"}, args...)...)
	if code != int(exitOK) {
		t.Fatalf("estimate %q ended with %d: %s", args, code, stderr)
	}
	var made estimate.Estimate
	if err := json.Unmarshal([]byte(stdout), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestEstimateIsWhatARunTakes runs evaluations under one limit each and compares
// the calls, and with -full-fleet the duration by the simulator's clock, with the
// estimate.
func TestEstimateIsWhatARunTakes(t *testing.T) {
	t.Parallel()
	const answer = 2000 // tokens
	documents, latency := sizedFleet(5, 13), sizedFleet(50*time.Millisecond, 500*time.Millisecond)
	// At the small size a call may arrive 2 s after it was granted, on a slow machine.
	window, jitter := sizedFleet(4, 2), sizedFleet(2*time.Second, 400*time.Millisecond)
	tokens := fmt.Sprintf("{max_concurrency: 50, tokens_per_minute: %d, window: sliding:%ds, jitter: %s}",
		40_000*60/window, window, jitter)
	for _, test := range []struct {
		name, limits, binds string
		enforced            string // tokens
	}{
		{"concurrency", "{max_concurrency: 8}", "concurrency.per_provider.local.max_concurrency", ""},
		{"rate", "{max_concurrency: 50, rate_limit: {qps: 15, burst: 5}}", "concurrency.per_provider.local.rate_limit", ""},
		{"tokens", tokens, "concurrency.per_provider.local.tokens_per_minute", fmt.Sprintf("40000/%ds", window)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			settings := simulator.Config{Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: latency, Max: latency}}}
			for value, text := range map[interface{ UnmarshalText([]byte) error }]string{
				&settings.Tokens: test.enforced, &settings.AnswerTokens: fmt.Sprint(answer),
			} {
				if err := value.UnmarshalText([]byte(text)); text != "" && err != nil {
					t.Fatal(err)
				}
			}

			server, err := simulator.Listen("127.0.0.1:0", settings)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			files := map[string]string{"evaluation.yaml": fmt.Sprintf(`
documents: [docs/*.md]
judges: [{model: "local:careful", overrides: {max_completion_tokens: %d}}]
pairwise: {}
concurrency: {lease: 1m, max_concurrency: 100, per_provider: {local: %s}}
providers: {local: {base_url: "%s/v1"}}
`, answer, test.limits, server.URL)}
			for i := range documents {
				files[fmt.Sprintf("docs/%02d.md", i)] = fmt.Sprintf("Document %d says what no other says.", i)
			}
			dir := tree(t, files)
			out := filepath.Join(dir, "out")
			made := estimated(t, filepath.Join(dir, "evaluation.yaml"), "--latency", latency.String(), "--tokens-out", fmt.Sprint(answer))
			if made.Bounds[0].Setting != test.binds {
				t.Errorf("bound by %+v, want %s", made.Bounds[0], test.binds)
			}

			if code := launch(t, dir, "run", "evaluation.yaml", "--out-dir", out).wait(); code != 0 {
				t.Fatalf("run ended with %d", code)
			}
			stats := server.Stats().All
			if stats.Arrived != int64(made.Total.Calls) {
				t.Errorf("%d calls were estimated and %d made", made.Total.Calls, stats.Arrived)
			}
			if stats.Rejected != 0 {
				t.Errorf("%d calls were rejected: %v", stats.Rejected, stats.RejectedBy)
			}

			took := (stats.LastArrival.Sub(stats.FirstArrival) + latency).Seconds()
			t.Logf("estimated %.2f s, took %.2f s", made.Seconds, took)
			if *fullFleet && (took < 0.9*made.Seconds || took > 1.1*made.Seconds) {
				t.Errorf("estimated %.2f s, took %.2f s; want 0.9 to 1.1 times as much", made.Seconds, took)
			}
			again := estimated(t, filepath.Join(dir, "evaluation.yaml"), "--out-dir", out)
			if again.Latency < latency.Seconds() || *fullFleet && again.Latency > 2*latency.Seconds() {
				t.Errorf("latency of the recorded calls: got %v s, want about %v", again.Latency, latency)
			}
		})
	}
}

func TestEstimateInWords(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "docs/c.md": "Beta.",
		"evaluation.yaml": `
name: words
documents: [docs/*.md]
judges: [simulator:careful, {name: a judge whose name is longer than its column has room for, model: simulator:average}]
single: {criteria: [style]}
pairwise: {trials: 1000}
concurrency: {per_provider: {simulator: {requests_per_minute: 6, window: "fixed:60s"}}}
`,
	})
	code, stdout, stderr := evalfleet(t, nil, "estimate", filepath.Join(dir, "evaluation.yaml"), "--out-dir", filepath.Join(dir, "out"))
	_, after, _ := strings.Cut(stdout, ")") // the id hangs on the evaluation alone, but says nothing here
	want := `: 12,006 runs, at least 8,006 calls, plus retries and repairs

to write           calls   cost   at least  limited by
as it is now       8,006  $0.00  22h15m43s  6 requests/min
pairs: sample:0.2  1,606  $0.00   4h27m49s  6 requests/min
order: random      4,006  $0.00   11h8m17s  6 requests/min
pairs: swiss       5,340  $0.00  14h50m52s  6 requests/min

pairs: sample:0.2       intervals are about twice as wide
order: random           a judge's bias for a place is not seen
pairs: swiss            places the top well, the middle less surely
keys      pairs, order and top_n are keys of pairwise

duration  at least 22h15m43s, at 10ms per call (by default; --latency)
limit     provider simulator: 6 requests/min
          set by concurrency.per_provider.simulator.requests_per_minute
          then 16s by this evaluation: 5 in flight
          then 810ms by one process: 100 in flight

phase     judge                                          runs  no call  calls  tokens in  tokens out
single    simulator:careful                                 3        0      3      2,084         210
single    a judge whose name is…s column has room for       3        0      3      2,084         210
pairwise  simulator:careful                             6,000    2,000  4,000  2,647,500     360,000
pairwise  a judge whose name is…s column has room for   6,000    2,000  4,000  2,647,500     360,000
all                                                    12,006    4,000  8,006  5,299,168     720,420

tokens    in: one per 3.2 bytes of prompt, measured on 74 prompts of the plan
          out: typical of short verdicts, without reasoning; set max_completion_tokens to bound them
no call   4,000 runs on two equal texts, or on one that fails a gate
`
	if code != int(exitOK) || after != want {
		t.Errorf("estimate ended with %d %s; got\n%s\nwant\n%s", code, stderr, after, want)
	}
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > commandline.HelpWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A cost from the built-in table comes with the table's day.
func TestEstimateByListPrices(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.",
		"evaluation.yaml": "documents: [docs/*.md]\njudges: [openai:gpt-5-mini]\npairwise: {}\n",
	})
	made := estimated(t, filepath.Join(dir, "evaluation.yaml"), "--out-dir", filepath.Join(dir, "out"))
	if made.CostUSD == nil || *made.CostUSD <= 0 || made.PricesAsOf != catalog.PricesAsOf() {
		t.Errorf("cost %v by prices of %q, want one by those of %s", made.CostUSD, made.PricesAsOf, catalog.PricesAsOf())
	}
	_, stdout, _ := evalfleet(t, nil, "estimate", filepath.Join(dir, "evaluation.yaml"), "--out-dir", filepath.Join(dir, "out"))
	for _, want := range []string{"list prices of " + catalog.PricesAsOf(), "at 10s per call (by default; --latency)"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("estimate does not say %q:\n%s", want, stdout)
		}
	}
}

// Prices grow old by the clock: `estimate` and `validate` say so, and nothing else does before.
func TestOldPricesAreSaid(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.",
		"evaluation.yaml": "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n" +
			"prices: {\"simulator:*\": {input: 1, output: 2, as_of: 2026-05-01}}\n",
	})
	for days, want := range map[int]bool{90: false, 91: true} {
		for _, command := range [][]string{{"estimate"}, {"estimate", "--json"}, {"validate"}} {
			var said bytes.Buffer
			none := func(string) (string, bool) { return "", false }
			p := &process{
				env: none, keys: none, stdin: strings.NewReader(""), stdout: &said, stderr: &said,
				now: func() time.Time { return time.Date(2026, 5, 1+days, 12, 0, 0, 0, time.UTC) },
			}
			args := append(command, filepath.Join(dir, "evaluation.yaml"), "--out-dir", filepath.Join(dir, "out"))
			if command[0] == "validate" {
				args = args[:2]
			}
			if err := p.run(t.Context(), args); err != nil {
				t.Fatalf("%q: %v", args, err)
			}
			about := "older than 90 days: simulator 91 days (careful, of 2026-05-01)"
			if len(command) == 2 {
				about = `"days": 91`
			}
			if got := strings.Contains(strings.Join(strings.Fields(said.String()), " "), about); got != want {
				t.Errorf("%q after %d days: it says %q: %t, want %t\n%s", command, days, about, got, want, &said)
			}
		}
	}
}

// A limit of tokens says how many it counts.
func TestEstimateOfTokensInWords(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.",
		"evaluation.yaml": `
documents: [docs/*.md]
judges: [simulator:careful]
pairwise: {trials: 50}
concurrency: {per_provider: {simulator: {output_tokens_per_minute: 1000, requests_per_day: 1000}}}
`,
	})
	code, stdout, stderr := evalfleet(t, nil, "estimate", filepath.Join(dir, "evaluation.yaml"), "--tokens-out", "200")
	want := `
duration  at least 19m29s, at 10ms per call (by default; --latency)
limit     provider simulator: 1,000 output tokens/min
          these calls use about 20,000 of its tokens
          set by concurrency.per_provider.simulator.output_tokens_per_minute
          then 200ms by this evaluation: 5 in flight
          then 10ms by provider simulator: 1,000 requests per day (UTC)
`
	if code != int(exitOK) || !strings.Contains(stdout, want) {
		t.Errorf("estimate ended with %d %s; got\n%s\nwant in it\n%s", code, stderr, stdout, want)
	}
}

func TestEstimateRefuses(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"docs/a.md": "A", "docs/b.md": "B", "good.yaml": goodFile})
	for _, test := range []struct{ flag, want string }{
		{"--latency=0s", "--latency must be above 0, got 0s"},
		{"--latency=-1s", "--latency must be above 0, got -1s"},
		{"--latency=5", "want a time with its unit"},
		{"--tokens-out=0", "--tokens-out must be at least 1, got 0"},
		{"--slots=0", "--slots must be at least 1, got 0"},
	} {
		code, stdout, stderr := evalfleet(t, nil, "estimate", filepath.Join(dir, "good.yaml"), test.flag)
		if code != int(exitUsage) || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: ended with %d, stdout %q, stderr %q, want %q", test.flag, code, stdout, stderr, test.want)
		}
	}
}
