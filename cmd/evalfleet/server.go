package main

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

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/collect"
	"github.com/evalfleet/evalfleet/config"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/upload"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/web"
)

const (
	serverFlag = "server"
	// serverPasswordVariable holds the password of the user in --server.
	serverPasswordVariable = "EVALFLEET_SERVER_PASSWORD"
)

// serverQuery maps flags to the parameters of POST /api/evaluations.
var serverQuery = map[string]string{
	judgeFlag: "judge", againFlag: "again", limitFlag: "limit", maxConcurrencyFlag: "max_concurrency", jsonModeFlag: "json_mode",
	providerFlag: "provider", modelFlag: "model", batchFlag: "batch", retryFailedFlag: "retry_failed",
}

// remote is a controller that takes evaluations over HTTP.
type remote struct {
	url    *url.URL // without user and password
	user   *url.Userinfo
	client *http.Client
}

// serverOf returns the controller of --server.
func (p *process) serverOf(c *cli.Context) (*remote, error) {
	u, err := url.Parse(c.String(serverFlag))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError("--%s: want the URL of a controller's pages, such as https://ann@evals.example.org", serverFlag)
	}
	user := u.User
	if user != nil {
		if _, given := user.Password(); !given {
			password, ok := p.env(serverPasswordVariable)
			if !ok {
				return nil, usageError("--%s names the user %s: put the password into %s", serverFlag, user.Username(), serverPasswordVariable)
			}
			user = url.UserPassword(user.Username(), password)
		}
	}
	u.User = nil
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = 10 * time.Second
	proxy, err := config.Proxy(p.env) // whose errors quote no password
	if err != nil {
		return nil, err
	}
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	return &remote{u, user, &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it redirects to %s://%s%s: use that address", to.URL.Scheme, to.URL.Host, to.URL.Path)
	}}}, nil
}

// errServerBusy means that the server asks to try again in a moment.
var errServerBusy = withCode(exitUnreachable, errors.New("the server is busy"))

// do sends a request. The caller closes the body of the answer, which has a status of 2xx.
func (s *remote) do(ctx context.Context, method, path string, query url.Values, mediaType string, body io.Reader) (*http.Response, error) {
	at := s.url.JoinPath(path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, usageError("--%s: %w", serverFlag, err)
	}
	if s.user != nil {
		password, _ := s.user.Password()
		request.SetBasicAuth(s.user.Username(), password)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", mediaType)
		// A server that refuses says so before the files are sent.
		request.Header.Set("Expect", "100-continue")
	}
	answer, err := s.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, withCode(exitInterrupted, ctx.Err())
		}
		return nil, withCode(exitUnreachable, fmt.Errorf("server %s: %w", s.url, err))
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	var said struct{ Error string }
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = strings.TrimSpace(string(text))
	}
	code := exitUsage
	switch {
	case answer.StatusCode == http.StatusUnprocessableEntity:
		return nil, withCode(exitUsage, errors.New(harmless.Text(said.Error)))
	case answer.StatusCode == http.StatusUnauthorized:
		said.Error = "needs a login: use https://USER@… and put the password into " + serverPasswordVariable
	case answer.StatusCode == http.StatusNotFound && method == http.MethodPost:
		said.Error = "takes no evaluations: is this the address of a controller's pages?"
	case answer.StatusCode == http.StatusTooManyRequests:
		return nil, errServerBusy
	case answer.StatusCode >= 500:
		code = exitUnreachable
	}
	return nil, withCode(code, fmt.Errorf("server %s: %s (status %d)", s.url, harmless.OneLine(said.Error), answer.StatusCode))
}

// get decodes the JSON at a path.
func (s *remote) get(ctx context.Context, path string, into any) error {
	answer, err := s.do(ctx, http.MethodGet, path, nil, "", http.NoBody)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return withCode(exitUnreachable, fmt.Errorf("server %s: %s: %w", s.url, path, err))
	}
	return nil
}

// enqueueAt submits an evaluation to a server instead of a Redis.
func (p *process) enqueueAt(c *cli.Context, on failOn) error {
	s, err := p.serverOf(c)
	if err != nil {
		return err
	}
	folder, file, paths, err := p.filesOf(c)
	if err != nil {
		return err
	}
	query := url.Values{"file": {filepath.ToSlash(file)}}
	for flag, parameter := range serverQuery {
		switch {
		case !c.IsSet(flag):
		case flag == judgeFlag:
			query[parameter] = c.StringSlice(flag)
		default:
			query.Set(parameter, fmt.Sprint(c.Value(flag)))
		}
	}
	receipt, err := s.submit(c.Context, folder, paths, query)
	for errors.Is(err, errServerBusy) {
		select {
		case <-time.After(busyFor):
			receipt, err = s.submit(c.Context, folder, paths, query)
		case <-c.Done():
			return withCode(exitInterrupted, errors.New("interrupted while the server was busy; nothing was submitted"))
		}
	}
	if err != nil {
		return err
	}
	for _, warning := range receipt.Warnings {
		fmt.Fprintln(p.stderr, "evalfleet: warning: "+harmless.OneLine(warning))
	}
	if receipt.Kept {
		fmt.Fprintf(p.stderr, "%s is active with other settings, which stay in force: pause it, then submit it again\n", receipt.ID)
	}
	verb := "enqueued"
	if !receipt.Created {
		verb = "already there, resumed"
	}
	fmt.Fprintf(p.stderr, "%s: %s on %s\n", verb, wording.Counted(receipt.Runs, "run"), s.url)
	if c.Bool(waitFlag) {
		if err := p.waitAt(c, s, receipt, on); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(p.stdout, receipt.ID)
	return err
}

// busyFor is how long a busy server is left alone.
const busyFor = time.Second

// submit sends files to the server, which stores the evaluation.
func (s *remote) submit(ctx context.Context, folder string, paths []string, query url.Values) (receipt web.Receipt, err error) {
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
		return receipt, withCode(exitUnreachable, fmt.Errorf("server %s: %w; submit it again, which changes nothing if it was stored", s.url, err))
	}
	return receipt, nil
}

// filesOf returns the files of an evaluation: paths relative to folder, and file, the
// evaluation itself. The server reports their problems: it knows the fleet's providers.
func (p *process) filesOf(c *cli.Context) (folder, file string, paths []string, err error) {
	inputs, err := p.inputs(c, p.listed(c) != (config.Listed{}))
	if err != nil {
		return "", "", nil, err
	}
	in := inputs[0]
	if len(inputs) > 1 || in.path == "" || in.kind == config.ExperimentFile || p.listed(c) != (config.Listed{}) {
		return "", "", nil, usageError("--%s takes an evaluation file, a file of runs or requests, or a folder; submit experiments and runs listed by flags with --%s", serverFlag, redisFlag)
	}
	path, err := filepath.Abs(in.path)
	if err != nil {
		return "", "", nil, usageError("%w", err)
	}
	own := path // the evaluation's folder
	if !in.folder {
		own = filepath.Dir(path)
	}
	// Its name is part of the upload, because evaluations may be called by it.
	folder = filepath.Dir(own)
	if file, err = filepath.Rel(folder, path); err != nil {
		return "", "", nil, usageError("%w", err)
	}
	var opened []string
	_, loaded := in.load(c.StringSlice(judgeFlag), config.Options{ForFleet: true, AllowOutside: true, Opened: func(path string) { opened = append(opened, path) }})
	if len(opened) == 0 {
		return "", "", nil, loaded
	}
	for _, path := range opened {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return "", "", nil, usageError("%w", err)
		}
		name, err := filepath.Rel(own, absolute)
		if err != nil || !filepath.IsLocal(name) {
			return "", "", nil, usageError("%s is not below the evaluation's folder: copy it there, so that it can be sent", path)
		}
		paths = append(paths, filepath.Join(filepath.Base(own), name))
	}
	return folder, file, paths, nil
}

// Of an evaluation on a server: the time between looks, and between lines about it.
const (
	lookAtServerEvery = 2 * time.Second
	sayProgressEvery  = 10 * time.Second
)

// waitAt waits until an evaluation on a server has ended and its results are collected,
// and downloads its files.
func (p *process) waitAt(c *cli.Context, s *remote, receipt web.Receipt, on failOn) error {
	path := "/api/evaluations/" + url.PathEscape(string(receipt.ID))
	said, told := "", time.Time{}
	for {
		var now web.Detail // anew each time: an answer leaves out what is empty
		err := s.get(c.Context, path, &now)
		line := fmt.Sprintf("%d of %s ended, %d failed", now.All.Done, wording.Counted(now.All.Runs, "run"), now.All.Failed)
		if err != nil {
			line = err.Error() + "; trying again"
		}
		complete := now.All.Done == now.All.Runs && (now.Status == record.StatusDone || now.Status == record.StatusCancelled)
		ended := err == nil && now.Uncollected == 0 && (complete || now.Stopped != nil)
		if line != said && (err != nil || ended || time.Since(told) >= sayProgressEvery) {
			fmt.Fprintln(p.stderr, line)
			said, told = line, time.Now()
		}
		switch {
		case ended && now.Stopped != nil && now.Stopped.Known == nil:
			if err := p.download(c, s, path, receipt, now, failOnNever); err != nil {
				return err
			}
			return withCode(exitRunsFailed, fmt.Errorf("%w: %s; %d of %d runs ended; %s", collect.ErrStopped, harmless.OneLine(now.Stopped.String()), now.All.Done, now.All.Runs, howToResume(now.Stopped)))
		case ended:
			return p.download(c, s, path, receipt, now, on)
		case err != nil && codeOf(err) != exitUnreachable:
			return err
		}
		select {
		case <-time.After(lookAtServerEvery):
		case <-c.Done():
			return withCode(exitInterrupted, fmt.Errorf("interrupted; %s continues on %s: wait for it with the same command", receipt.ID, s.url))
		}
	}
}

// howToResume explains how to resume an evaluation on a server after it has stopped.
func howToResume(why *results.Stop) string {
	if why.Budget > 0 {
		return "raise budget in the evaluation file and submit it again"
	}
	return "when that is mended, submit it again"
}

// download writes the files of an evaluation into its output folder.
func (p *process) download(c *cli.Context, s *remote, path string, receipt web.Receipt, now web.Detail, on failOn) error {
	dir := c.String(outDirFlag)
	if dir == "" {
		dir = folder.Default(receipt.Name, receipt.ID)
	}
	out, err := folder.Open(dir)
	if err != nil {
		return err
	}
	defer out.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return usageError("output folder: %w", err)
	}
	defer root.Close()
	var files web.Files
	if err := s.get(c.Context, path+"/files", &files); err != nil {
		return err
	}
	for _, name := range files.Files {
		answer, err := s.do(c.Context, http.MethodGet, path+"/files/"+url.PathEscape(name), nil, "", http.NoBody)
		if err != nil {
			return err
		}
		err = results.WriteFile(root, filepath.Base(name), func(w io.Writer) error { _, err := io.Copy(w, answer.Body); return err })
		_ = answer.Body.Close()
		if err != nil {
			return withCode(exitUnreachable, fmt.Errorf("download %s: %w", strconv.Quote(name), err))
		}
		fmt.Fprintln(p.stderr, filepath.Join(dir, filepath.Base(name)))
	}
	return failedRuns([]results.PhaseCounts{{Kind: eval.Kind(""), Runs: now.All.Runs, Succeeded: now.All.Succeeded, Failed: now.All.Failed}}, on)
}
