package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/dial"
	"github.com/evalfleet/evalfleet/results"
)

func resumeCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "let a paused evaluation go on, or an interrupted run",
		ArgsUsage: "ID|DIR",
		Description: "Lets an evaluation that was paused go on. With the output folder of an interrupted `evalfleet run` it does the rest of it, " +
			"with the documents and settings as they were then: what is recorded is never asked again. " +
			"Keys come from the environment, as they did; providers of --config stand in for those of the same name.",
		Flags: append(workFlags(metricsOff), failOnOption()),
		Action: func(c *cli.Context) error {
			going, err := p.going(c)
			if err != nil {
				return err
			}
			if !going {
				return p.continueRun(c, nil)
			}
			t, err := p.target(c)
			if err != nil {
				return err
			}
			defer t.client.Close()
			return t.tell(t.resume(c.Context))
		},
	}
}

// continueRun does the rest of the run in a folder. classes are those of failed
// runs that are made again; nil: none are.
func (p *process) continueRun(c *cli.Context, classes []string) error {
	dir := c.Args().First()
	how, err := workOf(c)
	if err != nil {
		return err
	}
	saved, err := readResumption(dir)
	if err != nil {
		return err
	}
	if saved.Redis && c.String(redisFlag) == "" {
		return usageError("the run in %s worked with a Redis that --%s named: name it again", dir, redisFlag)
	}
	at, err := p.fleetRedis(c)
	if err != nil {
		return err
	}
	out, log, err := p.output(c)
	if err != nil {
		return err
	}
	reader, err := results.OpenReadOnly(c.Context, saved.sink(dir))
	if err != nil {
		return sinkError(err)
	}
	defer reader.Close()
	submission, err := saved.submission(c.Context, reader)
	if err != nil {
		return err
	}
	if path := c.String(configFlag); path != "" {
		fleet, err := p.fleet(path)
		if err != nil {
			return err
		}
		maps.Copy(submission.Providers, fleet.Providers)
	}
	var retry func(enqueue.Recorded) bool
	if classes != nil {
		if retry, err = failedIn(c.Context, reader, saved.Evaluation, classes); err != nil {
			return err
		}
	}
	place := saved.place(dir)
	place.Outs = submission.Settings.Outs
	j := &job{
		submission: submission, redis: at, namespace: c.String(namespaceFlag),
		dir: dir, place: place, sinkURL: saved.Sink, how: how, env: p.env, atOnce: p.atOnce,
		failOn: saved.FailOn, retry: retry, resumeWith: resumeWith(c, dir), again: "evalfleet run FILE --" + outDirFlag + " " + quoted(dir), stdout: p.stdout, console: out, log: log,
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
	return j.run(c.Context)
}

// resumeWith is the command that goes on with a run in a folder.
func resumeWith(c *cli.Context, dir string) string {
	line := "evalfleet resume " + quoted(dir)
	for _, name := range slices.Concat([]string{redisFlag}, redisFlags, []string{namespaceFlag, envFileFlag, queuesFlag, metricsFlagName, eventsFlag}) {
		value := c.String(name)
		if !c.IsSet(name) || name == metricsFlagName && value == metricsOff { // as without it
			continue
		}
		switch name {
		case redisFlag:
			value = dial.Redact(value)
		case queuesFlag:
			value = strings.Join(c.StringSlice(name), ",")
		}
		line += fmt.Sprintf(" --%s %s", name, quoted(value))
	}
	return line
}
