package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

// Names of the exported files.
const (
	ResponsesFile = "responses.jsonl"
	ManifestFile  = "manifest.json"

	// AnswersFile, below Place.Working, records the answers that were written below that folder.
	AnswersFile = "evalfleet-out/answers.jsonl"
)

// Rankings holds what this package does not compute: tables in the order in which they are written, and the settings
// that they depend on.
type Rankings struct {
	Tables  []table.Sheet
	Choices *Choices // nil: candidates have no abilities
}

// Choices are the settings of a ranking.
type Choices struct {
	// Sentence describes all of them in words.
	Sentence       string `json:"sentence"`
	Ties           string `json:"ties"` // davidson or half
	Fallbacks      bool   `json:"fallbacks"`
	Length         bool   `json:"length"`
	PositionEffect bool   `json:"position_effect"`
	FlipsTie       bool   `json:"flips_tie"`   // a pair whose verdict differs between its orders is a tie
	JudgeScale     bool   `json:"judge_scale"` // judges are weighted by how well they tell candidates apart
	By             string `json:"by"`          // what may make verdicts depend on each other
	Clusters       int    `json:"clusters"`
	Draws          int    `json:"draws"`
	Seed           uint64 `json:"seed"`
}

// Place says where files are written.
type Place struct {
	// Dir is the output folder, which must exist.
	Dir string
	// Outs holds the patterns that name the answers of listed runs below Working, by the runs' own
	// IDs. The answer of a run without one is written to Dir. They come from the command that
	// submitted the evaluation. Patterns stored with an evaluation are never read here, because a
	// results store may come from another person.
	Outs map[string]string
	// Working is the folder that Outs are relative to; by default the process's own. No answer
	// leaves it through symbolic links, and no path element may begin with a dot. No file that is
	// not an answer (AnswersFile) is replaced.
	Working string
	// Out names the file of the only listed run's answer, anywhere, overriding its settings. It
	// comes from the user of this machine.
	Out string
	// Data is the data folder of an experiment: its files go to an output folder below it. Empty:
	// they are written to Dir.
	Data string
	// Input is an experiment's file, which is copied next to its answers; empty: its lines are
	// written.
	Input string
	// CSV writes the answers of an experiment as CSV, too.
	CSV bool
}

// Exported holds the paths of the written files.
type Exported struct {
	Files   []string // in the output folder, and those of an experiment in its data folder
	Answers []string // of listed runs that succeeded, in order; or an experiment's lines with answers
}

// Export writes evaluation id's files. The answers of listed runs go where place says. The output
// folder gets the results of the kinds that the evaluation has, the rankings given, and the
// manifest.
//
// Each file is written completely or not at all, and replaces an earlier one in one step. The same
// results give the same bytes. The files of an experiment have the time of its first submission in
// their names, so a continued experiment replaces its earlier files.
//
// An answer that cannot be written does not keep other files from being written; the error is then
// an *AnswerError.
func Export(ctx context.Context, place Place, r Reader, id eval.ID, rankings Rankings) (Exported, error) {
	var done Exported
	e, err := r.Evaluation(ctx, id)
	if err != nil {
		return done, err
	}

	own, err := newAnswers(place, e)
	if err != nil {
		return done, err
	}
	if err := own.writeAll(ctx, r, id); err != nil {
		return done, err
	}
	done.Answers = own.written
	if done.Files, err = writeFiles(place.Dir, exports(ctx, r, e, rankings, own.paths)); err != nil {
		return done, errors.Join(own.failed.orNil(), err)
	}

	if e.Plan.Prompts != nil && e.Plan.Prompts.Format == eval.PromptsExperiment {
		completed, all, err := (&experiment{place, e, r}).write(ctx)
		done.Files = append(done.Files, all...)
		if err != nil {
			return done, errors.Join(own.failed.orNil(), err)
		}
		done.Answers = append(done.Answers, completed)
	}

	return done, own.failed.orNil()
}

// ExportManifest writes only the manifest, of an evaluation that has not ended. It names the
// answers that have been written.
func ExportManifest(ctx context.Context, place Place, r Reader, id eval.ID) error {
	e, err := r.Evaluation(ctx, id)
	if err != nil {
		return err
	}
	own, err := newAnswers(place, e)
	if err != nil {
		return err
	}
	if err := own.find(ctx, r, id); err != nil {
		return err
	}
	_, err = writeFiles(place.Dir, []file{manifestFile(ctx, r, e, nil, own.paths)})
	return err
}

func manifestFile(ctx context.Context, r Reader, e Evaluation, ranking *Choices, answers map[string]string) file {
	return file{ManifestFile, func(w io.Writer) error { return writeManifest(ctx, w, r, e, ranking, answers) }}
}

// ExportNames returns the names of the files that Export and ExportParquet write into the output folder, except for
// those of an experiment. ranked are the names of the tables in Rankings.
func ExportNames(ctx context.Context, r Reader, e Evaluation, ranked ...string) (names []string) {
	var rankings Rankings
	for _, name := range ranked {
		rankings.Tables = append(rankings.Tables, table.Sheet{Name: name})
	}
	for _, file := range append(exports(ctx, r, e, rankings, nil), parquets(ctx, r, e, rankings)...) {
		names = append(names, file.name)
	}
	return names
}

// WriteExport writes to w the file that Export or ExportParquet writes under that name, but without the paths of
// answers. The error is fs.ErrNotExist if the evaluation has no file of that name.
func WriteExport(ctx context.Context, w io.Writer, r Reader, e Evaluation, rankings Rankings, name string) error {
	for _, file := range append(exports(ctx, r, e, rankings, nil), parquets(ctx, r, e, rankings)...) {
		if file.name == name {
			return file.write(w)
		}
	}
	return fs.ErrNotExist
}

// exports returns the files of an output folder.
func exports(ctx context.Context, r Reader, e Evaluation, rankings Rankings, answers map[string]string) (files []file) {
	for _, sheet := range plain(ctx, r, e) {
		files = append(files, fileOf(sheet, table.CSV))
	}
	for _, sheet := range byKind(ctx, r, e) {
		files = append(files, both(sheet)...)
	}
	if e.Plan.Runs != nil || e.Plan.Prompts != nil {
		files = append(files, file{ResponsesFile, func(w io.Writer) error { return writeResponses(ctx, w, r, e.ID, answers) }})
	}
	if e.Plan.Prompts != nil && e.Plan.Prompts.Format == eval.PromptsBatch {
		files = append(files, (&batch{e, r}).files(ctx)...)
	}

	for _, sheet := range rankings.Tables {
		files = append(files, both(sheet)...)
	}
	return append(files, manifestFile(ctx, r, e, rankings.Choices, answers))
}

// parquets returns every table of an evaluation as Parquet.
func parquets(ctx context.Context, r Reader, e Evaluation, rankings Rankings) (files []file) {
	for _, sheet := range slices.Concat(plain(ctx, r, e), byKind(ctx, r, e), rankings.Tables) {
		files = append(files, fileOf(sheet, table.Parquet))
	}
	return files
}

// ExportParquet writes every table of an evaluation as Parquet to a folder, which must exist. It returns the paths.
func ExportParquet(ctx context.Context, dir string, r Reader, e Evaluation, rankings Rankings) ([]string, error) {
	return writeFiles(dir, parquets(ctx, r, e, rankings))
}

// ExportTable writes a table to a folder, which must exist, as Export writes rankings. It returns the paths.
func ExportTable(dir string, sheet table.Sheet) ([]string, error) {
	return writeFiles(dir, both(sheet))
}

// writeFiles writes files into a folder, and returns the paths of those that it has written.
func writeFiles(dir string, files []file) (paths []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("output folder: %w", err)
	}
	defer root.Close()
	for _, file := range files {
		if err := WriteFile(root, file.name, file.write); err != nil {
			return paths, err
		}
		paths = append(paths, filepath.Join(dir, file.name))
	}
	return paths, nil
}

// file is one exported file.
type file struct {
	name  string
	write func(io.Writer) error
}

// both returns the files of a table: CSV and, next to it, JSON Lines.
func both(sheet table.Sheet) []file {
	return []file{fileOf(sheet, table.CSV), fileOf(sheet, table.JSONLines)}
}

func fileOf(sheet table.Sheet, format table.Format) file {
	return file{sheet.Name + format.Ending, func(w io.Writer) error { return format.Write(sheet, w) }}
}

func shortID(phase, index int) string { return eval.RunID{Phase: phase, Index: index}.Short() }
