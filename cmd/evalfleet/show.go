package main

import (
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

func showCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "Show one run in detail",
		ArgsUsage: "RUN [ID|DIR]",
		Description: "RUN is <evaluation>.<phase>.<index>. If the evaluation or its output folder is given as well, RUN can also be " +
			"<phase>.<index>, r<phase>-<index> as in the CSV files, or the id of a listed run. Prints the verdict or error, " +
			"the prompt, and each call with its " +
			"answer; for an unfinished run, also where it waits. Prompts are not stored: they are rebuilt from the plan and " +
			"the documents, which always gives the same text.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: jsonFlag, Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			id, own, where, err := runArguments(c)
			if err != nil {
				return err
			}
			s, err := p.source(c, where)
			if err != nil {
				return err
			}
			defer s.Close()
			run, err := s.Run(c.Context, id, own)
			if err != nil {
				return err
			}

			text := plain.Run(run, time.Now(), printing{env: p.env}.on(p.stdout).Width)
			if c.Bool(jsonFlag) {
				if text, err = asJSON(run, false); err != nil {
					return err
				}
			}

			_, err = io.WriteString(p.stdout, text)
			return err
		},
	}
}

// runArguments parses the arguments of `show`. id is the run, without an evaluation if none is named; where is the
// evaluation's ID or folder, "" if --out-dir names it. Unless the argument has a dot, as other IDs of runs have, own is
// the argument, which may be the own ID of a listed run.
func runArguments(c *cli.Context) (id eval.RunID, own, where string, err error) {
	argument := c.Args().First()
	if n := c.Args().Len(); n < 1 || n > 2 || argument == "" {
		return id, "", "", usageError("show wants a RUN, and its ID or folder, got %d arguments; write evalfleet show 0.17 DIR", n)
	}
	where = c.Args().Get(1)
	if id, err = eval.ParseRunID(argument); err == nil {
		if strings.HasPrefix(where, "ev-") && !outdir.Is(where) && where != string(id.Evaluation) {
			return id, "", "", usageError("run %s is not one of %s", argument, where)
		}
		if where == "" && (c.String(redisFlag) != "" || c.String(outDirFlag) == "") {
			where = string(id.Evaluation)
		}
		return id, "", where, nil
	}

	id, ok := eval.ParseShort(argument)
	if argument != id.Short() {
		own = argument
	}
	if !ok {
		if outdir.Is(argument) || strings.HasPrefix(argument, "ev-") && where != "" {
			return id, "", "", usageError("put the run first: evalfleet show %s %s", c.Args().Get(1), argument)
		}
	}

	if where == "" && (c.String(redisFlag) != "" || c.String(outDirFlag) == "") {
		return id, "", "", usageError("run %s: name its evaluation: evalfleet show %s ID, or its output folder instead of the id%s",
			argument, argument, outdir.Nearest(""))
	}
	return id, own, where, nil
}
