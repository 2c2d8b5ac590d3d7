package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/view/plain"
	"github.com/evalfleet/evalfleet/view/show"
)

func showCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "Show one run in detail",
		ArgsUsage: "RUN [ID|DIR]",
		Description: "RUN is <evaluation>.<phase>.<index>. If the evaluation or its output folder is given as well, RUN can also be " +
			"<phase>.<index> or the id of a listed run. Prints the verdict or error, the prompt, and each call with its " +
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
			run, err := s.show(c.Context, id, own)
			if err != nil {
				return err
			}
			text := plain.Run(run, time.Now())
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

// runArguments are the run, without an evaluation if none is named, and where to look for it;
// or an argument that may be the own ID of a listed run.
func runArguments(c *cli.Context) (id eval.RunID, own, where string, err error) {
	argument := c.Args().First()
	if n := c.Args().Len(); n < 1 || n > 2 || argument == "" {
		return id, "", "", usageError("show wants a RUN, and its ID or folder, got %d arguments; write evalfleet show 0.17 DIR", n)
	}
	where = c.Args().Get(1)
	if id, err = eval.ParseRunID(argument); err == nil {
		if strings.HasPrefix(where, "ev-") && !folder.Is(where) && where != string(id.Evaluation) {
			return id, "", "", usageError("run %s is not one of %s", argument, where)
		}
		if where == "" && (c.String(redisFlag) != "" || c.String(outDirFlag) == "") {
			where = string(id.Evaluation)
		}
		return id, "", where, nil
	}
	id, ok := eval.ParseShort(argument)
	if !ok {
		if folder.Is(argument) || strings.HasPrefix(argument, "ev-") && where != "" {
			return id, "", "", usageError("put the run first: evalfleet show %s %s", c.Args().Get(1), argument)
		}
		own = argument
	}
	if where == "" && (c.String(redisFlag) != "" || c.String(outDirFlag) == "") {
		return id, "", "", usageError("run %s of which evaluation? write evalfleet show %s ID, or its output folder instead of the id%s",
			argument, argument, nearestFolder(""))
	}
	return id, own, where, nil
}

// show gathers what Redis and the sink know of a run.
// own, where it is not empty, is the listed run's own id.
func (s *source) show(ctx context.Context, id eval.RunID, own string) (*show.Run, error) {
	e, err := s.find(ctx, id.Evaluation)
	if err != nil {
		return nil, err
	}
	if e.Sink != nil {
		defer e.Sink.Close()
	}
	if own != "" {
		if id, err = listed(e, own); err != nil {
			return nil, err
		}
	}
	run, err := e.Run(ctx, id.Phase, id.Index)
	if errors.Is(err, show.ErrUnknown) {
		return nil, usageError("%w", err)
	}
	return run, withCode(exitUnreachable, err)
}

// listed is the listed run, or the prompt, that has an id of its own.
func listed(e *show.Evaluation, own string) (id eval.RunID, err error) {
	var known []string
	for phase, kind := range plan.Phases(e.Asked) {
		for index, id := range show.OwnIDs(e.Asked, kind) {
			if id == own {
				return eval.RunID{Evaluation: e.ID, Phase: phase, Index: index}, nil
			}
			known = append(known, id)
		}
	}
	if near := wording.Nearest(own, known); near != "" {
		return id, usageError("%s has no run %s; did you mean %s?", e.ID, own, near)
	}
	return id, usageError("%q is no run of %s: want <phase>.<index>, such as 0.17, or the own id of a listed run or a prompt", own, e.ID)
}

// find opens what there is to read of an evaluation, where none is named the one that
// the source is of.
func (s *source) find(ctx context.Context, id eval.ID) (_ *show.Evaluation, err error) {
	var from show.Source
	defer func() {
		if err != nil && from.Sink != nil {
			_ = from.Sink.Close()
		}
	}()
	if s.dir != "" {
		var newest eval.ID
		if from.Sink, newest, err = s.readFolder(ctx); err != nil {
			return nil, err
		}
		id = cmp.Or(id, newest)
	}
	id = cmp.Or(id, s.only)
	if redis := s.fleet(ctx); redis != nil {
		r, err := redis.store.WithChoices(ctx, id)
		switch {
		case err == nil:
			from.Store, from.Limits, from.Record = redis.store, redis.limiter(), r
			if from.Sink == nil {
				from.Sink = s.sink(ctx, r)
			}
		case !errors.Is(err, store.ErrNoEvaluation):
			return nil, withCode(exitUnreachable, err)
		case from.Sink == nil:
			return nil, unknownEvaluation(ctx, redis.store, id)
		}
	}
	e, err := show.Open(ctx, id, from)
	if errors.Is(err, results.ErrNoEvaluation) {
		return nil, usageError("%w", err)
	}
	return e, withCode(exitUnreachable, err)
}
