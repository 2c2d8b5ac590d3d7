package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

func simulateCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "simulate",
		Usage: "serve the simulated provider, to try a fleet without spending",
		Description: "Speaks the chat completions dialect at /v1, with judges of falling reliability named careful, average and careless. " +
			"It can enforce limits, be slow, fail, hang, cut answers off and answer nonsense, and counts what really arrived: GET /stats, POST /stats/reset. " +
			"Its address is the first line of stdout.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8089", Usage: "`ADDRESS` to listen on; port 0 takes a free one"},
			&cli.StringFlag{Name: "settings", Usage: "`FILE` of all settings as JSON, for models of their own; the flags below stand over it"},
			&cli.IntFlag{Name: "max-in-flight", Usage: "answer 429 above `N` calls at once"},
			&cli.StringFlag{Name: "requests", Usage: "answer 429 above a `RATE` or several: 60/1m (any window), \"60/1m bucket:5, 1000/24h fixed\""},
			&cli.StringFlag{Name: "tokens", Usage: "answer 429 above a `RATE` of input and output tokens together, or several"},
			&cli.StringFlag{Name: "input-tokens", Usage: "answer 429 above a `RATE` of input tokens, or several"},
			&cli.StringFlag{Name: "output-tokens", Usage: "answer 429 above a `RATE` of output tokens, or several"},
			&cli.StringFlag{Name: "charge", Usage: "`HOW` output tokens count on arrival: actual, reserve (max_completion_tokens) or settle (those, in the end what was used)"},
			&cli.StringFlag{Name: "latency", Usage: "`TIME` until an answer, 500ms or 200ms..2s"},
			&cli.StringFlag{Name: "answer-tokens", Usage: "output tokens that an answer uses, a `RANGE` like 200..800 or a number"},
			&cli.StringFlag{Name: "retry-after", Usage: "`TIME` to hint at with each 429 and failure"},
			&cli.Float64Flag{Name: "fail-rate", Usage: "`SHARE` of calls that fail, 0 to 1"},
			&cli.IntFlag{Name: "fail-status", Usage: "HTTP `STATUS` of those; 500 where nothing is said"},
			&cli.Float64Flag{Name: "hang-rate", Usage: "`SHARE` of calls that are never answered"},
			&cli.Float64Flag{Name: "cut-rate", Usage: "`SHARE` of answers cut off in the middle"},
			&cli.Float64Flag{Name: "malformed-rate", Usage: "`SHARE` of answers that are not what was asked"},
			&cli.IntFlag{Name: "keep-arrivals", Usage: "tell the times of the latest `N` requests at GET /stats/arrivals"},
			&cli.Uint64Flag{Name: "seed", Usage: "`NUMBER` of another luck"},
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			settings, err := simulatorSettings(c)
			if err != nil {
				return err
			}
			return p.simulate(c.Context, c.String("listen"), settings)
		},
	}
}

// simulatorSettings are those of the file under those of the flags.
func simulatorSettings(c *cli.Context) (simulator.Config, error) {
	var s simulator.Config
	if path := c.String("settings"); path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return s, withCode(exitUsage, fmt.Errorf("--settings: %w", err))
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			return s, usageError("--settings %s: %w", path, err)
		}
	}
	var problems []error
	for name, value := range map[string]interface{ UnmarshalText([]byte) error }{
		"requests": &s.Requests, "tokens": &s.Tokens, "input-tokens": &s.InputTokens, "output-tokens": &s.OutputTokens,
		"latency": &s.Latency, "answer-tokens": &s.AnswerTokens, "retry-after": &s.RetryAfter,
	} {
		if c.IsSet(name) {
			if err := value.UnmarshalText([]byte(c.String(name))); err != nil {
				problems = append(problems, fmt.Errorf("--%s: %w", name, err))
			}
		}
	}
	for name, value := range map[string]*float64{
		"fail-rate": &s.FailRate, "hang-rate": &s.HangRate, "cut-rate": &s.CutRate, "malformed-rate": &s.MalformedRate,
	} {
		if c.IsSet(name) {
			*value = c.Float64(name)
		}
	}
	if c.IsSet("max-in-flight") {
		s.MaxInFlight = c.Int("max-in-flight")
	}
	if c.IsSet("keep-arrivals") {
		s.KeepArrivals = c.Int("keep-arrivals")
	}
	if c.IsSet("charge") {
		s.Charge = simulator.Charge(c.String("charge"))
	}
	if c.IsSet("fail-status") {
		s.FailStatus = c.Int("fail-status")
	}
	if c.IsSet("seed") {
		s.Seed = c.Uint64("seed")
	}
	if len(problems) == 0 {
		problems = append(problems, s.Validate())
	}
	return s, withCode(exitUsage, errors.Join(problems...))
}

// simulate serves until ctx ends.
func (p *process) simulate(ctx context.Context, address string, settings simulator.Config) error {
	server, err := simulator.Listen(address, settings)
	if err != nil {
		return withCode(exitUsage, err)
	}
	fmt.Fprintln(p.stdout, server.URL)
	<-ctx.Done()
	return server.Close()
}
