package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/results"
)

// sinkIn is the results store of an output folder: results.db there, or the store that `run`
// was given with --sink. Then it may contain others, too, and only is the evaluation of this
// folder. A store elsewhere is only opened if a run of this user has named it, or --config
// does.
func (p *process) sinkIn(c *cli.Context, dir string) (url string, only eval.ID, err error) {
	if err := checkFiles(dir); err != nil {
		return "", "", err
	}
	path := filepath.Join(dir, sinkFile)
	if _, err := os.Stat(path); err == nil {
		return path, "", nil
	}
	saved, err := readResumption(dir)
	switch {
	case err != nil || saved.Sink == "":
		return "", "", usageError("%s holds no results: no %s is in it; name the output folder of an evaluation%s", dir, sinkFile, nearestFolder(dir))
	case p.own.sealed(saved):
		return saved.Sink, saved.Evaluation, nil
	}
	url, err = p.namedSink(c, dir, saved.Sink)
	return url, saved.Evaluation, err
}

// namedSink is the results store of --config, which must be the one that the
// resume.json of a folder names.
func (p *process) namedSink(c *cli.Context, dir, saved string) (string, error) {
	fleet, err := p.fleet(c.String(configFlag))
	if err != nil {
		return "", err
	}
	if fleet.Sink != "" {
		if own, err := savedSink(fleet.Sink); err == nil && own == saved {
			return fleet.Sink, nil
		}
	}
	return "", usageError("%s says that its results are in %s, but it was not written by one of your runs: to open it, set it as sink in a file for --%s",
		filepath.Join(dir, resumeFile), publicSink(saved), configFlag)
}

// readFolder opens the results of an output folder and finds its evaluation.
func (p *process) readFolder(c *cli.Context, dir string) (results.Reader, eval.ID, error) {
	url, only, err := p.sinkIn(c, dir)
	if err != nil {
		return nil, "", err
	}
	return readSink(c.Context, url, only)
}

// readSink opens a results store and finds an evaluation in it, the last where only
// names none.
func readSink(ctx context.Context, url string, only eval.ID) (results.Reader, eval.ID, error) {
	reader, err := results.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, "", sinkError(err)
	}
	listed, err := reader.Evaluations(ctx)
	if err == nil && len(listed) == 0 {
		err = usageError("%s holds no evaluation yet", url)
	}
	if err != nil {
		_ = reader.Close()
		return nil, "", err
	}
	return reader, cmp.Or(only, listed[len(listed)-1].ID), nil
}

// publicSink is a sink's URL as it may be shown.
func publicSink(url string) string {
	public, err := results.Public(url)
	if err != nil {
		return "(a URL with a password)"
	}
	return public
}

// sinkError tells a results store that another command line mends from one that
// cannot be used now.
func sinkError(err error) error {
	if errors.Is(err, results.ErrUnfit) || errors.Is(err, results.ErrOtherSink) {
		return withCode(exitUsage, err)
	}
	return withCode(exitUnreachable, err)
}

// openSink opens the results store of an evaluation, results.db in its folder if url is empty.
// After a failure it removes a newly created one from a new folder.
func openSink(ctx context.Context, url string, out *folder) (results.Sink, error) {
	sink, err := results.Open(ctx, cmp.Or(url, out.path(sinkFile)))
	if err != nil {
		out.undo()
		return nil, sinkError(err)
	}
	return sink, nil
}

// folderSink is a results store and the output folder that is held with it.
type folderSink struct {
	results.Sink
	out *folder
}

func (s folderSink) Close() error { return errors.Join(s.Sink.Close(), s.out.Close()) }
