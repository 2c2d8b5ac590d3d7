package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet/remote"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/view/plain"
	"github.com/evalfleet/evalfleet/internal/web"
)

const serverFlag = "server"

// serverQuery maps flags to the parameters of POST /api/evaluations.
var serverQuery = map[string]string{
	judgeFlag: "judge", againFlag: "again", limitFlag: "limit", maxConcurrencyFlag: "max_concurrency", jsonModeFlag: "json_mode",
	providerFlag: "provider", modelFlag: "model", batchFlag: "batch", retryFailedFlag: "retry_failed",
}

// enqueueAt submits evaluations to a server instead of a Redis. One that fails does not keep the others from being
// submitted; the command then has the exit code of the first that failed.
func (p *process) enqueueAt(c *cli.Context, on failOn) error {
	proxy, err := config.Proxy(p.env) // its errors quote no password
	if err != nil {
		return err
	}
	s, err := remote.Open(c.String(serverFlag), p.env, proxy)
	if err != nil {
		return usageError("--%s: %w", serverFlag, err)
	}
	for _, flag := range []string{pairsFlag, topFlag, budgetFlag} {
		if c.IsSet(flag) {
			return usageError("--%s does not go with --%s: write an evaluation file", flag, serverFlag)
		}
	}
	inputs, err := p.sentInputs(c)
	if err != nil {
		return err
	}

	var failed []error
	// fails reports whether err ends the command: it was interrupted, or submits one evaluation. Otherwise it prints err
	// with the evaluation's file, and the command continues with the next one.
	fails := func(in config.Input, err error, became string) bool {
		if len(inputs) == 1 || c.Err() != nil {
			return true
		}
		fmt.Fprintf(p.stderr, "evalfleet: %s %s:\n%s\n", in.Path, became, message(err))
		failed = append(failed, err)
		return false
	}
	receipts := make([]*web.Receipt, len(inputs)) // nil: not submitted
	for i, in := range inputs {
		receipt, err := p.sendTo(c, s, in, len(inputs) > 1)
		switch {
		case err == nil:
			receipts[i] = &receipt
		case fails(in, err, "was not submitted"):
			return err
		}
	}

	for i, in := range inputs {
		if receipts[i] == nil {
			continue
		}
		if c.Bool(waitFlag) {
			if err := p.waitAt(c, s, *receipts[i], len(inputs) > 1, on); err != nil && fails(in, err, "did not succeed") {
				return err
			}
		}
		if _, err := fmt.Fprintln(p.stdout, receipts[i].ID); err != nil {
			return err
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return failure.With(kindOf(failed[0]), fmt.Errorf("%d of %d evaluations failed: see above", len(failed), len(inputs)))
}

// sendTo submits an evaluation to a server and prints what became of it, with its file and id if it is one of several.
func (p *process) sendTo(c *cli.Context, s *remote.Server, in config.Input, several bool) (web.Receipt, error) {
	folder, inputs, paths, err := in.Files(c.StringSlice(judgeFlag))
	if err != nil {
		return web.Receipt{}, err
	}
	query := url.Values{}
	for _, input := range inputs {
		query.Add("file", filepath.ToSlash(input))
	}
	for flag, parameter := range serverQuery {
		switch {
		case !c.IsSet(flag):
		case flag == judgeFlag:
			query[parameter] = c.StringSlice(flag)
		default:
			query.Set(parameter, fmt.Sprint(c.Value(flag)))
		}
	}

	receipt, err := s.Submit(c.Context, folder, paths, query)
	if err != nil {
		return web.Receipt{}, err
	}
	for _, warning := range receipt.Warnings {
		fmt.Fprintln(p.stderr, "evalfleet: warning: "+harmless.OneLine(warning))
	}
	if receipt.Kept {
		fmt.Fprintf(p.stderr, "%s is active with other settings, which stay in force: pause it, then submit it again\n", receipt.ID)
	}
	verb := "enqueued"
	switch {
	case receipt.Done:
		verb = "already there, and done"
	case !receipt.Created:
		verb = "already there, resumed"
	}
	if several {
		verb = fmt.Sprintf("%s: %s %s", in.Path, receipt.ID, verb)
	}
	fmt.Fprintf(p.stderr, "%s: %s on %s\n", verb, wording.Counted(receipt.Runs, "run"), s)
	return receipt, nil
}

// waitAt waits until an evaluation on a server has ended and its results are collected,
// and downloads its files. One of several has a folder of its own in --out-dir.
func (p *process) waitAt(c *cli.Context, s *remote.Server, receipt web.Receipt, several bool, on failOn) error {
	say := func(line string) { fmt.Fprintln(p.stderr, line) }
	now, err := s.Wait(c.Context, receipt.ID, say)
	if err != nil {
		return err
	}
	dir := cmp.Or(c.String(outDirFlag), outdir.Default(receipt.Name, receipt.ID))
	if several && c.IsSet(outDirFlag) {
		dir = filepath.Join(dir, filepath.Base(outdir.Default(receipt.Name, receipt.ID)))
	}
	if err := s.Download(c.Context, receipt.ID, dir, say); err != nil {
		return err
	}
	if err := p.printDownloaded(dir, receipt); err != nil {
		return err
	}
	if err := remote.Stopped(now); err != nil {
		return err
	}
	return failedRuns([]results.PhaseCounts{{Runs: now.All.Runs, Succeeded: now.All.Succeeded, Failed: now.All.Failed}}, on)
}

// printDownloaded prints who won, by a report that was downloaded into a folder, and where that report is. Standard
// output has the evaluation's id alone.
func (p *process) printDownloaded(dir string, of web.Receipt) error {
	text, err := os.ReadFile(filepath.Join(dir, outdir.ReportName+"."+outdir.JSON))
	if err != nil {
		return nil //nolint:nilerr // there is none for an evaluation without a ranking
	}
	var built struct {
		Headline string
		Reliance *record.Reliance
	}
	if err := json.Unmarshal(text, &built); err != nil {
		return failure.With(failure.Unavailable, fmt.Errorf("read the downloaded report.json: %w", err))
	}

	options := printing{env: p.env}.on(p.stderr)
	out := lines.New(terminal.Raw(p.stderr), cmp.Or(options.Width, plain.Width), options.Colour)
	out.Heading(of.Name + "  " + string(of.ID))
	out.Line(built.Headline)
	if built.Reliance != nil {
		out.Entry("Trust", built.Reliance.Line(), lines.Plain)
	}
	out.Path("Report", filepath.Join(dir, outdir.ReportFile))
	return out.Flush()
}

// sentInputs returns what the command line sends to a server: one input, or several evaluation files.
func (p *process) sentInputs(c *cli.Context) ([]config.Input, error) {
	if paths := c.Args().Slice(); len(paths) > 1 && !c.IsSet(kindFlag) && !c.IsSet(fileFlag) && config.AreEvaluations(paths) {
		inputs := make([]config.Input, len(paths))
		for i, path := range paths {
			inputs[i] = config.InputAt(path)
		}
		return inputs, refuse(c, inputs[0])
	}

	listed := p.listed(c) != (config.Listed{})
	inputs, err := p.inputs(c, listed)
	if err != nil {
		return nil, err
	}
	if in := inputs[0]; len(inputs) > 1 || in.Path == "" || in.Kind == config.ExperimentFile || listed {
		return nil, usageError(
			"--%s takes evaluation files, a file of runs or requests, files of answers, or a folder; "+
				"submit experiments and runs listed by flags with --%s",
			serverFlag, redisFlag,
		)
	}
	return inputs, nil
}
