package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

const (
	latencyFlag   = "latency"
	tokensOutFlag = "tokens-out"
)

// The assumed latency of a call about which nothing is known, and of one to the simulated provider in this process.
const (
	defaultLatency   = 10 * time.Second
	simulatedLatency = 10 * time.Millisecond
)

func estimateCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "estimate",
		Usage:     "Estimate calls, cost and duration",
		ArgsUsage: "FILE…|FOLDER",
		Description: "Makes no calls. Prints a table of the ways in which the evaluation could be asked, with what to write to get each: " +
			"as it is now, in another service tier, in batches, with fewer pairs. The number of calls is a minimum; retries and repairs " +
			"are extra. Input tokens are counted on a sample of prompts. The time is the shortest that the slowest limit permits, at " +
			"--latency per call. With until in the file, the evaluation may end earlier: the estimate says when that is first checked.",
		Flags: append(questionFlags(), slotsOption(),
			&cli.DurationFlag{Name: latencyFlag, Usage: "`TIME` per call, such as 8s (default the median recorded in the output folder, or 10s)"},
			&cli.IntFlag{Name: tokensOutFlag, Usage: "`N` tokens per answer (default depends on the form of the answer)"},
			&cli.BoolFlag{Name: jsonFlag, Usage: "print JSON"}),
		Action: func(c *cli.Context) error {
			return p.estimate(c)
		},
	}
}

func (p *process) estimate(c *cli.Context) error {
	slots, err := slotsOf(c)
	if err != nil {
		return err
	}
	latency, tokensOut := c.Duration(latencyFlag), c.Int(tokensOutFlag)
	if c.IsSet(latencyFlag) && latency <= 0 {
		return usageError("--%s must be above 0, got %s", latencyFlag, latency)
	}
	if c.IsSet(tokensOutFlag) && tokensOut < 1 {
		return usageError("--%s must be at least 1, got %d", tokensOutFlag, tokensOut)
	}
	asked, err := p.request(c, false)
	if err != nil {
		return err
	}
	return asked.each(func(s *config.Submission) error { return p.estimateOf(c, s, latency, tokensOut, slots) })
}

// estimateOf estimates one evaluation. latency and tokensOut are 0 if not given.
func (p *process) estimateOf(c *cli.Context, s *config.Submission, latency time.Duration, tokensOut, slots int) error {
	var err error
	p.sayQueues(s)
	source := "--" + latencyFlag
	if latency == 0 {
		source = "by default; --" + latencyFlag
		dir := evaluationDir(c, s)
		if latency, err = p.recordedLatency(c, s, dir); err != nil {
			return err
		}
		if latency > 0 {
			source = "median in " + dir
		}
	}

	known, answered, err := p.known(c, s)
	if err != nil {
		return err
	}
	made, err := estimateBy(s, estimate.Question{Now: p.now(), Latency: latency, TokensOut: tokensOut, Slots: slots, Known: known})
	if err != nil {
		return err
	}

	if c.Bool(jsonFlag) {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(made)
	}

	from := estimate.Sources{Latency: source, Known: answered}
	if tokensOut > 0 {
		from.Answers = "as --" + tokensOutFlag + " says"
	}
	return made.Write(p.stdout, p.columns(p.stdout), from)
}

// estimateBy estimates an evaluation with all its parts: its anchors, and the judging of its answers. Of the question, it takes
// the time, what is known and, if they are not 0, the latency of a call, the tokens of an answer and the calls in flight.
func estimateBy(s *config.Submission, q estimate.Question) (estimate.Estimate, error) {
	_, plans, err := enqueue.Plan(s.Evaluation.ID(), s.Evaluation, s.Settings)
	if err != nil {
		return estimate.Estimate{}, failure.With(failure.Usage, err)
	}
	of := q
	of.Evaluation, of.Plans, of.Texts, of.Settings = s.Evaluation, plans, s.Texts, s.Settings
	of.Latency, of.Accounts = cmp.Or(q.Latency, assumedLatency(s)), map[string]int{}
	for name, provider := range s.Providers {
		of.Accounts[name] = len(provider.Accounts)
	}
	of.TwoCalls, of.Capabilities, of.Flags = s.TwoCalls, s.Capabilities, s.ByFlags
	made, err := estimate.Of(of)
	if err != nil {
		return made, failure.With(failure.Usage, err)
	}

	q.Known = estimate.Known{} // of the other parts nothing is: answers do not exist yet, and anchors are asked anew
	if s.Anchors != nil {
		asked, err := estimateBy(s.Anchors, q)
		if err != nil {
			return made, err
		}
		both := asked.Then(made)
		both.Evaluation, both.Name = made.Evaluation, made.Name
		made = both
	}
	if s.Judging == nil {
		return made, nil
	}
	judged, err := estimateBy(s.Judging.Planned, q)
	return made.Then(judged), err
}

// assumedLatency returns the latency of an evaluation's calls before any was made.
func assumedLatency(s *config.Submission) time.Duration {
	for _, asked := range s.Settings.Everyone(s.Evaluation) {
		if of := s.Providers[asked.Provider]; of.Dialect != catalog.Simulator || of.BaseURL != "" {
			return defaultLatency
		}
	}
	return simulatedLatency
}

// recordedLatency returns the median latency of the calls that an earlier run of the evaluation recorded in its output
// folder; 0 if there are none.
func (p *process) recordedLatency(c *cli.Context, s *config.Submission, dir string) (latency time.Duration, err error) {
	ctx := c.Context
	url, _, err := p.storeIn(c, dir)
	if err != nil { // nothing is recorded yet
		return 0, nil
	}
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return 0, failure.With(failure.Unavailable, err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	latency, err = reader.MedianLatency(ctx, s.Evaluation.ID())
	return latency, failure.With(failure.Unavailable, err)
}
