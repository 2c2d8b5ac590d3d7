package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

//go:embed starter
var starter embed.FS

func initCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "Write a starter evaluation file with templates and samples",
		ArgsUsage: "[DIR]",
		Description: "Writes an evaluation file that runs as is, with five sample documents and simulated judges; its prompt templates; a " +
			"fleet file; and a sample .env. The default DIR is the working folder. If its docs/ already has Markdown files, these " +
			"are ranked instead of samples. It never overwrites: if one of the files exists, nothing is written.",
		Action: func(c *cli.Context) error {
			switch {
			case c.Args().Len() > 1:
				return usageError("init takes one folder or none, got %d", c.Args().Len())
			case c.Args().Present():
				return p.init(c.Args().First())
			}
			return p.init(".")
		},
	}
}

// starterDocs is the folder whose Markdown files the starter's evaluation ranks.
const starterDocs = "docs"

// starterFile is a file that init writes.
type starterFile struct{ path, content string }

// starterFiles returns the files that init writes, with paths relative to its folder, with or without sample documents.
func starterFiles(samples bool) ([]starterFile, error) {
	var files []starterFile
	for _, f := range []struct{ path, embedded string }{
		{"evaluation.yaml", "evaluation.yaml"},
		{"fleet.yaml", "fleet.yaml"},
		{".env.sample", "env.sample"},
		{"docs/first.md", "docs/first.md"},
		{"docs/second.md", "docs/second.md"},
		{"docs/third.md", "docs/third.md"},
		{"docs/fourth.md", "docs/fourth.md"},
		{"docs/fifth.md", "docs/fifth.md"},
	} {
		if !samples && strings.HasPrefix(f.path, starterDocs+"/") {
			continue
		}
		content, err := starter.ReadFile("starter/" + f.embedded)
		if err != nil {
			return nil, err
		}
		files = append(files, starterFile{f.path, string(content)})
	}

	for _, kind := range []eval.Kind{eval.KindPairwise, eval.KindSingle, eval.KindPanel} {
		files = append(files, starterFile{"templates/" + string(kind) + ".md", prompt.DefaultTemplate(kind)})
	}
	return files, nil
}

func (p *process) init(dir string) error {
	own, err := fs.Glob(os.DirFS(dir), starterDocs+"/*.md")
	if err != nil {
		return err
	}
	files, err := starterFiles(len(own) == 0)
	if err != nil {
		return err
	}
	if name := fileInTheWay(dir); name != "" {
		return usageError("%s is not a folder; nothing was written; choose another folder: evalfleet init DIR", name)
	}
	var inTheWay []error
	for _, f := range files {
		path := filepath.Join(dir, f.path)
		if _, err := os.Lstat(path); err == nil {
			inTheWay = append(inTheWay, fmt.Errorf("%s already exists", path))
		} else if !errors.Is(err, fs.ErrNotExist) {
			inTheWay = append(inTheWay, err)
		}
	}

	if len(inTheWay) > 0 {
		inTheWay = append(inTheWay, errors.New("nothing was written; choose another folder: evalfleet init DIR"))
		return failure.With(failure.Usage, errors.Join(inTheWay...))
	}
	if err := writeStarter(dir, files); err != nil {
		return err
	}

	for _, f := range files {
		if _, err := fmt.Fprintln(p.stdout, filepath.Join(dir, f.path)); err != nil {
			return err
		}
	}

	into := ""
	if dir != "." {
		into = fmt.Sprintf("  cd %s\n", wording.ShellWord(dir))
	}
	documents, then := "the five samples", "put your own texts into docs/, "
	if len(own) > 0 {
		documents, then = "docs/*.md ("+wording.Counted(len(own), "file")+")", ""
	}
	_, err = fmt.Fprintf(p.stderr, `Next:
%s  evalfleet run evaluation.yaml        ranks %s with simulated judges
then %sname your judges in evaluation.yaml, and check before you spend:
  evalfleet validate evaluation.yaml
  evalfleet estimate evaluation.yaml
  evalfleet run evaluation.yaml --dry-run
`, into, documents, then)
	return err
}

// fileInTheWay returns the file that prevents dir from being created because it or a parent is not a folder; "" if
// there is none.
func fileInTheWay(dir string) string {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil {
			if info.IsDir() {
				return ""
			}
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// writeStarter writes all files. If one fails, it removes what it has written.
func writeStarter(dir string, files []starterFile) (err error) {
	var made []string // files and folders, in the order of their creation
	defer func() {
		for i := len(made) - 1; err != nil && i >= 0; i-- {
			_ = os.Remove(made[i])
		}
	}()
	for _, f := range files {
		path := filepath.Join(dir, f.path)
		if made, err = makeFolders(made, filepath.Dir(path)); err != nil {
			return err
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		made = append(made, path)
		_, err = file.WriteString(f.content)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeFolders creates a folder and its parents, and appends the new ones to made.
func makeFolders(made []string, dir string) ([]string, error) {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return made, err
	}
	if parent := filepath.Dir(dir); parent != dir {
		var err error
		if made, err = makeFolders(made, parent); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return made, err
	}
	return append(made, dir), nil
}
