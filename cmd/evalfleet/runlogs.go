package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/show"
	"github.com/evalfleet/evalfleet/results"
)

// logsFolder, in an output folder, has a file for each listed run.
const logsFolder = "logs"

// writeLogs writes of each listed run that has ended what `show --json` says of it,
// into a file called by its own id. No key is in it: none is recorded, and what a
// provider repeats of one was struck out of its answer.
func writeLogs(ctx context.Context, dir string, sink results.Reader, id eval.ID) error {
	e, err := show.Open(ctx, id, show.Source{Sink: sink})
	if err != nil {
		return err
	}
	if e.Asked.Runs == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	defer root.Close()
	taken := map[string]bool{}
	for row, err := range sink.Responses(ctx, id) {
		if err != nil {
			return err
		}
		if row.Kind != eval.KindRuns {
			continue
		}
		run, err := e.Run(ctx, row.Phase, row.Index)
		if err != nil {
			return err
		}
		text, err := asJSON(run, false)
		if err != nil {
			return fmt.Errorf("encode log of run %s: %w", row.Name, err)
		}
		name := e.Asked.Runs.Output(logsFolder+"/<run_id>.json", row.Index)
		if taken[strings.ToLower(name)] { // some file systems take both cases for one
			name = e.Asked.Runs.Output(fmt.Sprintf("%s/<run_id>.%d.json", logsFolder, row.Index), row.Index)
		}
		taken[strings.ToLower(name)] = true
		err = results.WriteFile(root, name, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
