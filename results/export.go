package results

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/evalfleet/evalfleet/eval"
)

// Names of the exported files.
const (
	PairwiseFile = "pairwise_results.csv"
	SingleFile   = "single_doc_results.csv"
	EloFile      = "elo_summary.csv"
	RankingFile  = "ranking.csv"
	ManifestFile = "manifest.json"
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

// Export writes evaluation id's files into dir, which must exist, and returns
// their paths: the results of the kinds that the evaluation has, the rankings
// given, and the manifest. Each file is complete under its name or not there:
// an earlier one is replaced in one step. The same results give the same bytes.
func Export(ctx context.Context, dir string, r Reader, id eval.ID, rankings Rankings) (paths []string, err error) {
	e, err := r.Evaluation(ctx, id)
	if err != nil {
		return nil, err
	}
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
		{EloFile, rankings.Elo != nil, func(w io.Writer) error {
			return writeCSV(w, eloHeader, all(rankings.Elo), eloCells)
		}},
		{RankingFile, rankings.Ranking != nil, func(w io.Writer) error {
			return writeCSV(w, rankingHeader, all(rankings.Ranking), rankingCells)
		}},
		{ManifestFile, true, func(w io.Writer) error { return writeManifest(ctx, w, r, e) }},
	}
	for _, file := range files {
		if !file.wanted {
			continue
		}
		path := filepath.Join(dir, file.name)
		if err := writeFile(path, file.write); err != nil {
			return paths, err
		}
		paths = append(paths, path)
	}
	return paths, nil
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

// writeFile puts what write writes at path, on disk and complete, or leaves path
// as it was.
func writeFile(path string, write func(io.Writer) error) (err error) {
	dir, name := filepath.Split(path)
	temporary := filepath.Join(dir, "."+name+"."+rand.Text())
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // as the umask allows: results are shared
	if err != nil {
		return explainFile(path, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(temporary)
			err = explainFile(path, err)
		}
	}()
	buffered := bufio.NewWriterSize(file, 1<<16)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	// The name, too, has to reach the disk. Not every system can sync a folder.
	if folder, err := os.Open(filepath.Clean(dir)); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}
	return nil
}

func explainFile(path string, err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("write %s: %w: make room and export again: %w", path, ErrFull, err)
		}
	}
	return fmt.Errorf("write %s: %w", path, err)
}
