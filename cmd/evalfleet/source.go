package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/dial"
	"github.com/evalfleet/evalfleet/internal/embedded"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
)

// source is where a reading command reads from: a Redis, and the results stores that can be
// read from here. For an output folder it is the Redis of the active run there, if any, and the
// folder's results store.
type source struct {
	dir       string  // the folder; empty: none was named
	only      eval.ID // the evaluation; empty: all there are
	outDir    string  // --out-dir
	namespace string
	redis     *drain // nil: none, or none now
	address   string // of the embedded Redis that redis is connected to
	log       zerolog.Logger
	// sinkIn finds the folder's sink, and the evaluation that is the folder's where the
	// sink has others, too.
	sinkIn func() (url string, only eval.ID, err error)
}

// source finds out what an argument names: a folder, an evaluation, or nothing.
func (p *process) source(c *cli.Context, argument string) (*source, error) {
	_, log, err := p.output(c)
	if err != nil {
		return nil, err
	}
	s := &source{outDir: c.String(outDirFlag), namespace: c.String(namespaceFlag), log: log}
	if s.dir, err = place(c, argument); err != nil {
		return nil, err
	}
	if s.dir == "" {
		s.only = eval.ID(argument)
		s.redis, err = p.openDrain(c, 0, false)
		return s, err
	}
	s.sinkIn = func() (string, eval.ID, error) { return p.sinkIn(c, s.dir) }
	_, _, err = s.sinkIn()
	return s, err
}

// place is the output folder that the argument of a command that looks in means,
// or "" for the Redis of --redis.
func place(c *cli.Context, argument string) (dir string, err error) {
	noRedis := c.String(redisFlag) == ""
	switch {
	case folder.Is(argument):
		return argument, nil
	case argument != "":
		if found, _ := filepath.Glob(filepath.Join(folder.Root, "*-"+argument)); noRedis && len(found) == 1 && strings.HasPrefix(argument, "ev-") {
			return found[0], nil
		}
		return "", unplaced(c, argument)
	case noRedis && c.String(outDirFlag) != "":
		return c.String(outDirFlag), nil
	case noRedis:
		return "", usageError("%s looks into a fleet's Redis (--%s or REDIS_URL) or an output folder%s", c.Command.Name, redisFlag, nearestFolder(""))
	}
	return "", nil
}

// unplaced is the error for an argument that names no evaluation, or one whose place is
// unknown; nil for the id of one in the Redis of --redis.
func unplaced(c *cli.Context, argument string) error {
	switch {
	case !strings.HasPrefix(argument, "ev-"):
		return usageError("%s is neither a folder here nor an evaluation's id, which begins with ev-%s", argument, nearestFolder(argument))
	case c.String(redisFlag) == "":
		return usageError("%s: name its Redis with --%s, or its output folder instead of its id%s", argument, redisFlag, nearestFolder(argument))
	}
	return nil
}

// nearestFolder ends a message with the output folder that may have been meant.
func nearestFolder(argument string) string {
	stores, _ := filepath.Glob(filepath.Join(folder.Root, "*", folder.ResultsFile))
	folders := make([]string, len(stores))
	for i, store := range stores {
		folders[i] = filepath.Dir(store)
	}
	if near := wording.Nearest(argument, folders); near != "" {
		return "; did you mean " + near + "?"
	}
	newest := ""
	var at int64
	for _, store := range stores {
		if info, err := os.Stat(store); err == nil && info.ModTime().UnixNano() > at {
			newest, at = filepath.Dir(store), info.ModTime().UnixNano()
		}
	}
	if newest != "" {
		return "; the newest here is " + newest
	}
	return ""
}

// readFolder opens the results of the folder and finds its evaluation.
func (s *source) readFolder(ctx context.Context) (results.Reader, eval.ID, error) {
	url, only, err := s.sinkIn()
	if err != nil {
		return nil, "", err
	}
	return folder.ReadStore(ctx, url, only)
}

// Close ends the connection.
func (s *source) Close() {
	if s.redis != nil {
		_ = s.redis.client.Close()
	}
}

// fleet is the Redis to look into now; nil when no run is active in the folder, or it is
// unreachable: then its results store is the only source.
func (s *source) fleet(ctx context.Context) *drain {
	if s.dir == "" {
		return s.redis
	}
	address, err := embedded.Address(s.dir)
	if err == nil {
		err = listens(ctx, address)
	}
	if err == nil && s.redis != nil && address == s.address && s.redis.client.Ping(ctx).Err() == nil {
		return s.redis
	}
	s.Close()
	s.redis = nil
	if err != nil {
		return nil
	}
	client, err := connect(ctx, dial.Settings{URL: address}, s.namespace, dial.Viewer, 0, false, s.log) // what a killed run left behind refuses
	if err != nil {
		return nil
	}
	s.redis = &drain{client: client, store: store.New(client, s.namespace), dir: s.dir, log: s.log}
	s.address = address
	return s.redis
}

// listens reports whether a server listens at an address that a killed run may have left
// behind; a client would retry repeatedly.
func listens(ctx context.Context, address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return err
	}
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", parsed.Host)
	if err != nil {
		return err
	}
	return connection.Close()
}

// sink opens the sink of an evaluation as it can be read from here; nil when it
// cannot.
func (s *source) sink(ctx context.Context, r record.Evaluation) results.Reader {
	id, name := r.ID, r.Name
	var at string
	switch {
	case s.dir != "":
		var err error
		if at, _, err = s.sinkIn(); err != nil {
			return nil
		}
	case r.SinkURL != "":
		var err error
		if at, err = s.redis.allowed.of(r); err != nil {
			s.log.Warn().Err(err).Msg("results are not read")
			return nil
		}
	case s.outDir != "":
		at = filepath.Join(s.outDir, folder.ResultsFile)
	default:
		at = filepath.Join(folder.Default(name, id), folder.ResultsFile)
	}
	reader, err := results.OpenReadOnly(ctx, at)
	if err != nil {
		s.log.Debug().Err(err).Msg("results cannot be read from here")
		return nil
	}
	listed, err := reader.Evaluations(ctx)
	if err != nil || !slices.ContainsFunc(listed, func(l results.Listed) bool { return l.ID == id }) {
		_ = reader.Close()
		return nil
	}
	return reader
}

// unknownEvaluation is the error for an id that Redis does not know.
func unknownEvaluation(ctx context.Context, s *store.Store, id eval.ID) error {
	known, err := s.Evaluations(ctx)
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	err = fmt.Errorf("%s: %w", id, store.ErrNoEvaluation)
	if near := wording.Nearest(string(id), names); near != "" {
		return usageError("%w; did you mean %s?", err, near)
	}
	return usageError("%w; `evalfleet status` lists those that there are", err)
}

// evaluations lists what there is to look at in Redis, with ErrNoEvaluation made
// plain.
func (s *source) evaluations(ctx context.Context, redis *drain) ([]eval.ID, error) {
	if s.only == "" {
		ids, err := redis.store.Evaluations(ctx)
		return ids, withCode(exitUnreachable, err)
	}
	switch _, err := redis.store.Evaluation(ctx, s.only); {
	case errors.Is(err, store.ErrNoEvaluation):
		return nil, unknownEvaluation(ctx, redis.store, s.only)
	case err != nil:
		return nil, withCode(exitUnreachable, err)
	}
	return []eval.ID{s.only}, nil
}
