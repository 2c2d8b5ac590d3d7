package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

func resumeCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "Resume a paused evaluation or an interrupted run",
		ArgsUsage: "ID|DIR",
		Description: "With ID, continues a paused evaluation. With the output folder of an interrupted `evalfleet run`, executes the " +
			"remaining runs with the original documents and settings. Recorded runs are not repeated. Keys come from the " +
			"environment. Providers in --config replace those with the same name.",
		Flags: append(workFlags(metricsOff), failOnOption(), detailsOption(), openOption()),
		Action: func(c *cli.Context) error {
			going, err := p.going(c)
			if err != nil {
				return err
			}
			if !going {
				return p.continueRun(c, nil)
			}
			return p.steer(c, func(t *fleet.Target) (string, error) { return t.Resume(c.Context) })
		},
	}
}

// continueRun finishes the run in a folder. classes selects the failed runs to retry; nil:
// none.
func (p *process) continueRun(c *cli.Context, classes []string) error {
	dir := c.Args().First()
	how, err := workOf(c)
	if err != nil {
		return err
	}

	r, err := p.openSaved(c, dir)
	if err != nil {
		return err
	}
	defer r.reader.Close()
	saved, submission, reader, out := r.saved, r.Submission, r.reader, r.out
	var retry func(enqueue.Recorded) bool
	if classes != nil {
		switch none, err := fleet.NothingFailed(c.Context, reader, saved.Evaluation, classes); {
		case err != nil:
			return err
		case none:
			_, err = fmt.Fprintln(p.stderr, fleet.NothingToRetry(classes))
			return err
		}
		if retry, err = fleet.FailedIn(c.Context, reader, saved.Evaluation, classes); err != nil {
			return err
		}
	}

	j := p.jobOf(c, submission, out, r.log)
	j.redis, j.how, j.failOn = r.redis, how, failOn(saved.FailOn)
	j.Place, j.StoreURL, j.Retry = saved.Place(dir), saved.ResultsURL, retry
	j.Earlier = p.own.Earlier(dir, submission.Providers)
	j.Resume, j.Raise = resumeWith(c, dir), raise+"evalfleet run FILE --"+outDirFlag+" "+wording.ShellWord(dir)
	if submission.Evaluation.Board != nil {
		j.Raise = "continue with a higher budget: evalfleet add " + wording.ShellWord(dir) + " FILE… --" + budgetFlag + " USD"
	}
	if !c.IsSet(slotsFlag) {
		j.how.slots = cmp.Or(saved.Slots, how.slots)
	}
	j.how.grace = cmp.Or(how.grace, saved.Grace)
	if c.IsSet(failOnFlag) || j.failOn == "" {
		if j.failOn, err = failOnOf(c); err != nil {
			return err
		}
	}

	j.Judged = saved.Judged
	ended := j.run(c.Context)
	if !saved.Judged || ended != nil && (codeOf(ended) != exitRunsFailed || collect.IsEnding(ended)) {
		return ended
	}
	if judged, err := judgedAlready(c.Context, reader, saved.Evaluation); err != nil || judged && classes == nil {
		return cmp.Or(ended, err)
	}
	fmt.Fprintf(out, "next, have judges compare these answers: evalfleet run FILE --%s %s\n", outDirFlag, wording.ShellWord(filepath.Dir(dir)))
	return ended
}

// savedRun is the run in an output folder, as this user may continue it.
type savedRun struct {
	dir    string
	saved  outdir.Resumption
	reader results.Reader
	*config.Submission
	fleet *config.Fleet // of --config
	redis dial.Settings
	out   *terminal.Console
	log   zerolog.Logger
}

// openSaved opens the run in a folder. Providers in --config replace those with the same name. Close its reader.
func (p *process) openSaved(c *cli.Context, dir string) (*savedRun, error) {
	r := &savedRun{dir: dir}
	var err error
	if r.saved, err = outdir.ReadResumption(dir); err != nil {
		return nil, err
	}
	if r.saved.Redis && c.String(redisFlag) == "" {
		return nil, usageError("the run in %s used the Redis of --%s: set it again", dir, redisFlag)
	}
	if r.redis, err = p.fleetRedis(c); err != nil {
		return nil, err
	}

	if r.out, r.log, err = p.output(c); err != nil {
		return nil, err
	}
	if r.fleet, err = p.fleet(c.String(configFlag)); err != nil {
		return nil, err
	}
	if !p.own.Sealed(r.saved) {
		if err := p.adopt(c, dir, &r.saved, r.fleet, r.out); err != nil {
			return nil, err
		}
	}

	r.reader, err = results.OpenReadOnly(c.Context, cmp.Or(r.saved.ResultsURL, filepath.Join(dir, outdir.ResultsFile)))
	if err != nil {
		return nil, outdir.StoreError(err)
	}
	if r.Submission, err = r.saved.Submission(c.Context, r.reader); err != nil {
		r.reader.Close()
		return nil, err
	}
	if c.String(configFlag) != "" {
		maps.Copy(r.Providers, r.fleet.Providers)
	}
	return r, nil
}

// adopt makes the resume.json of a folder use the settings, addresses and results store that are configured here,
// unless a run of this user wrote it. If addresses differ, it asks.
func (p *process) adopt(c *cli.Context, dir string, saved *outdir.Resumption, fleet *config.Fleet, out *terminal.Console) error {
	if saved.ResultsURL != "" {
		if _, err := os.Stat(filepath.Join(dir, outdir.ResultsFile)); err == nil {
			saved.ResultsURL = ""
		} else if saved.ResultsURL, err = p.namedStore(c, dir, saved.ResultsURL); err != nil {
			return err
		}
	}
	differ := saved.Adopt(fleet)
	if differ == "" {
		return nil
	}

	what := fmt.Sprintf(
		"%s was not written by one of your runs, and its addresses differ from your configuration:%s\n",
		filepath.Join(dir, outdir.ResumeFile), differ,
	)
	nothing := "no calls were made; set the addresses in a file for --" + configFlag
	if asked, err := p.confirm(c.Context, out, what+"Call these addresses?", nothing); asked {
		return err
	}
	return usageError("%sset them in a file for --%s, or resume on a terminal, which asks for confirmation", what, configFlag)
}

// resumeWith returns the command line that resumes a run in a folder.
func resumeWith(c *cli.Context, dir string) string {
	line := "evalfleet resume " + wording.ShellWord(dir)
	for _, name := range slices.Concat(
		[]string{redisFlag}, redisFlags, []string{namespaceFlag, envFileFlag, queuesFlag, metricsFlagName, eventsFlag},
	) {
		value := c.String(name)
		if !c.IsSet(name) || name == metricsFlagName && value == metricsOff { // the same as without the flag
			continue
		}
		switch name {
		case redisFlag:
			value = dial.Redact(value)
		case queuesFlag:
			value = strings.Join(c.StringSlice(name), ",")
		}
		line += fmt.Sprintf(" --%s %s", name, wording.ShellWord(value))
	}
	return line
}
