package outdir

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/promptforge"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view/show"
)

// LogsFolder is a folder in an output folder, with a file for each listed run.
const LogsFolder = "logs"

// runLogs writes what `show --json` prints about each listed run to a file named after the run's
// own id. The files contain no key: none is recorded, and a key that a provider repeats is removed
// from its answer.
type runLogs struct {
	evaluation *show.RunReader
	dir        string
	names      []string // by the run's position in the list; none: no runs are listed
}

func newRunLogs(ctx context.Context, dir string, reader results.Reader, id eval.ID) (*runLogs, error) {
	e, err := show.Open(ctx, id, show.Stores{Results: reader})
	if err != nil {
		return nil, err
	}
	l := &runLogs{evaluation: e, dir: dir}
	if e.Asked.Runs == nil {
		return l, nil
	}
	l.names = promptforge.Names(e.Asked.Runs, LogsFolder+"/<run_id>.json")
	return l, nil
}

func (l *runLogs) write(ctx context.Context, phase, index int) error {
	if index < 0 || index >= len(l.names) {
		return fmt.Errorf("there is no listed run %d", index)
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	defer root.Close()
	run, err := l.evaluation.Run(ctx, phase, index)
	if err != nil {
		return err
	}
	return results.WriteFile(root, l.names[index], func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(run)
	})
}

// WriteLogs writes the logs of all listed runs that have ended.
func WriteLogs(ctx context.Context, dir string, reader results.Reader, id eval.ID) error {
	logs, err := newRunLogs(ctx, dir, reader, id)
	if err != nil || len(logs.names) == 0 {
		return err
	}
	for row, err := range reader.Responses(ctx, id) {
		if err == nil && row.Kind == eval.KindRuns {
			err = logs.write(ctx, row.Phase, row.Index)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EarlyFiles writes the answer and the log of each listed run as soon as its result is stored. So
// they exist even if a long list is interrupted. At the end, WriteLogs and results.Export write all
// of them again, and return what could not be written.
type EarlyFiles struct {
	Reader results.Reader
	ID     eval.ID
	Place  results.Place
	Log    zerolog.Logger

	answers *results.AnswerFiles // nil until the first listed run has ended, like logs
	logs    *runLogs
	failed  bool // already logged
}

// Committed writes the files of the runs among entries that a results store has committed.
func (f *EarlyFiles) Committed(ctx context.Context, entries []record.Entry) {
	for _, entry := range entries {
		if entry.Run == nil || entry.Run.Kind != eval.KindRuns {
			continue
		}
		if err := f.write(ctx, *entry.Run); err != nil && !f.failed {
			f.failed = true
			f.Log.Warn().Err(err).Str("run_id", entry.Run.Name).Msg("cannot write files of this run yet; trying again at the end")
		}
	}
}

func (f *EarlyFiles) write(ctx context.Context, run record.Run) error {
	if f.answers == nil {
		e, err := f.Reader.Evaluation(ctx, f.ID)
		if err != nil {
			return err
		}
		answers, err := results.NewAnswerFiles(f.Place, e.Plan.Runs)
		if err != nil {
			return err
		}
		if f.logs, err = newRunLogs(ctx, f.Place.Dir, f.Reader, f.ID); err != nil {
			return err
		}
		f.answers = answers
	}
	if run.State == eval.StateSucceeded.String() {
		if _, err := f.answers.Write(run); err != nil {
			return err
		}
	}
	return f.logs.write(ctx, run.Phase, run.Index)
}
