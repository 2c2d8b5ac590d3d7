package main

import (
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
)

// storeIn returns the results store of an output folder: results.db in it, or the store that `run` was given with
// --sink. Such a store may contain other evaluations, too, so only is the evaluation of this folder. A store elsewhere
// is only opened if a run of this user has named it, or --config does.
func (p *process) storeIn(c *cli.Context, dir string) (url string, only eval.ID, err error) {
	if err := outdir.Check(dir); err != nil {
		return "", "", err
	}
	path := filepath.Join(dir, outdir.ResultsFile)
	if _, err := os.Stat(path); err == nil {
		return path, "", nil
	}
	saved, err := outdir.ReadResumption(dir)
	switch {
	case err != nil || saved.ResultsURL == "":
		return "", "", usageError(
			"%s has no results (no %s): name the output folder of an evaluation%s", dir, outdir.ResultsFile, outdir.Nearest(dir),
		)
	case p.own.Sealed(saved):
		return saved.ResultsURL, saved.Evaluation, nil
	}
	url, err = p.namedStore(c, dir, saved.ResultsURL)
	return url, saved.Evaluation, err
}

// namedStore returns the results store of --config. It must be the one that the resume.json of a folder names (saved).
func (p *process) namedStore(c *cli.Context, dir, saved string) (string, error) {
	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return "", err
	}
	if fleet.Sink != "" {
		if own, err := outdir.SavedURL(fleet.Sink); err == nil && own == saved {
			return fleet.Sink, nil
		}
	}
	return "", usageError("%s was not written by one of your runs, and names the results store %s: to open that store, "+
		"set it as sink in a file for --%s",
		filepath.Join(dir, outdir.ResumeFile), outdir.PublicURL(saved), configFlag)
}

// folder returns how to find the results store of an output folder.
func (p *process) folder(c *cli.Context, dir string) outdir.StoreIn {
	return func() (string, eval.ID, error) { return p.storeIn(c, dir) }
}
