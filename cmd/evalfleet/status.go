package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/view"
	"github.com/evalfleet/evalfleet/view/plain"
)

const jsonFlag = "json"

func statusCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "Show progress",
		ArgsUsage: "[ID|DIR]",
		Description: "Lists the evaluations in Redis, or shows one: progress by phase, pace, binding limits and queues. With an " +
			"output folder, it shows the run in progress there, or the recorded results. Tokens, cost and error classes are " +
			"shown if the results store can be read from this machine.",
		Flags: lookFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("status takes one ID or folder or none, got %d", c.Args().Len())
			}
			s, err := p.source(c, c.Args().First())
			if err != nil {
				return err
			}
			defer s.Close()
			watched := newStatus(s)
			return p.look(c, func(ctx context.Context, now time.Time) (string, bool, error) {
				list, err := watched.list(ctx, now)
				if err != nil {
					return "", false, err
				}
				// The list of all evaluations never ends: others may come.
				last := (s.dir != "" || s.only != "") && !slices.ContainsFunc(list, view.Evaluation.UnderWay)
				if c.Bool(jsonFlag) {
					text, err := asJSON(list, c.Bool(watchFlag))
					return text, last, err
				}
				return plain.Status(list, now), last, nil
			})
		},
	}
}

// status looks at the evaluations of a source, again and again where it is watched.
type status struct {
	source *source
	looks  *view.Looks
}

func newStatus(s *source) *status {
	looks := view.NewLooks(s.log)
	looks.Open = s.sink
	return &status{source: s, looks: looks}
}

// list looks once. A run that has just ended, or was killed, leaves its folder.
func (s *status) list(ctx context.Context, now time.Time) ([]view.Evaluation, error) {
	list := []view.Evaluation{}
	var err error
	if redis := s.source.fleet(ctx); redis != nil {
		list, err = s.inRedis(ctx, redis, now)
	}
	if s.source.dir != "" && (err != nil || len(list) == 0) {
		list, err = s.inFolder(ctx, now)
	}
	slices.SortFunc(list, func(a, b view.Evaluation) int { return a.Created.Compare(b.Created) })
	return list, err
}

// inRedis reads one evaluation, or all that Redis knows.
func (s *status) inRedis(ctx context.Context, d *drain, now time.Time) ([]view.Evaluation, error) {
	ids, err := s.source.evaluations(ctx, d)
	if err != nil {
		return nil, err
	}
	list, err := s.looks.InRedis(ctx, d.view(), ids, now)
	return list, withCode(exitUnreachable, err)
}

// inFolder reads what an output folder holds when no Redis can be asked.
func (s *status) inFolder(ctx context.Context, now time.Time) ([]view.Evaluation, error) {
	url, only, err := s.source.sinkIn()
	if err != nil {
		return nil, err
	}
	reader, _, err := folder.ReadStore(ctx, url, only)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	list, err := s.looks.InFolder(ctx, reader, only, func(of results.Listed) record.Status { return statusInFolder(s.source.dir, of) }, now)
	return list, withCode(exitUnreachable, err)
}

// view is the fleet as it is looked at.
func (d *drain) view() view.Fleet { return view.Fleet{Store: d.store, Limits: d.limiter()} }

func statusInFolder(dir string, of results.Listed) record.Status {
	switch busy := inUse(dir); {
	case !of.Cancelled.IsZero() && !busy:
		return record.StatusCancelled
	case !of.Finished.IsZero():
		return record.StatusDone
	case busy:
		return view.StatusRunning
	case of.Stopped != nil:
		return view.StatusStopped
	}
	return view.StatusInterrupted
}

// inUse reports whether a process holds an output folder.
func inUse(dir string) bool {
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	out, err := folder.Open(dir)
	if err != nil {
		return true
	}
	_ = out.Close()
	return false
}

// asJSON is a value as JSON, on one line or for reading.
func asJSON(value any, compact bool) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	if !compact {
		encoder.SetIndent("", "  ")
	}
	err := encoder.Encode(value)
	return out.String(), err
}
