package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/results"
)

const jsonFlag = "json"

func statusCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "say how far evaluations are",
		ArgsUsage: "[ID|DIR]",
		Description: "Lists the evaluations in Redis, or one of them, with what has ended in each phase. " +
			"With an output folder it reads what is recorded there, also while a run goes on.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: jsonFlag, Usage: "as a JSON array, for programs"}},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("status takes one ID or folder or none, got %d", c.Args().Len())
			}
			list, err := p.standings(c, c.Args().First())
			if err != nil {
				return err
			}
			return writeStandings(p.stdout, list, c.Bool(jsonFlag))
		},
	}
}

// standings reads from a folder where one is named, else from Redis.
func (p *process) standings(c *cli.Context, argument string) ([]standing, error) {
	if isFolder(argument) {
		return standingsInFolder(c.Context, argument)
	}
	d, err := p.openDrain(c)
	if err != nil {
		return nil, err
	}
	defer d.client.Close()
	return standingsInRedis(c.Context, d.store, eval.ID(argument))
}

// standing is one evaluation's line of `status`; the names are those of --json.
type standing struct {
	Evaluation eval.ID         `json:"evaluation"`
	Name       string          `json:"name"`
	Status     record.Status   `json:"status"`
	Created    time.Time       `json:"created"`
	Phases     []phaseStanding `json:"phases"`
	// Uncollected is how many results wait in Redis for a collector.
	Uncollected int64          `json:"uncollected"`
	Classes     map[string]int `json:"failed_by_class,omitempty"` // known where the results are
}

type phaseStanding struct {
	Kind      eval.Kind `json:"kind"`
	Runs      int       `json:"runs"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	Cancelled int       `json:"cancelled"`
}

// standingsInRedis reads one evaluation, or all that Redis knows, oldest first.
func standingsInRedis(ctx context.Context, s *store.Store, only eval.ID) ([]standing, error) {
	ids := []eval.ID{only}
	if only == "" {
		var err error
		if ids, err = s.Evaluations(ctx); err != nil {
			return nil, withCode(exitUnreachable, err)
		}
	}
	all, err := s.Standings(ctx, ids)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	var list []standing
	for _, id := range ids {
		r, err := s.Evaluation(ctx, id)
		switch {
		case errors.Is(err, store.ErrNoEvaluation) && only == "":
			continue // expired or deleted, and not yet taken off the list
		case errors.Is(err, store.ErrNoEvaluation):
			return nil, usageError("%w; `evalfleet status` lists those that there are", err)
		case err != nil:
			return nil, withCode(exitUnreachable, err)
		}
		line := standing{Evaluation: id, Name: r.Name, Status: all[id].Status, Created: r.Created, Uncollected: all[id].Waiting}
		for i, phase := range r.Phases {
			of := phaseStanding{Kind: phase.Kind, Runs: phase.Runs}
			for queue := range phase.Queues {
				of.Succeeded += all[id].Counts[record.CountField(i, eval.StateSucceeded, queue)]
				of.Failed += all[id].Counts[record.CountField(i, eval.StateFailed, queue)]
				of.Cancelled += all[id].Counts[record.CountField(i, eval.StateCancelled, queue)]
			}
			line.Phases = append(line.Phases, of)
		}
		list = append(list, line)
	}
	slices.SortFunc(list, func(a, b standing) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// standingsInFolder reads what an output folder holds.
func standingsInFolder(ctx context.Context, dir string) ([]standing, error) {
	reader, _, err := readFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	listed, err := reader.Evaluations(ctx)
	if err != nil {
		return nil, withCode(exitUnreachable, err)
	}
	var list []standing
	for _, of := range listed {
		counts, err := reader.Counts(ctx, of.ID)
		if err != nil {
			return nil, withCode(exitUnreachable, err)
		}
		line := standing{Evaluation: of.ID, Name: of.Name, Created: of.Created, Status: statusInFolder(dir, of), Classes: map[string]int{}}
		for _, phase := range counts {
			line.Phases = append(line.Phases, phaseStanding{
				Kind: phase.Kind, Runs: phase.Runs, Succeeded: phase.Succeeded, Failed: phase.Failed, Cancelled: phase.Cancelled,
			})
			for class, n := range phase.Classes {
				line.Classes[class] += n
			}
		}
		list = append(list, line)
	}
	return list, nil
}

// Words of an evaluation that only its folder knows.
const (
	statusInterrupted record.Status = "interrupted"
	statusRunning     record.Status = "running"
)

func statusInFolder(dir string, of results.Listed) record.Status {
	switch {
	case !of.Finished.IsZero():
		return record.StatusDone
	case inUse(dir):
		return statusRunning
	}
	return statusInterrupted
}

// writeStandings prints them as a table, or as a JSON array.
func writeStandings(w io.Writer, list []standing, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		if list == nil {
			list = []standing{}
		}
		return encoder.Encode(list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no evaluation here; `evalfleet enqueue FILE` or `evalfleet run FILE` makes one")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVALUATION\tNAME\tSTATUS\tPHASE\tDONE\tFAILED\tUNCOLLECTED")
	for _, line := range list {
		for i, phase := range line.Phases {
			id, name, status := string(line.Evaluation), clip(line.Name, 24), string(line.Status)
			if i > 0 {
				id, name, status = "", "", ""
			}
			ended := phase.Succeeded + phase.Failed + phase.Cancelled
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d/%d\t%d\t%d\n", id, name, status, phase.Kind, ended, phase.Runs, phase.Failed, line.Uncollected)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, line := range list {
		if len(line.Classes) > 0 {
			fmt.Fprintf(w, "%s failed: %s\n", line.Evaluation, classes(line.Classes))
		}
	}
	return nil
}

func classes(counts map[string]int) string {
	names := make([]string, 0, len(counts))
	for class, n := range counts {
		names = append(names, fmt.Sprintf("%d %s", n, class))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// inUse reports whether a process holds an output folder.
func inUse(dir string) bool {
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	out, err := openFolder(dir)
	if err != nil {
		return true
	}
	_ = out.Close()
	return false
}
