package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/simulator"
)

// simulateDefault describes the simulator without flags.
const simulateDefault = "By default it answers at once, without limits or faults."

func simulateCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "simulate",
		Usage: "Serve the simulated provider",
		Description: "Implements the APIs of several providers, with judges of decreasing reliability named careful, average and " +
			"careless. It can enforce limits, respond slowly, fail, hang, truncate answers and return malformed ones. It " +
			"counts requests independently: GET /stats, POST /stats/reset. " + simulateDefault + " It prints its address as the " +
			"first line of stdout.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8089", Usage: "`ADDRESS` to listen on; port 0 takes a free one"},
			&cli.StringFlag{
				Name:  "certificate",
				Usage: "serve HTTPS with HTTP/2 and write the certificate to `FILE`; a client trusts it with SSL_CERT_FILE=FILE",
			},
			&cli.StringFlag{Name: "settings", Usage: "JSON `FILE` with all settings, also per model; the flags below override it"},
			&cli.IntFlag{Name: "max-in-flight", Usage: "answer 429 above `N` concurrent calls"},
			&cli.StringFlag{
				Name:  "requests",
				Usage: "answer 429 above this `RATE`: 60/1m (sliding window), or several such as \"60/1m bucket:5, 1000/24h fixed\"",
			},
			&cli.StringFlag{Name: "tokens", Usage: "answer 429 above this `RATE` of input plus output tokens, or several"},
			&cli.StringFlag{Name: "input-tokens", Usage: "answer 429 above this `RATE` of input tokens, or several"},
			&cli.StringFlag{Name: "output-tokens", Usage: "answer 429 above this `RATE` of output tokens, or several"},
			&cli.StringFlag{
				Name: "charge",
				Usage: "`HOW` to count output tokens on arrival: actual, reserve (max_completion_tokens), or settle (reserve, " +
					"then the actual number at the end) (default actual)",
			},
			&cli.StringFlag{Name: "latency", Usage: "`TIME` per answer, 500ms or 200ms..2s"},
			&cli.StringFlag{
				Name:  "answer-tokens",
				Usage: "output tokens per answer, a number or a `RANGE` such as 200..800 (default the length of its text)",
			},
			&cli.StringFlag{
				Name:  "retry-after",
				Usage: "`TIME` hinted in each 429 and failure, such as 2s (default the time until the limit has room)",
			},
			&cli.StringFlag{Name: "hints", Usage: "`HOW` to send hints: both (Retry-After and Retry-After-Ms), seconds or none (default both)"},
			&cli.BoolFlag{Name: "without-limit-headers", Usage: "send no X-RateLimit headers"},
			&cli.Float64Flag{Name: "throttle-rate", Usage: "`SHARE` of requests answered 429 without exceeding a limit"},
			&cli.IntFlag{Name: "throttle-every", Usage: "answer every `N`th request with 429"},
			&cli.StringFlag{
				Name:  "throttle-between",
				Usage: "answer all requests with 429 in this `RANGE` of times after the start, such as 10s..20s",
			},
			&cli.StringFlag{Name: "other-requests", Usage: "`RATE` of another client of the same account, which uses part of the limits"},
			&cli.IntFlag{Name: "other-tokens", Usage: "`N` tokens per request of the other client, half of them output"},
			&cli.Float64Flag{Name: "fail-rate", Usage: "`SHARE` of calls that fail, 0 to 1"},
			&cli.IntFlag{Name: "fail-status", Usage: "HTTP `STATUS` of failed calls (default 500)"},
			&cli.IntFlag{Name: "fail-every", Usage: "fail one prompt in `N` on its first arrival"},
			&cli.Float64Flag{Name: "hang-rate", Usage: "`SHARE` of calls that are never answered"},
			&cli.Float64Flag{Name: "cut-rate", Usage: "`SHARE` of answers truncated"},
			&cli.Float64Flag{Name: "malformed-rate", Usage: "`SHARE` of malformed answers"},
			&cli.BoolFlag{Name: "without-schemas", Usage: "answer 400 to requests for structured output"},
			&cli.IntFlag{Name: "keep-arrivals", Usage: "report the times of the latest `N` requests at GET /stats/arrivals"},
			&cli.Uint64Flag{Name: "seed", Usage: "random seed `NUMBER` (default 0)"},
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}

			settings, err := simulatorSettings(c)
			if err != nil {
				return err
			}
			return p.simulate(c.Context, c.String("listen"), c.String("certificate"), settings)
		},
	}
}

// simulatorSettings returns the simulator's settings: the flags, and the file of --settings for the rest.
func simulatorSettings(c *cli.Context) (simulator.Config, error) {
	var s simulator.Config
	if path := c.String("settings"); path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return s, failure.With(failure.Usage, fmt.Errorf("--settings: %w", err))
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			return s, usageError("--settings %s: %w", path, err)
		}
	}
	return s, failure.With(failure.Usage, cmp.Or(errors.Join(settingsFlags(c, &s)...), s.Validate()))
}

// settingsFlags overrides settings by the flags that are set.
func settingsFlags(c *cli.Context, s *simulator.Config) (problems []error) {
	for name, value := range map[string]interface{ UnmarshalText([]byte) error }{
		"requests": &s.Requests, "tokens": &s.Tokens, "input-tokens": &s.InputTokens, "output-tokens": &s.OutputTokens,
		"other-requests": &s.OtherRequests, "latency": &s.Latency, "answer-tokens": &s.AnswerTokens,
		"retry-after": &s.RetryAfter, "throttle-between": &s.ThrottleBetween,
	} {
		if c.IsSet(name) {
			if err := value.UnmarshalText([]byte(c.String(name))); err != nil {
				problems = append(problems, fmt.Errorf("--%s: %w", name, err))
			}
		}
	}

	for name, value := range map[string]*float64{
		"fail-rate": &s.FailRate, "hang-rate": &s.HangRate, "cut-rate": &s.CutRate, "malformed-rate": &s.MalformedRate,
		"throttle-rate": &s.ThrottleRate,
	} {
		if c.IsSet(name) {
			*value = c.Float64(name)
		}
	}

	for name, value := range map[string]*int{
		"max-in-flight": &s.MaxInFlight, "fail-status": &s.FailStatus, "fail-every": &s.FailEvery, "throttle-every": &s.ThrottleEvery,
		"other-tokens": &s.OtherTokens, "keep-arrivals": &s.KeepArrivals,
	} {
		if c.IsSet(name) {
			*value = c.Int(name)
		}
	}

	if c.IsSet("charge") {
		s.Charge = simulator.Charge(c.String("charge"))
	}
	if c.IsSet("hints") {
		s.Hints = simulator.Hint(c.String("hints"))
	}
	for name, value := range map[string]*bool{"without-limit-headers": &s.WithoutLimitHeaders, "without-schemas": &s.WithoutSchemas} {
		if c.IsSet(name) {
			*value = c.Bool(name)
		}
	}

	if c.IsSet("seed") {
		s.Seed = c.Uint64("seed")
	}
	return problems
}

// simulate serves until ctx ends. It uses HTTPS if certificate names a file to write the certificate to.
func (p *process) simulate(ctx context.Context, address, certificate string, settings simulator.Config) error {
	listen := simulator.Listen
	if certificate != "" {
		listen = simulator.ListenTLS
	}
	server, err := listen(address, settings)
	if err != nil {
		return failure.With(failure.Usage, err)
	}
	if certificate != "" {
		if err := os.WriteFile(certificate, server.Certificate, 0o644); err != nil {
			return failure.With(failure.Usage, errors.Join(fmt.Errorf("--certificate: %w", err), server.Close()))
		}
	}
	fmt.Fprintln(p.stdout, server.URL)
	<-ctx.Done()
	return server.Close()
}
