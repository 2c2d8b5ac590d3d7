package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Flags that name the input file, and flags of experiments.
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

// inputFlags returns the flags that name a file, and the flags of experiments.
func inputFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: fileFlag, Aliases: []string{"f"}, Usage: "`FILE`, instead of the argument (default none)"},
		&cli.StringFlag{Name: kindFlag, Usage: "`KIND` of FILE: evaluation, experiment, answers, batch or runs (default detected)"},
		allowOutsideOption(),
	}, experimentFlags()...)
}

func experimentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: dataFolderFlag, Aliases: []string{"d"}, Value: defaultDataFolder,
			Usage: "data folder `DIR` of experiments; answers are written to its output folder. Without FILE, runs all " +
				"experiments in its input folder, oldest first",
		},
		&cli.IntFlag{
			Name: maxQueriesFlag, Aliases: []string{"m", "mq"}, Value: prompto.DefaultMaxQueries,
			Usage: "experiments: send `N` prompts per minute and queue",
		},
		&cli.StringFlag{
			Name: maxQueriesJSONFlag, Aliases: []string{"mqj"},
			Usage: "experiments: `FILE` with rates by api or group, and by model (default none)",
		},
		&cli.BoolFlag{
			Name: parallelFlag, Aliases: []string{"p"},
			Usage: "experiments: use a queue for each group or api in parallel, instead of sending prompts one after another",
		},
		&cli.IntFlag{
			Name: maxAttemptsFlag, Aliases: []string{"ma"}, Value: prompto.DefaultMaxAttempts,
			Usage: "experiments: make at most `N` calls per prompt",
		},
		&cli.BoolFlag{Name: outputAsCSVFlag, Usage: "experiments: also write answers as CSV"},
		&cli.BoolFlag{Name: moveToInputFlag, Usage: "experiments: first move the file to the input folder"},

		&cli.StringFlag{
			Name: judgeFolderFlag, Aliases: []string{"jf"},
			Usage: "experiments: `DIR` with settings.json and templates of the judges named by --judge (default no judging)",
		},
		&cli.StringFlag{
			Name: judgeTemplatesFlag, Aliases: []string{"jt"}, Value: defaultTemplate,
			Usage: "experiments: template `FILES` in the judge folder, comma-separated",
		},
	}
}

// defaultTemplate is the template file of a judge folder if none is given.
const defaultTemplate = "template.txt"

// inputs returns the inputs that a command line names: FILE, or every experiment of the data folder. listed means that
// flags list runs; FILE may then be missing.
func (p *process) inputs(c *cli.Context, listed bool) ([]config.Input, error) {
	path := c.String(fileFlag)
	switch {
	case path != "" && c.Args().Present():
		return nil, usageError("--%s and the argument %s both name a file: remove one of them", fileFlag, c.Args().First())
	case path != "":
	case ofDataFolder(c):
		all, err := config.Experiments(inputFolder(c))
		if err != nil {
			return nil, err
		}
		return all, refuse(c, all[0])
	case c.Args().Len() > 1:
		in, err := severalFiles(c)
		if err != nil {
			return nil, err
		}
		return []config.Input{in}, refuse(c, in)
	case c.Args().Present() || !listed:
		var err error
		if path, err = oneArgument(c, inputName(c)); err != nil {
			return nil, err
		}
	}

	if _, err := os.Stat(path); path != "" && errors.Is(err, fs.ErrNotExist) { // whatever the flags are
		if in, err := severalFiles(c); err == nil { // a pattern that the shell has left
			return []config.Input{in}, refuse(c, in)
		}
		return nil, config.Problems{{File: path, Message: "no such file"}}
	}
	in := config.InputAt(path)
	if c.IsSet(kindFlag) {
		in.Kind = config.FileKind(c.String(kindFlag))
		if !slices.Contains(config.FileKinds, in.Kind) {
			return nil, usageError("--%s: got %q, want evaluation, experiment, answers, batch or runs", kindFlag, in.Kind)
		}
		if in.Folder {
			return nil, usageError("--%s is for files, and %s is a folder", kindFlag, path)
		}
	}

	return []config.Input{in}, refuse(c, in)
}

// inputName returns what the command's argument names.
func inputName(c *cli.Context) string {
	if strings.Contains(c.Command.ArgsUsage, "FOLDER") {
		return "FILE or FOLDER"
	}
	return "FILE"
}

// severalFiles returns the input of a command line that names several files of answers, or a pattern.
func severalFiles(c *cli.Context) (config.Input, error) {
	if c.IsSet(kindFlag) && c.String(kindFlag) != string(config.AnswersFile) {
		return config.Input{}, usageError("%s takes several files only of answers, not of the kind %s: run one at a time",
			c.Command.Name, c.String(kindFlag))
	}
	in, err := config.InputOf(c.Args().Slice())
	if errors.Is(err, config.ErrNoAnswers) {
		_, err = oneArgument(c, inputName(c))
	}
	return in, err
}

func inputFolder(c *cli.Context) string { return filepath.Join(c.String(dataFolderFlag), "input") }

// refuse returns an error if flags are set that have no meaning for the input.
func refuse(c *cli.Context, in config.Input) error {
	var problems []error
	no := func(flags []cli.Flag, why string) {
		for _, f := range flags {
			if name := f.Names()[0]; c.IsSet(name) {
				problems = append(problems, usageError("--%s %s", name, why))
			}
		}
	}

	if in.Kind != config.ExperimentFile {
		what := cmp.Or(in.Path, "the command line")
		no(
			experimentFlags(),
			fmt.Sprintf("applies to experiments, and %s is not one; to read a file as one, add --%s %s", what, kindFlag, config.ExperimentFile),
		)
		return joined(problems)
	}

	no(listFlags(), fmt.Sprintf("is for listed runs, and %s is an experiment", in.Path))
	if c.IsSet(judgeFlag) != c.IsSet(judgeFolderFlag) {
		problems = append(
			problems,
			usageError("--%s and --%s go together: settings.json in the folder defines the names", judgeFlag, judgeFolderFlag),
		)
	}
	if c.IsSet(judgeTemplatesFlag) && !c.IsSet(judgeFolderFlag) {
		problems = append(problems, usageError("--%s needs --%s, the folder that contains them", judgeTemplatesFlag, judgeFolderFlag))
	}
	return joined(problems)
}

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

// placeOf returns where to write the files of an evaluation with the output folder dir.
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

// sayQueues prints which queues the prompts of an experiment use, and their rates.
func (p *process) sayQueues(s *config.Submission) {
	if s.Queues == nil {
		return
	}
	fmt.Fprintf(p.stderr, "%s: %s\n", s.Evaluation.Name, wording.Counted(len(s.Evaluation.Prompts.List), "prompt"))
	rows := append(lines.Table{{Head: "queue", Flexible: true}}, lines.Heads("prompts", "a minute")...)
	for _, q := range s.Queues {
		rows.Add(harmless.OneLine(q.Name), wording.Count(q.Prompts), wording.Count(q.PerMinute))
	}
	out := lines.New(p.stderr, p.columns(p.stderr), false)
	rows.WriteStacked(out, func(int) {})
	_ = out.Flush()
}

// ofDataFolder reports whether a command line names no file, and so selects all experiments of its data folder.
func ofDataFolder(c *cli.Context) bool {
	return c.IsSet(dataFolderFlag) && c.String(fileFlag) == "" && !c.Args().Present()
}

// outDir returns the output folder of one evaluation according to --out-dir; empty if the flag is not set. Each of
// several experiments has a subfolder in it.
func outDir(c *cli.Context, s *config.Submission) string {
	dir := c.String(outDirFlag)
	if dir != "" && (ofDataFolder(c) || s.OfAnswers()) {
		return filepath.Join(dir, filepath.Base(outdir.Default(s.Evaluation.Name, s.Evaluation.ID())))
	}
	return dir
}

// evaluationDir returns the output folder of one evaluation: that of --out-dir, or else its default.
func evaluationDir(c *cli.Context, s *config.Submission) string {
	return cmp.Or(outDir(c, s), outdir.Default(s.Evaluation.Name, s.Evaluation.ID()))
}

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
			fmt.Fprintf(p.stderr, "not judging %s without an answer\n", wording.Counted(failed, "prompt"))
		}
		p.sayQueues(judged)
		_, judgeErr = do(judged)
		return cmp.Or(judgeErr, err)
	})
}

// moveToInput moves an experiment's file into the input folder, if a flag asks for that.
func moveToInput(c *cli.Context, s *config.Submission) error {
	if !c.Bool(moveToInputFlag) {
		return nil
	}
	err := s.MoveTo(inputFolder(c))
	if errors.Is(err, fs.ErrExist) {
		return usageError("--%s: %w; remove it, or omit the flag", moveToInputFlag, err)
	}
	return outdir.Failed(err)
}
