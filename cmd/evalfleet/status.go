package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

const jsonFlag = "json"

func statusCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "Show progress",
		ArgsUsage: "[ID|DIR]",
		Description: "Lists the evaluations in Redis, or shows one: progress by phase, pace, the limits that calls wait for, and queues. " +
			"With an output folder, it shows the run in progress there, or the recorded results and who leads; with a folder of output " +
			"folders, such as " + outdir.Root + ", all of them. The newest evaluation is last, next to the " +
			"prompt; the page of evaluations has it first. Tokens, cost and error classes are " +
			"shown if the results store can be read from this machine.",
		Flags: lookFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("status takes one ID or folder or none, got %d", c.Args().Len())
			}

			sources, err := p.sources(c, c.Args().First())
			if err != nil {
				return err
			}
			var watched fleet.StatusReaders
			for _, s := range sources {
				defer s.Close()
				watched = append(watched, fleet.NewStatusReader(s))
			}
			return p.showFrames(c, func(ctx context.Context, now time.Time) (string, bool, error) {
				list, err := watched.List(ctx, now)
				if err != nil {
					return "", false, err
				}
				// The list of all evaluations never ends: others may be submitted.
				last := (sources[0].Dir != "" || sources[0].Only != "") && !slices.ContainsFunc(list, view.Evaluation.UnderWay)
				if c.Bool(jsonFlag) {
					text, err := asJSON(list, c.Bool(watchFlag))
					return text, last, err
				}
				return plain.Status(list, now, p.columns(p.stdout)), last, nil
			})
		},
	}
}

// asJSON encodes a value as JSON, on one line or indented for reading.
func asJSON(value any, compact bool) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	if !compact {
		encoder.SetIndent("", "  ")
	}
	err := encoder.Encode(value)
	return out.String(), err
}
