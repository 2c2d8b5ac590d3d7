package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval/prompto"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/results"
)

// Flags that say which file is meant, and those of experiments.
const (
	fileFlag           = "file"
	kindFlag           = "kind"
	dataFolderFlag     = "data-folder"
	maxQueriesFlag     = "max-queries"
	maxQueriesJSONFlag = "max-queries-json"
	parallelFlag       = "parallel"
	maxAttemptsFlag    = "max-attempts"
	outputAsCSVFlag    = "output-as-csv"
	moveToInputFlag    = "move-to-input"
	judgeFolderFlag    = "judge-folder"
	judgeTemplatesFlag = "judge-templates"
)

// defaultDataFolder is the folder for the files of experiments if none is given.
const defaultDataFolder = "data"

// inputFlags are those that name a file, and those of experiments.
func inputFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: fileFlag, Aliases: []string{"f"}, Usage: "`FILE`, instead of the argument (default none)"},
		&cli.StringFlag{Name: kindFlag, Usage: "`KIND` of FILE: evaluation, experiment, batch or runs (default detected)"},
		allowOutsideOption(),
	}, experimentFlags()...)
}

func experimentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: dataFolderFlag, Aliases: []string{"d"}, Value: defaultDataFolder, Usage: "data folder `DIR` of experiments; answers are written to its output folder. Without FILE, runs all experiments in its input folder, oldest first"},
		&cli.IntFlag{Name: maxQueriesFlag, Aliases: []string{"m", "mq"}, Value: prompto.DefaultMaxQueries, Usage: "experiments: send `N` prompts per minute and queue"},
		&cli.StringFlag{Name: maxQueriesJSONFlag, Aliases: []string{"mqj"}, Usage: "experiments: `FILE` with rates by api or group, and by model (default none)"},
		&cli.BoolFlag{Name: parallelFlag, Aliases: []string{"p"}, Usage: "experiments: use a queue for each group or api in parallel, instead of sending prompts one after another"},
		&cli.IntFlag{Name: maxAttemptsFlag, Aliases: []string{"ma"}, Value: prompto.DefaultMaxAttempts, Usage: "experiments: make at most `N` calls per prompt"},
		&cli.BoolFlag{Name: outputAsCSVFlag, Usage: "experiments: also write answers as CSV"},
		&cli.BoolFlag{Name: moveToInputFlag, Usage: "experiments: first move the file to the input folder"},
		&cli.StringFlag{Name: judgeFolderFlag, Aliases: []string{"jf"}, Usage: "experiments: `DIR` with settings.json and templates of the judges named by --judge (default no judging)"},
		&cli.StringFlag{Name: judgeTemplatesFlag, Aliases: []string{"jt"}, Value: defaultTemplate, Usage: "experiments: template `FILES` in the judge folder, comma-separated"},
	}
}

// defaultTemplate is the template file of a judge folder if none is given.
const defaultTemplate = "template.txt"

// input is a file, or a folder of documents, that a command line names.
type input struct {
	path   string // empty: runs are listed by flags alone
	folder bool
	kind   config.FileKind // of a file
}

// inputAt returns the input at a path, with the kind that its content shows. The path may
// be empty.
func inputAt(path string) input {
	in := input{path: path, folder: path != "" && folder.Is(path), kind: config.EvaluationFile}
	if path != "" && !in.folder {
		in.kind = config.KindOfFile(path)
	}
	return in
}

// inputs finds out what a command line names: FILE, or every experiment of the data
// folder. listed says that flags list runs, beside which FILE may be missing.
func (p *process) inputs(c *cli.Context, listed bool) ([]input, error) {
	path := c.String(fileFlag)
	switch {
	case path != "" && c.Args().Present():
		return nil, usageError("--%s names a file, and %s is another: remove one of them", fileFlag, c.Args().First())
	case path != "":
	case ofDataFolder(c):
		return inputFolder(c)
	case c.Args().Present() || !listed:
		var err error
		if path, err = oneArgument(c, "FILE"); err != nil {
			return nil, err
		}
	}
	in := inputAt(path)
	if c.IsSet(kindFlag) {
		in.kind = config.FileKind(c.String(kindFlag))
		if !slices.Contains(config.FileKinds, in.kind) {
			return nil, usageError("--%s: got %q, want evaluation, experiment, batch or runs", kindFlag, in.kind)
		}
		if in.folder {
			return nil, usageError("--%s says what a file is; %s is a folder", kindFlag, path)
		}
	}
	return []input{in}, in.refuse(c)
}

// inputFolder lists the experiments that wait in the data folder, the oldest first.
func inputFolder(c *cli.Context) ([]input, error) {
	dir := filepath.Join(c.String(dataFolderFlag), "input")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError("no such folder: %s; --%s DIR wants experiments in DIR/input, or a FILE beside it", dir, dataFolderFlag)
	}
	if err != nil {
		return nil, usageError("%w", err)
	}
	var found []fs.FileInfo
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); ext != ".jsonl" && ext != ".csv" {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err == nil && info.Mode().IsRegular() {
			found = append(found, info)
		}
	}
	if len(found) == 0 {
		return nil, usageError("%s holds no experiment: no file that ends with .jsonl or .csv", dir)
	}
	slices.SortStableFunc(found, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	all := make([]input, len(found))
	for i, info := range found {
		all[i] = input{path: filepath.Join(dir, info.Name()), kind: config.ExperimentFile}
	}
	return all, all[0].refuse(c)
}

// refuse rejects flags that have no meaning for the input.
func (in input) refuse(c *cli.Context) error {
	var problems []error
	no := func(flags []cli.Flag, why string) {
		for _, f := range flags {
			if name := f.Names()[0]; c.IsSet(name) {
				problems = append(problems, usageError("--%s %s", name, why))
			}
		}
	}
	if in.kind != config.ExperimentFile {
		what := cmp.Or(in.path, "the command line")
		no(experimentFlags(), fmt.Sprintf("is for experiments, and %s is none; --%s %s reads a file as one", what, kindFlag, config.ExperimentFile))
		return joined(problems)
	}
	no(listFlags(), fmt.Sprintf("is for listed runs, and %s is an experiment", in.path))
	if c.IsSet(judgeFlag) != c.IsSet(judgeFolderFlag) {
		problems = append(problems, usageError("--%s and --%s go together: settings.json in the folder defines the names", judgeFlag, judgeFolderFlag))
	}
	if c.IsSet(judgeTemplatesFlag) && !c.IsSet(judgeFolderFlag) {
		problems = append(problems, usageError("--%s needs --%s, the folder that holds them", judgeTemplatesFlag, judgeFolderFlag))
	}
	return joined(problems)
}

// experimentOptions are what flags say of experiments.
func experimentOptions(c *cli.Context) config.Experiment {
	e := config.Experiment{MaxQueriesFile: c.String(maxQueriesJSONFlag), Parallel: c.Bool(parallelFlag)}
	if c.IsSet(maxQueriesFlag) {
		n := c.Int(maxQueriesFlag)
		e.MaxQueries = &n
	}
	if c.IsSet(maxAttemptsFlag) {
		n := c.Int(maxAttemptsFlag)
		e.MaxAttempts = &n
	}
	return e
}

// load makes the evaluation of one input.
func (in input) load(judges []string, options config.Options) (*config.Submission, error) {
	switch {
	case in.folder && options.Listed != config.Listed{}:
		return nil, usageError("%s is a folder; with listed runs, pass a file with settings, or no file", in.path)
	case in.folder:
		return config.FolderSubmission(in.path, judges, options)
	case in.kind == config.ExperimentFile:
		return config.LoadExperiment(in.path, options)
	case in.kind == config.BatchFile:
		return config.LoadBatch(in.path, options)
	case len(judges) > 0 && in.path == "":
		return nil, usageError("--%s goes with a folder; listed runs ask models of their own", judgeFlag)
	case len(judges) > 0:
		return nil, usageError("--%s goes with a folder; %s is a file, which names its own judges", judgeFlag, in.path)
	case in.path == "":
		return config.LoadRuns(options)
	}
	return config.LoadEvaluation(in.path, options)
}

// placeOf is where the files of an evaluation are written, given its output folder dir.
func placeOf(c *cli.Context, s *config.Submission, dir string) (results.Place, error) {
	place := results.Place{Dir: dir, Out: s.Out, Outs: s.Settings.Outs}
	if s.Queues == nil {
		return place, nil
	}
	data, err := filepath.Abs(c.String(dataFolderFlag))
	if err != nil {
		return place, usageError("--%s: %w", dataFolderFlag, err)
	}
	place.Data, place.Input, place.CSV = data, s.File, c.Bool(outputAsCSVFlag)
	return place, nil
}

// sayQueues tells through which queues the prompts of an experiment go, and how fast.
func (p *process) sayQueues(s *config.Submission) {
	if s.Queues == nil {
		return
	}
	fmt.Fprintf(p.stderr, "%s: %s\n", s.Evaluation.Name, wording.Counted(len(s.Evaluation.Prompts.List), "prompt"))
	w := tabwriter.NewWriter(p.stderr, 0, 0, 2, ' ', 0)
	for _, q := range s.Queues {
		fmt.Fprintf(w, "  queue %s\t%s\t%d a minute\n", q.Name, wording.Counted(q.Prompts, "prompt"), q.PerMinute)
	}
	_ = w.Flush()
}

// ofDataFolder reports whether a command line names no file, and so means all
// experiments of its data folder.
func ofDataFolder(c *cli.Context) bool {
	return c.IsSet(dataFolderFlag) && c.String(fileFlag) == "" && !c.Args().Present()
}

// outDir is the folder of --out-dir for one evaluation, empty where nothing is said.
// Several experiments have a folder each in it.
func outDir(c *cli.Context, s *config.Submission) string {
	dir := c.String(outDirFlag)
	if dir != "" && (ofDataFolder(c) || ofAnswers(s)) {
		return filepath.Join(dir, filepath.Base(folder.Default(s.Evaluation.Name, s.Evaluation.ID())))
	}
	return dir
}

// ofAnswers reports whether an experiment asks about the answers of another.
func ofAnswers(s *config.Submission) bool { return s.Queues != nil && s.File == "" }

// inTurn processes the inputs, one evaluation after another, and asks the judges about the
// answers of each as soon as it has ended.
func (p *process) inTurn(c *cli.Context, asked *request, do func(*config.Submission) (answers []string, err error)) error {
	return asked.each(func(s *config.Submission) error {
		if err := moveToInput(c, s); err != nil {
			return err
		}
		p.sayQueues(s)
		answers, err := do(s)
		if asked.judges == nil || len(answers) == 0 || err != nil && codeOf(err) != exitRunsFailed {
			return err
		}
		judged, failed, judgeErr := asked.judges.Experiment(s.Evaluation.Name, answers[len(answers)-1], asked.options)
		if judgeErr != nil {
			return errors.Join(err, judgeErr)
		}
		p.warn(judged.Warnings)
		if failed > 0 {
			fmt.Fprintf(p.stderr, "%s without an answer: not judged\n", wording.Counted(failed, "prompt"))
		}
		p.sayQueues(judged)
		_, judgeErr = do(judged)
		return cmp.Or(judgeErr, err)
	})
}

// moveToInput moves an experiment's file into the input folder, where that was asked.
func moveToInput(c *cli.Context, s *config.Submission) error {
	if !c.Bool(moveToInputFlag) {
		return nil
	}
	dir := filepath.Join(c.String(dataFolderFlag), "input")
	to, err := filepath.Abs(filepath.Join(dir, filepath.Base(s.File)))
	if err != nil || to == s.File {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return usageError("--%s: %s exists already; remove it, or omit the flag", moveToInputFlag, to)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return folder.Failed(err)
	}
	if err := os.Rename(s.File, to); err != nil {
		return folder.Failed(err)
	}
	s.File = to
	return nil
}
