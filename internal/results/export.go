package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Names of the exported files.
const (
	PairwiseFile  = "pairwise_results.csv"
	SingleFile    = "single_doc_results.csv"
	PanelFile     = "panel_results.csv"
	VotesFile     = "votes.csv"
	ResponsesFile = "responses.jsonl"
	EloFile       = "elo_summary.csv"
	RankingFile   = "ranking.csv"
	ItemsFile     = "items.csv"
	ManifestFile  = "manifest.json"

	// AnswersFile, below Place.Working, records the answers that were written below that folder.
	AnswersFile = "evalfleet-out/answers.jsonl"

	ComparisonFile = "comparison.csv"
)

// RankingRow is a line of ranking.csv. An undefined number is NaN, and an undefined rank or group
// is 0; both become empty cells.
type RankingRow struct {
	Candidate               string
	Rank, RankLow, RankHigh int
	Ability, SE, Low, High  float64
	Wins, Losses, Ties      int
	WinRate                 float64
	Group                   int     // number, from 1, of the group of candidates compared with each other
	ModelSE                 float64 // the standard error if verdicts were independent
	BeatsNext               float64 // probability that it is better than the next of its group
	// RankLow and RankHigh hold for all candidates at once, the marginal ones for this one alone.
	MarginalLow, MarginalHigh int
	Best                      float64 // probability that it is the best of its group
	Elo, EloLow, EloHigh      float64 // ability and its limits on Elo's scale
	WinLow, WinHigh           float64 // limits of WinRate
	// Lead is the difference between the abilities of this candidate and the next of its group.
	Lead, LeadLow, LeadHigh float64
}

// ComparisonRow is a line of comparison.csv: one candidate in one evaluation. Undefined values
// are as in RankingRow.
type ComparisonRow struct {
	Candidate               string
	Evaluation, Name        string // its id and name
	Rank, RankLow, RankHigh int
	SharedRank              int
	Ability, Low, High      float64
	Move                    string
}

// EloRow is a line of elo_summary.csv; NaN becomes an empty cell.
type EloRow struct {
	DocID string
	Elo   float64
}

// ItemRow is a line of items.csv. An undefined number is NaN, and becomes an empty cell.
type ItemRow struct {
	Item       string
	Categories string // separated by "; "
	Pairs      int    // of texts, with verdicts of judges
	// Disagree, Flipped and Unlike count the pairs on which judges disagree, follow the order, or
	// differ from people. Contested counts those with any of these.
	Disagree, Flipped, Unlike, Contested int
	Share                                float64 // of pairs that are contested
	Spread                               float64 // standard deviation of the candidates' results
	Score                                float64 // mean of all scores on it; low scores mean a hard item
}

// Rankings holds the finished rows of the files that this package does not compute, in the order in
// which they are written. A nil list writes no file.
type Rankings struct {
	Elo     []EloRow
	Ranking []RankingRow
	Items   []ItemRow
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

// ExportNames returns the names of the files that Export writes into the output folder,
// except for those of an experiment. rankings are as in Export.
func ExportNames(ctx context.Context, r Reader, e Evaluation, rankings Rankings) (names []string) {
	for _, file := range exports(ctx, r, e, rankings, nil) {
		names = append(names, file.name)
	}
	return names
}

// WriteExport writes to w the file that Export writes under that name, but without the paths of
// answers. The error is fs.ErrNotExist if the evaluation has no file of that name.
func WriteExport(ctx context.Context, w io.Writer, r Reader, e Evaluation, rankings Rankings, name string) error {
	for _, file := range exports(ctx, r, e, rankings, nil) {
		if file.name == name {
			return file.write(w)
		}
	}
	return fs.ErrNotExist
}

// exports returns the files of an output folder.
func exports(ctx context.Context, r Reader, e Evaluation, rankings Rankings, answers map[string]string) (files []file) {
	id := e.ID
	if e.Plan.Pairwise != nil {
		files = append(files, both(PairwiseFile, pairwiseTable, r.PairwiseRows(ctx, id))...)
	}
	if e.Plan.Single != nil {
		files = append(files, both(SingleFile, singleTable, r.SingleRows(ctx, id))...)
	}
	if e.Plan.Panel != nil {
		files = append(files, both(PanelFile, panelTable, r.PanelRows(ctx, id))...)
	}
	if e.Settings.Votes != "" {
		files = append(files, both(VotesFile, voteTable, r.Votes(ctx, id))...)
	}
	if e.Plan.Runs != nil || e.Plan.Prompts != nil {
		files = append(files, file{ResponsesFile, func(w io.Writer) error { return writeResponses(ctx, w, r, id, answers) }})
	}
	if e.Plan.Prompts != nil && e.Plan.Prompts.Format == eval.PromptsBatch {
		files = append(files, (&batch{e, r}).files(ctx)...)
	}

	if rankings.Elo != nil {
		files = append(files, both(EloFile, eloTable, all(rankings.Elo))...)
	}
	if rankings.Ranking != nil {
		files = append(files, both(RankingFile, rankingTable, all(rankings.Ranking))...)
	}
	if rankings.Items != nil {
		files = append(files, both(ItemsFile, itemTable, all(rankings.Items))...)
	}
	return append(files, manifestFile(ctx, r, e, rankings.Choices, answers))
}

// ExportComparison writes files that compare evaluations, one row each, to a folder, which must
// exist. It writes them as Export writes rankings, and returns their paths.
func ExportComparison(dir string, rows []ComparisonRow) ([]string, error) {
	return writeFiles(dir, both(ComparisonFile, comparisonTable, all(rows)))
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

// both returns the files of a table: CSV under that name, and JSON Lines next to it.
func both[T any](name string, t table[T], rows iter.Seq2[T, error]) []file {
	return []file{
		{name, func(w io.Writer) error { return t.csv(w, rows) }},
		{strings.TrimSuffix(name, ".csv") + ".jsonl", func(w io.Writer) error { return t.jsonl(w, rows) }},
	}
}

var itemTable = table[ItemRow]{
	{"item", func(r ItemRow) any { return r.Item }},
	{"categories", func(r ItemRow) any { return r.Categories }},
	{"pairs", func(r ItemRow) any { return r.Pairs }},
	{"disagree", func(r ItemRow) any { return r.Disagree }},
	{"flipped", func(r ItemRow) any { return r.Flipped }},
	{"unlike_people", func(r ItemRow) any { return r.Unlike }},
	{"contested", func(r ItemRow) any { return r.Contested }},
	{"contested_share", func(r ItemRow) any { return r.Share }},
	{"spread", func(r ItemRow) any { return r.Spread }},
	{"mean_score", func(r ItemRow) any { return r.Score }},
}

var pairwiseTable = table[PairwiseRow]{
	{"id", func(r PairwiseRow) any { return shortID(r.Phase, r.Index) }},
	{"doc_id_1", func(r PairwiseRow) any { return r.Document1 }},
	{"doc_id_2", func(r PairwiseRow) any { return r.Document2 }},
	{"model", func(r PairwiseRow) any { return r.Model }},
	{"trial", func(r PairwiseRow) any { return r.Trial }},
	{"winner_doc_id", func(r PairwiseRow) any { return r.Winner }},
	{"reason", func(r PairwiseRow) any { return r.Reason }},
	{"timestamp", func(r PairwiseRow) any { return r.Timestamp }},
	{"item", func(r PairwiseRow) any { return r.Item }},
	{"order", func(r PairwiseRow) any { return r.Order }},
	{"judge", func(r PairwiseRow) any { return r.Judge }},
	{"answered_by", func(r PairwiseRow) any { return r.AnsweredBy }},
	{"candidate_1", func(r PairwiseRow) any { return r.Candidate1 }},
	{"candidate_2", func(r PairwiseRow) any { return r.Candidate2 }},
}

var singleTable = table[SingleRow]{
	{"id", func(r SingleRow) any { return shortID(r.Phase, r.Index) }},
	{"doc_id", func(r SingleRow) any { return r.Document }},
	{"model", func(r SingleRow) any { return r.Model }},
	{"trial", func(r SingleRow) any { return r.Trial }},
	{"criterion", func(r SingleRow) any { return r.Criterion }},
	{"score", func(r SingleRow) any { return r.Score }},
	{"reason", func(r SingleRow) any { return r.Reason }},
	{"timestamp", func(r SingleRow) any { return r.Timestamp }},
	{"item", func(r SingleRow) any { return r.Item }},
	{"judge", func(r SingleRow) any { return r.Judge }},
	{"answered_by", func(r SingleRow) any { return r.AnsweredBy }},
	{"candidate", func(r SingleRow) any { return r.Candidate }},
}

var panelTable = table[PanelRow]{
	{"id", func(r PanelRow) any { return shortID(r.Phase, r.Index) }},
	{"doc_id", func(r PanelRow) any { return r.Document }},
	{"agent", func(r PanelRow) any { return r.Agent }},
	{"criterion_id", func(r PanelRow) any { return r.Dimension }},
	{"score", func(r PanelRow) any {
		if r.Score == nil {
			return nil
		}
		return *r.Score
	}},
	{"argument", func(r PanelRow) any { return r.Argument }},
	{"model", func(r PanelRow) any { return r.Model }},
	{"timestamp", func(r PanelRow) any { return r.Timestamp }},
	{"item", func(r PanelRow) any { return r.Item }},
	{"answered_by", func(r PanelRow) any { return r.AnsweredBy }},
	{"candidate", func(r PanelRow) any { return r.Candidate }},
}

// voteTable has the columns of a file of votes, so that its CSV can be used as one.
var voteTable = table[VoteRow]{
	{"item", func(r VoteRow) any { return r.Item }},
	{"candidate_a", func(r VoteRow) any { return r.Candidate1 }},
	{"candidate_b", func(r VoteRow) any { return r.Candidate2 }},
	{"winner_doc_id", func(r VoteRow) any { return r.Winner }},
	{"annotator", func(r VoteRow) any { return r.Annotator }},
	{"doc_id_1", func(r VoteRow) any { return r.Document1 }},
	{"doc_id_2", func(r VoteRow) any { return r.Document2 }},
}

var eloTable = table[EloRow]{
	{"doc_id", func(r EloRow) any { return r.DocID }},
	{"elo", func(r EloRow) any { return r.Elo }},
}

var rankingTable = table[RankingRow]{
	{"candidate", func(r RankingRow) any { return r.Candidate }},
	{"rank", func(r RankingRow) any { return someRank(r.Rank) }},
	{"rank_low", func(r RankingRow) any { return someRank(r.RankLow) }},
	{"rank_high", func(r RankingRow) any { return someRank(r.RankHigh) }},
	{"ability", func(r RankingRow) any { return r.Ability }},
	{"se", func(r RankingRow) any { return r.SE }},
	{"low", func(r RankingRow) any { return r.Low }},
	{"high", func(r RankingRow) any { return r.High }},
	{"wins", func(r RankingRow) any { return r.Wins }},
	{"losses", func(r RankingRow) any { return r.Losses }},
	{"ties", func(r RankingRow) any { return r.Ties }},
	{"win_rate", func(r RankingRow) any { return r.WinRate }},
	{"group", func(r RankingRow) any { return someRank(r.Group) }},
	{"model_se", func(r RankingRow) any { return r.ModelSE }},
	{"beats_next", func(r RankingRow) any { return r.BeatsNext }},
	{"marginal_rank_low", func(r RankingRow) any { return someRank(r.MarginalLow) }},
	{"marginal_rank_high", func(r RankingRow) any { return someRank(r.MarginalHigh) }},
	{"p_best", func(r RankingRow) any { return r.Best }},
	{"elo", func(r RankingRow) any { return r.Elo }},
	{"elo_low", func(r RankingRow) any { return r.EloLow }},
	{"elo_high", func(r RankingRow) any { return r.EloHigh }},
	{"win_rate_low", func(r RankingRow) any { return r.WinLow }},
	{"win_rate_high", func(r RankingRow) any { return r.WinHigh }},
	{"lead", func(r RankingRow) any { return r.Lead }},
	{"lead_low", func(r RankingRow) any { return r.LeadLow }},
	{"lead_high", func(r RankingRow) any { return r.LeadHigh }},
}

var comparisonTable = table[ComparisonRow]{
	{"candidate", func(r ComparisonRow) any { return r.Candidate }},
	{"evaluation", func(r ComparisonRow) any { return r.Evaluation }},
	{"name", func(r ComparisonRow) any { return r.Name }},
	{"rank", func(r ComparisonRow) any { return someRank(r.Rank) }},
	{"rank_low", func(r ComparisonRow) any { return someRank(r.RankLow) }},
	{"rank_high", func(r ComparisonRow) any { return someRank(r.RankHigh) }},
	{"shared_rank", func(r ComparisonRow) any { return someRank(r.SharedRank) }},
	{"ability", func(r ComparisonRow) any { return r.Ability }},
	{"low", func(r ComparisonRow) any { return r.Low }},
	{"high", func(r ComparisonRow) any { return r.High }},
	{"move", func(r ComparisonRow) any { return r.Move }},
}

func shortID(phase, index int) string { return eval.RunID{Phase: phase, Index: index}.Short() }

func someRank(rank int) any {
	if rank == 0 {
		return nil
	}
	return rank
}
