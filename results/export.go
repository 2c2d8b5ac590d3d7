package results

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/evalfleet/evalfleet/eval"
)

// Names of the exported files.
const (
	PairwiseFile  = "pairwise_results.csv"
	SingleFile    = "single_doc_results.csv"
	PanelFile     = "panel_results.csv"
	ResponsesFile = "responses.jsonl"
	EloFile       = "elo_summary.csv"
	RankingFile   = "ranking.csv"
	ManifestFile  = "manifest.json"
)

// RankingRow is a line of ranking.csv. A number that is not defined is NaN, a
// rank that is not defined 0; both become empty cells.
type RankingRow struct {
	Candidate               string
	Rank, RankLow, RankHigh int
	Ability, SE, Low, High  float64
	Wins, Losses, Ties      int
	WinRate                 float64
}

// EloRow is a line of elo_summary.csv; NaN becomes an empty cell.
type EloRow struct {
	DocID string
	Elo   float64
}

// Rankings are the finished rows of the files that results does not compute, in
// the order in which they are to be written. A nil list writes no file.
type Rankings struct {
	Elo     []EloRow
	Ranking []RankingRow
}

// Place is where files are written.
type Place struct {
	// Dir is the output folder, which must exist.
	Dir string
	// Working is the folder below which listed runs name their answers' files; by
	// default the process's own. They do not leave it, whatever they are called and
	// wherever symbolic links lead.
	Working string
	// Out names the file of the only listed run's answer, anywhere, in place of what
	// its settings say. It is what somebody at this machine has asked for.
	Out string
}

// Exported are the paths of what was written.
type Exported struct {
	Files   []string // in the output folder
	Answers []string // of listed runs that succeeded, in the order of their list
}

// Export writes evaluation id's files: answers of listed runs where they belong,
// and into the output folder the results of the kinds that the evaluation has, the
// rankings given, and the manifest. Each file is complete under its name or not
// there: an earlier one is replaced in one step. The same results give the same
// bytes. An answer that cannot be written keeps no other file from being written;
// the error is then an *AnswerError.
func Export(ctx context.Context, place Place, r Reader, id eval.ID, rankings Rankings) (Exported, error) {
	var done Exported
	e, err := r.Evaluation(ctx, id)
	if err != nil {
		return done, err
	}
	own := newAnswers(place, e)
	if err := own.writeAll(ctx, r, id); err != nil {
		return done, err
	}
	done.Answers = own.written
	files := []struct {
		name   string
		wanted bool
		write  func(io.Writer) error
	}{
		{PairwiseFile, e.Plan.Pairwise != nil, func(w io.Writer) error {
			return writeCSV(w, pairwiseHeader, r.PairwiseRows(ctx, id), pairwiseCells)
		}},
		{SingleFile, e.Plan.Single != nil, func(w io.Writer) error {
			return writeCSV(w, singleHeader, r.SingleRows(ctx, id), singleCells)
		}},
		{PanelFile, e.Plan.Panel != nil, func(w io.Writer) error {
			return writeCSV(w, panelHeader, r.PanelRows(ctx, id), panelCells)
		}},
		{ResponsesFile, e.Plan.Runs != nil, func(w io.Writer) error { return writeResponses(ctx, w, r, id, own.paths) }},
		{EloFile, rankings.Elo != nil, func(w io.Writer) error {
			return writeCSV(w, eloHeader, all(rankings.Elo), eloCells)
		}},
		{RankingFile, rankings.Ranking != nil, func(w io.Writer) error {
			return writeCSV(w, rankingHeader, all(rankings.Ranking), rankingCells)
		}},
		{ManifestFile, true, func(w io.Writer) error { return writeManifest(ctx, w, r, e, own.paths) }},
	}
	root, err := os.OpenRoot(place.Dir)
	if err != nil {
		return done, fmt.Errorf("output folder: %w", err)
	}
	defer root.Close()
	for _, file := range files {
		if !file.wanted {
			continue
		}
		if err := WriteFile(root, file.name, file.write); err != nil {
			return done, errors.Join(own.failed.orNil(), err)
		}
		done.Files = append(done.Files, filepath.Join(place.Dir, file.name))
	}
	return done, own.failed.orNil()
}

var (
	pairwiseHeader = []string{
		"id", "doc_id_1", "doc_id_2", "model", "trial", "winner_doc_id", "reason", "timestamp",
		"item", "order", "judge", "answered_by", "candidate_1", "candidate_2",
	}
	singleHeader = []string{
		"id", "doc_id", "model", "trial", "criterion", "score", "reason", "timestamp",
		"item", "judge", "answered_by", "candidate",
	}
	panelHeader = []string{
		"id", "doc_id", "agent", "criterion_id", "score", "argument", "model", "timestamp",
		"item", "answered_by", "candidate",
	}
	eloHeader     = []string{"doc_id", "elo"}
	rankingHeader = []string{
		"candidate", "rank", "rank_low", "rank_high", "ability", "se", "low", "high",
		"wins", "losses", "ties", "win_rate",
	}
)

func pairwiseCells(r PairwiseRow) []string {
	return []string{
		shortID(r.Phase, r.Index), r.Document1, r.Document2, r.Model, strconv.Itoa(r.Trial), r.Winner, r.Reason,
		formatTime(r.Timestamp), r.Item, r.Order, r.Judge, r.AnsweredBy, r.Candidate1, r.Candidate2,
	}
}

func singleCells(r SingleRow) []string {
	return []string{
		shortID(r.Phase, r.Index), r.Document, r.Model, strconv.Itoa(r.Trial), r.Criterion, formatFloat(r.Score),
		r.Reason, formatTime(r.Timestamp), r.Item, r.Judge, r.AnsweredBy, r.Candidate,
	}
}

func panelCells(r PanelRow) []string {
	score := ""
	if r.Score != nil {
		score = formatFloat(*r.Score)
	}
	return []string{
		shortID(r.Phase, r.Index), r.Document, r.Agent, r.Dimension, score, r.Argument, r.Model,
		formatTime(r.Timestamp), r.Item, r.AnsweredBy, r.Candidate,
	}
}

func eloCells(r EloRow) []string { return []string{r.DocID, formatFloat(r.Elo)} }

func rankingCells(r RankingRow) []string {
	return []string{
		r.Candidate, formatRank(r.Rank), formatRank(r.RankLow), formatRank(r.RankHigh),
		formatFloat(r.Ability), formatFloat(r.SE), formatFloat(r.Low), formatFloat(r.High),
		strconv.Itoa(r.Wins), strconv.Itoa(r.Losses), strconv.Itoa(r.Ties), formatFloat(r.WinRate),
	}
}

func shortID(phase, index int) string { return eval.RunID{Phase: phase, Index: index}.Short() }

func formatRank(rank int) string {
	if rank == 0 {
		return ""
	}
	return strconv.Itoa(rank)
}

func formatFloat(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// all is rows as the iterations of a Reader yield them.
func all[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func writeCSV[T any](w io.Writer, header []string, rows iter.Seq2[T, error], cells func(T) []string) error {
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := out.Write(cells(row)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
