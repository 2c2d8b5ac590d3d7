package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
)

// source returns what an argument names: a folder, an evaluation, or, without an argument, the fleet.
func (p *process) source(c *cli.Context, argument string) (*fleet.Source, error) {
	_, log, err := p.output(c)
	if err != nil {
		return nil, err
	}
	s := &fleet.Source{Log: log}
	s.Connect = func(ctx context.Context, url string) (*store.Store, error) {
		return connect(ctx, dial.Settings{URL: url}, c.String(namespaceFlag), dial.Viewer, 0, false, log)
	}
	if s.Dir, err = place(c, argument); err != nil {
		return nil, err
	}
	if s.Dir == "" {
		s.Only = eval.ID(argument)
		s.Redis, err = p.openConnection(c, false)
		return s, err
	}
	s.StoreIn = p.folder(c, s.Dir)
	_, _, err = s.StoreIn()
	return s, err
}

// sources returns what an argument names, as source does, and several sources for a folder of output folders.
func (p *process) sources(c *cli.Context, argument string) (list []*fleet.Source, err error) {
	dir, err := place(c, argument)
	if err != nil {
		return nil, err
	}
	inside := outdir.Inside(dir)
	if dir == "" || len(inside) == 0 {
		inside = []string{argument}
	}
	for _, argument := range inside {
		s, err := p.source(c, argument)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// place returns the output folder that the argument of a reading command means, or "" for the Redis of --redis.
func place(c *cli.Context, argument string) (dir string, err error) {
	noRedis := c.String(redisFlag) == ""
	switch {
	case outdir.Is(argument):
		return argument, nil
	case argument != "":
		if found, _ := filepath.Glob(filepath.Join(outdir.Root, "*-"+argument)); noRedis && len(found) == 1 &&
			strings.HasPrefix(argument, "ev-") {
			return found[0], nil
		}
		return "", unplaced(c, argument)
	case noRedis && c.String(outDirFlag) != "":
		return c.String(outDirFlag), nil
	case noRedis:
		return "", usageError("%s needs a fleet's Redis (--%s or REDIS_URL) or an output folder%s", c.Command.Name, redisFlag, outdir.Nearest(""))
	}
	return "", nil
}

// unplaced returns the error for an argument that is not an evaluation's ID, or whose location is unknown. It returns
// nil for the ID of an evaluation in the Redis of --redis.
func unplaced(c *cli.Context, argument string) error {
	switch {
	case !strings.HasPrefix(argument, "ev-"):
		return usageError("%s is neither a folder nor the id of an evaluation (ev-…)%s", argument, outdir.Nearest(argument))
	case c.String(redisFlag) == "":
		return usageError("%s: name its Redis with --%s, or its output folder instead of its id%s", argument, redisFlag, outdir.Nearest(argument))
	}
	return nil
}
