package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/collect"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/web"
	"github.com/evalfleet/evalfleet/internal/web/upload"
)

// busyFor is how long to wait before asking a busy server again.
const busyFor = time.Second

// Submit sends files to the server, which stores the evaluation. paths are relative to folder;
// query is that of POST /api/evaluations. It waits for a busy server.
func (s *Server) Submit(ctx context.Context, folder string, paths []string, query url.Values) (web.Receipt, error) {
	receipt, err := s.submit(ctx, folder, paths, query)
	for errors.Is(err, errBusy) {
		if outage.Pause(ctx, busyFor) != nil {
			return receipt, failure.With(failure.Interrupted, errors.New("interrupted while the server was busy; nothing was submitted"))
		}
		receipt, err = s.submit(ctx, folder, paths, query)
	}
	return receipt, err
}

func (s *Server) submit(ctx context.Context, folder string, paths []string, query url.Values) (receipt web.Receipt, err error) {
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		_ = w.CloseWithError(upload.Pack(w, folder, paths))
	}()
	answer, err := s.do(ctx, http.MethodPost, "/api/evaluations", query, upload.Gzip, r)
	_ = r.CloseWithError(io.ErrClosedPipe) // the answer may come before everything is sent
	<-packed
	if err != nil {
		return receipt, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&receipt); err != nil {
		return receipt, failure.With(
			failure.Unavailable, fmt.Errorf("server %s: %w; submit it again: that changes nothing if it was stored", s, err),
		)
	}
	return receipt, nil
}

// The intervals at which Wait asks for the status, and prints it.
const (
	lookEvery = 2 * time.Second
	sayEvery  = 10 * time.Second
)

func pathOf(id eval.ID) string { return "/api/evaluations/" + url.PathEscape(string(id)) }

// Wait waits until an evaluation has ended and its results are collected, and returns the last
// status. It passes lines about the progress to say, and waits while the server is unreachable. For
// an evaluation that was stopped, it returns the error of Stopped.
func (s *Server) Wait(ctx context.Context, id eval.ID, say func(line string)) (web.Detail, error) {
	said, told := "", time.Time{}
	for {
		var now web.Detail // new each time, because an answer leaves out what is empty
		err := s.get(ctx, pathOf(id), &now)
		line := fmt.Sprintf("%d of %s ended, %d failed", now.All.Done, wording.Counted(now.All.Runs, "run"), now.All.Failed)
		if now.Active() && len(now.BoundBy) > 0 {
			line += "; limited by " + harmless.OneLine(strings.Join(now.BoundBy, "; "))
		}
		if now.Unattended {
			line += "; no controller collects the results: start one"
		}
		if err != nil {
			line = err.Error() + "; trying again"
		}
		complete := now.All.Done == now.All.Runs && (now.Status == record.StatusDone || now.Status == record.StatusCancelled)
		ended := err == nil && now.Uncollected == 0 && (complete || now.Stopped != nil)
		if line != said && (err != nil || ended || time.Since(told) >= sayEvery) {
			say(line)
			said, told = line, time.Now()
		}

		switch {
		case ended:
			return now, nil
		case err != nil && failure.KindOf(err) != failure.Unavailable:
			return now, err
		}

		if outage.Pause(ctx, lookEvery) != nil {
			return now, failure.With(failure.Interrupted, fmt.Errorf("interrupted; %s continues on %s: wait for it with the same command", id, s))
		}
	}
}

// Stopped returns the error of an evaluation that was stopped before its end; it says how to resume
// it. It is nil if the evaluation was not stopped, or because its result is known.
func Stopped(now web.Detail) error {
	if now.Stopped == nil || now.Stopped.Known != nil {
		return nil
	}
	resume := "when that is fixed, submit it again"
	if now.Stopped.Budget > 0 {
		resume = now.Stopped.Remedy()
	}
	return fmt.Errorf("%w: %s; %s of %s runs ended; %s", collect.ErrStopped,
		harmless.OneLine(now.Stopped.String()), wording.Count(now.All.Done), wording.Count(now.All.Runs), resume)
}

// Download writes the files of an evaluation to a folder, which it locks meanwhile, and passes the
// path of each to tell.
func (s *Server) Download(ctx context.Context, id eval.ID, dir string, tell func(path string)) error {
	out, err := outdir.Open(dir)
	if err != nil {
		return err
	}
	defer out.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return failure.Usagef("output folder: %w", err)
	}
	defer root.Close()
	var files web.Files
	if err := s.get(ctx, pathOf(id)+"/files", &files); err != nil {
		return err
	}

	for _, name := range files.Files {
		answer, err := s.do(ctx, http.MethodGet, pathOf(id)+"/files/"+url.PathEscape(name), nil, "", http.NoBody)
		if err != nil {
			return err
		}
		err = results.WriteFile(root, filepath.Base(name), func(w io.Writer) error { _, err := io.Copy(w, answer.Body); return err })
		_ = answer.Body.Close()
		if err != nil {
			return failure.With(failure.Unavailable, fmt.Errorf("download %s: %w", strconv.Quote(name), err))
		}
		tell(filepath.Join(dir, filepath.Base(name)))
	}

	return nil
}
