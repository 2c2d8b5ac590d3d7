package results

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/promptforge"
)

// AnswerError lists the answers that could not be written to their files. They are still in the
// results store and in ResponsesFile.
type AnswerError struct {
	Runs []string // the runs' own ids
	err  error    // the reasons, for the first few
}

func (e *AnswerError) Error() string {
	more := ""
	if n := len(e.Runs) - shownProblems; n > 0 {
		more = fmt.Sprintf("\nand %d more", n)
	}
	return e.err.Error() + more
}

func (e *AnswerError) Unwrap() error { return e.err }

// orNil returns e as an error, or nil if all answers were written.
func (e *AnswerError) orNil() error {
	if len(e.Runs) == 0 {
		return nil
	}
	return e
}

// shownProblems is how many answers that could not be written the error describes.
const shownProblems = 5

// AnswerFiles writes each answer of an evaluation's listed runs to the file that a Place names for
// it. It must not be used by several goroutines at once.
type AnswerFiles struct {
	place Place
	runs  *eval.Runs
	ours  *writtenAnswers   // below place.Working; nil: nothing is written there
	of    map[string]string // path to the run whose answer it is
	names []string          // in place.Dir, by position in runs.List
}

// NewAnswerFiles returns the files of listed runs. It fails if the record of earlier written
// answers cannot be read.
func NewAnswerFiles(place Place, runs *eval.Runs) (*AnswerFiles, error) {
	a := &AnswerFiles{place: place, runs: runs, of: map[string]string{}, names: promptforge.Names(runs, "")}
	if len(place.Outs) == 0 {
		return a, nil
	}
	var err error
	a.ours, err = readWrittenAnswers(cmp.Or(place.Working, "."))
	return a, err
}

// answers are those of an evaluation's listed runs, for use when all files are written.
type answers struct {
	files *AnswerFiles // nil: no runs are listed

	paths   map[string]string // of the written ones, by RunID.Short
	written []string          // in the order of the list
	failed  AnswerError
}

func newAnswers(place Place, e Evaluation) (*answers, error) {
	a := &answers{paths: map[string]string{}}
	var err error
	if e.Plan.Runs != nil {
		a.files, err = NewAnswerFiles(place, e.Plan.Runs)
	}
	return a, err
}

// writeAll writes all answers. Its error is that of the reader; answers that could not be written
// are in failed.
func (a *answers) writeAll(ctx context.Context, r Reader, id eval.ID) error {
	if a.files == nil {
		return nil
	}
	return a.each(ctx, r, id, func(run record.Run) {
		path, err := a.files.Write(run)
		if err != nil {
			a.failed.Runs = append(a.failed.Runs, run.Name)
			if len(a.failed.Runs) <= shownProblems {
				a.failed.err = errors.Join(a.failed.err, fmt.Errorf("answer of run %s: %w", run.Name, err))
			}
			return
		}
		a.paths[shortID(run.Phase, run.Index)] = path
		a.written = append(a.written, path)
	})
}

// find notes the answers whose files exist already.
func (a *answers) find(ctx context.Context, r Reader, id eval.ID) error {
	if a.files == nil {
		return nil
	}
	return a.each(ctx, r, id, func(run record.Run) {
		folder, name, _ := a.files.placeOf(run)
		if path := filepath.Join(folder, name); isRegular(path) {
			a.paths[shortID(run.Phase, run.Index)] = path
		}
	})
}

func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// each calls do for every listed run that has an answer.
func (a *answers) each(ctx context.Context, r Reader, id eval.ID, do func(record.Run)) error {
	for row, err := range r.Responses(ctx, id) {
		if err != nil {
			return err
		}
		if row.Kind == eval.KindRuns && row.State == eval.StateSucceeded.String() {
			do(row.Run)
		}
	}
	return nil
}

// Write writes the answer of a run to its file, completely or not at all, and returns the file's
// path. It replaces an earlier answer of the run.
func (a *AnswerFiles) Write(run record.Run) (path string, err error) {
	if run.Index < 0 || run.Index >= len(a.runs.List) {
		return "", fmt.Errorf("there is no listed run %d", run.Index)
	}
	folder, name, below := a.placeOf(run)
	path = filepath.Join(folder, name)
	if other, taken := a.of[path]; taken && other != run.Name {
		return "", fmt.Errorf("%s has the answer of run %s: give each its own out", path, other)
	}
	folder = cmp.Or(folder, ".")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", explainFile(path, err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", explainFile(path, err)
	}
	defer root.Close()

	if below {
		if err := a.ours.claim(root, name, run.Answer); err != nil {
			return "", fmt.Errorf("write %s: %w", path, err)
		}
	}

	err = WriteFile(root, name, func(w io.Writer) error {
		_, err := io.WriteString(w, run.Answer)
		return err
	})
	if err != nil {
		return "", err
	}

	a.of[path] = run.Name
	return path, nil
}

// placeOf returns the place of a run's answer: a folder, and the file's name in it. The file must not
// leave that folder. below reports whether the folder is the working one.
func (a *AnswerFiles) placeOf(run record.Run) (folder, name string, below bool) {
	if a.place.Out != "" {
		folder, name = filepath.Split(filepath.FromSlash(promptforge.Name(a.runs, filepath.ToSlash(a.place.Out), run.Index)))
		return folder, name, false
	}
	if pattern := a.place.Outs[run.Name]; pattern != "" {
		return a.place.Working, filepath.FromSlash(promptforge.Name(a.runs, pattern, run.Index)), true
	}
	return a.place.Dir, a.names[run.Index], false
}

// response is a line of responses.jsonl.
type response struct {
	RunID      string   `json:"run_id"` // the run's own
	ID         string   `json:"id"`
	Status     string   `json:"status"`
	Class      string   `json:"class,omitempty"`
	Error      string   `json:"error,omitempty"`
	Provider   string   `json:"provider"` // asked, like the model
	Model      string   `json:"model"`
	AnsweredBy string   `json:"answered_by,omitempty"` // provider:model
	FileA      string   `json:"file_a,omitempty"`
	FileB      string   `json:"file_b,omitempty"`
	Row        string   `json:"row,omitempty"`     // of a prompt
	Answer     *string  `json:"answer"`            // null: it has none, or several
	Answers    []string `json:"answers,omitempty"` // of a prompt with several answers
	Finish     string   `json:"finish,omitempty"`
	Path       string   `json:"path,omitempty"` // of the answer's own file
	Generation int      `json:"generation"`
	Attempts   int      `json:"attempts"`
	Started    *string  `json:"started_at"`
	Ended      *string  `json:"ended_at"`
	manifestUsage
}

// writeResponses writes a line for every listed run or prompt that has ended, in the
// order of the list. paths are those of answers by RunID.Short.
func writeResponses(ctx context.Context, w io.Writer, r Reader, id eval.ID, paths map[string]string) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false) // answers are for people to read
	for row, err := range r.Responses(ctx, id) {
		if err != nil {
			return err
		}
		if err := lines.Encode(responseOf(row, paths)); err != nil {
			return err
		}
	}
	return nil
}

func responseOf(row RunRow, paths map[string]string) response {
	short := shortID(row.Phase, row.Index)
	provider, model, _ := strings.Cut(row.Model, ":")
	instructions, input := pair(row.Documents)
	line := response{
		RunID: row.Name, ID: short, Status: row.State, Class: string(row.Class), Error: row.Error,
		Provider: provider, Model: model, AnsweredBy: row.AnsweredBy, FileA: instructions, FileB: input, Answers: row.Answers,
		Finish: row.Finish, Path: paths[short], Generation: row.Generation, Attempts: row.Attempts,
		Started: optionalTime(row.Started), Ended: optionalTime(row.Ended), manifestUsage: usageOf(row.Used),
	}
	if row.Kind == eval.KindPrompts {
		line.FileA, line.Row = "", instructions
	}
	if row.State == eval.StateSucceeded.String() && row.Answers == nil {
		line.Answer = &row.Answer
	}
	return line
}
