package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

// settingsOf are what a command line of simulate asks for.
func settingsOf(t *testing.T, args ...string) (settings simulator.Config, err error) {
	t.Helper()
	command := simulateCommand(&process{})
	command.Action = func(c *cli.Context) error {
		settings, err = simulatorSettings(c)
		return nil
	}
	if err := (&cli.App{Commands: []*cli.Command{command}}).Run(append([]string{"evalfleet", "simulate"}, args...)); err != nil {
		t.Fatal(err)
	}
	return settings, err
}

func TestSimulateFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"max_in_flight": 9, "requests": "7/1s", "models": {"small": {"tokens": "50/1s"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := settingsOf(t, "--settings", file,
		"--requests", "60/1m bucket:5, 1000/24h fixed", "--tokens", "1/1s", "--input-tokens", "2/1s", "--output-tokens", "3/1s",
		"--charge", "settle", "--other-requests", "4/1s", "--other-tokens", "5",
		"--latency", "1s..2s", "--answer-tokens", "6..7", "--retry-after", "3s", "--hints", "seconds", "--without-limit-headers",
		"--throttle-rate", "0.1", "--throttle-every", "8", "--throttle-between", "4s..5s",
		"--fail-rate", "0.2", "--fail-status", "503", "--fail-every", "12", "--without-schemas", "--hang-rate", "0.3", "--cut-rate", "0.4", "--malformed-rate", "0.5",
		"--keep-arrivals", "10", "--seed", "11")
	if err != nil {
		t.Fatal(err)
	}
	want := simulator.Config{
		Limits: simulator.Limits{
			MaxInFlight: 9, // of the file; everything else is in a flag
			Requests: simulator.Rates{
				{N: 60, Window: time.Minute, Shape: simulator.Bucket, Burst: 5},
				{N: 1000, Window: 24 * time.Hour, Shape: simulator.Fixed},
			},
			Tokens:        simulator.Rates{{N: 1, Window: time.Second}},
			InputTokens:   simulator.Rates{{N: 2, Window: time.Second}},
			OutputTokens:  simulator.Rates{{N: 3, Window: time.Second}},
			Charge:        simulator.Settle,
			OtherRequests: simulator.Rate{N: 4, Window: time.Second},
			OtherTokens:   5,
		},
		Behaviour: simulator.Behaviour{
			Latency:      simulator.Span{Min: time.Second, Max: 2 * time.Second},
			AnswerTokens: simulator.Range{Min: 6, Max: 7},
			FailRate:     0.2, FailStatus: 503, FailEvery: 12, WithoutSchemas: true, HangRate: 0.3, CutRate: 0.4, MalformedRate: 0.5,
			ThrottleRate: 0.1, ThrottleEvery: 8, ThrottleBetween: simulator.Span{Min: 4 * time.Second, Max: 5 * time.Second},
			RetryAfter: simulator.Span{Min: 3 * time.Second, Max: 3 * time.Second}, Hints: simulator.HintSeconds, WithoutLimitHeaders: true,
		},
		Seed:         11,
		KeepArrivals: 10,
		Models:       map[string]simulator.Model{"small": {Limits: simulator.Limits{Tokens: simulator.Rates{{N: 50, Window: time.Second}}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{"--tokens", "many"}, {"--charge", "later"}, {"--hints", "some"}, {"--throttle-between", "5s..4s"}} {
		if _, err := settingsOf(t, args...); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}
