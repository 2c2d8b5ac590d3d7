package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
)

func showCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "tell everything about one run",
		ArgsUsage: "RUN [ID|DIR]",
		Description: "RUN is <evaluation>.<phase>.<index>, or <phase>.<index> with the evaluation or its output folder behind it, or so a listed run's own id. " +
			"Prints the verdict or the failure, the prompt as it was sent, each call with its answer, and of a run that has not ended " +
			"where it waits. The prompt is not stored: it is rebuilt from the plan and the documents, which always gives the same one.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: jsonFlag, Usage: "as a JSON object, for programs"}},
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
			text := showText(run, time.Now())
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

// runArguments are the run, without an evaluation where none is named, and where
// to look for it; or what may be the own id of a listed run.
func runArguments(c *cli.Context) (id eval.RunID, own, where string, err error) {
	argument := c.Args().First()
	if n := c.Args().Len(); n < 1 || n > 2 || argument == "" {
		return id, "", "", usageError("show wants a RUN, and its ID or folder, got %d arguments; write evalfleet show 0.17 DIR", n)
	}
	where = c.Args().Get(1)
	if id, err = eval.ParseRunID(argument); err == nil {
		if strings.HasPrefix(where, "ev-") && !isFolder(where) && where != string(id.Evaluation) {
			return id, "", "", usageError("run %s is not one of %s", argument, where)
		}
		if where == "" && (c.String(redisFlag) != "" || c.String(outDirFlag) == "") {
			where = string(id.Evaluation)
		}
		return id, "", where, nil
	}
	if id, err = eval.ParseRunID("ev-." + argument); err != nil {
		if isFolder(argument) || strings.HasPrefix(argument, "ev-") && where != "" {
			return id, "", "", usageError("the run stands first: evalfleet show %s %s", c.Args().Get(1), argument)
		}
		own = argument
	}
	id.Evaluation = ""
	if where == "" && (c.String(redisFlag) != "" || c.String(outDirFlag) == "") {
		return id, "", "", usageError("run %s of which evaluation? write evalfleet show %s ID, or its output folder instead of the id%s",
			argument, argument, nearestFolder(""))
	}
	return id, own, where, nil
}

// shownRun is what `show` says; the names are those of --json.
type shownRun struct {
	ID         string    `json:"id"`
	RunID      string    `json:"run_id,omitempty"` // a listed run's own
	Evaluation eval.ID   `json:"evaluation"`
	Name       string    `json:"name"`
	Kind       eval.Kind `json:"kind"`
	State      string    `json:"state"`      // eval.State.String; "none": not ended
	Generation int       `json:"generation"` // how often it was sent to be done again
	// Outcome is the last one recorded; also of an earlier generation, when the run
	// is being done again.
	Outcome *record.Run `json:"outcome,omitempty"`
	Where   string      `json:"recorded_in,omitempty"` // "sink", or "redis" while it waits to be collected

	Judge      string         `json:"judge"`
	Model      string         `json:"model"` // provider:model asked
	Overrides  map[string]any `json:"overrides,omitempty"`
	Grounded   bool           `json:"grounding_required"`
	Reasoned   bool           `json:"reasoning_required"`
	Item       string         `json:"item"`
	Documents  []string       `json:"documents"` // the one shown first first
	Candidates []string       `json:"candidates"`
	Trial      int            `json:"trial"`
	Queue      string         `json:"queue"`

	Waits *shownWait `json:"waits,omitempty"` // of a run that has not ended, where there is a Redis

	Prompt []shownTurn `json:"prompt"` // rebuilt
	Calls  []shownCall `json:"calls"`
}

// shownWait is where a run stands that has not ended.
type shownWait struct {
	Check     store.Verdict `json:"check"` // what a worker would be told: "run", "paused", …
	Attempts  int           `json:"attempts"`
	Deaths    int           `json:"worker_deaths"`
	NotBefore *time.Time    `json:"not_before,omitempty"`
	Started   *time.Time    `json:"started,omitempty"`
	Job       *shownJob     `json:"job,omitempty"`  // its call that goes on at the provider
	Task      *shownTask    `json:"task,omitempty"` // absent: not pushed yet
}

type shownJob struct {
	ID      string    `json:"id"` // the provider's name for it
	Model   string    `json:"model"`
	Stage   string    `json:"stage"`
	Started time.Time `json:"started"`
	Ends    time.Time `json:"ends"` // when it is given up
}

type shownTask struct {
	ID    string     `json:"id"`
	State string     `json:"state"` // asynq's: pending, active, retry, …
	Next  *time.Time `json:"next,omitempty"`
	Why   string     `json:"why,omitempty"` // it went back to the queue
	// Of an active task: the worker that has it, and since when by its clock.
	Worker string     `json:"worker,omitempty"`
	Alive  bool       `json:"worker_alive,omitempty"` // its heartbeat holds
	Since  *time.Time `json:"since,omitempty"`
}

type shownTurn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// shownCall is a call, with what it was sent besides the run's prompt.
type shownCall struct {
	record.Call
	Bound    string      `json:"bound_by_words,omitempty"`
	Turns    []shownTurn `json:"further_turns,omitempty"` // behind the prompt
	Alone    bool        `json:"turns_alone,omitempty"`   // those turns are all that was sent
	Insisted string      `json:"insisted,omitempty"`      // at the end of the last turn
}

// show gathers what Redis and the sink know of a run.
// own, where it is not empty, is the listed run's own id.
func (s *source) show(ctx context.Context, id eval.RunID, own string) (*shownRun, error) {
	found, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	if own != "" {
		if found.id, err = found.listed(own); err != nil {
			return nil, err
		}
	}
	return found.show(ctx)
}

// show is everything about the run that id names.
func (f *runSource) show(ctx context.Context) (*shownRun, error) {
	run, err := f.planned()
	if err != nil {
		return nil, err
	}
	if err := f.recorded(ctx, run); err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	if err := f.waiting(ctx, run); err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	if err := f.prompt(ctx, run); err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	return run, nil
}

// find opens what there is to read of a run's evaluation.
func (s *source) find(ctx context.Context, id eval.RunID) (*runSource, error) {
	f := &runSource{id: id, redis: s.fleet(ctx)}
	if s.dir != "" {
		reader, newest, err := readFolder(ctx, s.dir)
		if err != nil {
			return nil, err
		}
		f.sink = reader
		if f.id.Evaluation == "" {
			f.id.Evaluation = newest
		}
	}
	if f.id.Evaluation == "" {
		f.id.Evaluation = s.only
	}
	if f.redis != nil {
		r, err := f.redis.store.WithChoices(ctx, f.id.Evaluation)
		switch {
		case err == nil:
			f.settings, f.phases, f.name = r.Settings, r.Phases, r.Name
			if f.sink == nil {
				f.sink = s.sink(ctx, r.ID, r.SinkURL, r.Name)
			}
		case !errors.Is(err, store.ErrNoEvaluation):
			f.Close()
			return nil, withCode(exitUnreachable, err)
		case f.sink == nil:
			return nil, unknownEvaluation(ctx, f.redis.store, f.id.Evaluation)
		default:
			f.redis = nil // of another evaluation
		}
	}
	if err := f.readPlan(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
