// Package dashboard connects the pages of package web with a fleet's Redis or an output folder:
// what they show, what they may change, and the evaluations that are sent to them. It serves them.
//
// It reads no command lines: connections, accounts and addresses are passed in.
package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/machine/hostname"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/web"
)

// closeTime is how long answers in progress have to end after a stop.
const closeTime = 3 * time.Second

// Dashboard holds the pages, and what they show.
type Dashboard struct {
	web.Config
	Start   string      // path of the first page
	Changes bool        // people may change evaluations and submit them
	TLS     *tls.Config // nil: http
}

// ShowFleet makes the pages show a fleet's evaluations, and reports from their results stores.
func (d *Dashboard) ShowFleet(f *fleet.Connection) {
	d.steer(f, "")
	d.Voting.Open = f.OpenStore
	d.Results = func(ctx context.Context, id eval.ID) (results.Reader, error) {
		reader, _, _, err := f.Reader(ctx, id)
		if failure.KindOf(err) == failure.Usage && !errors.Is(err, store.ErrNoEvaluation) { // not here
			err = fmt.Errorf("%w: %w", web.ErrNotHere, err)
		}
		return reader, err
	}
}

// ShowFolder makes the pages show an output folder.
func (d *Dashboard) ShowFolder(dir string, storeIn outdir.StoreIn) {
	d.Folder = &web.Folder{
		Open: func(ctx context.Context) (results.Reader, error) {
			reader, _, err := storeIn.Read(ctx)
			return reader, err
		},
		Status: func(of results.Listed) record.Status { return fleet.StatusInFolder(dir, of) },
	}
	d.Results = func(ctx context.Context, _ eval.ID) (results.Reader, error) { return d.Folder.Open(ctx) }
	d.Voting.Open = func(ctx context.Context, _ eval.ID) (results.Store, error) { return openStore(ctx, storeIn) }
}

// openStore opens the results store of an output folder for writing.
func openStore(ctx context.Context, storeIn outdir.StoreIn) (results.Store, error) {
	url, _, err := storeIn()
	if err != nil {
		return nil, err
	}
	return results.Open(ctx, url)
}

// ShowFolders makes the pages show all evaluations in a folder of output folders, also in those that are added later.
func (d *Dashboard) ShowFolders(root string, storeIn func(dir string) outdir.StoreIn) {
	inside := func() []web.Folder {
		var folders []web.Folder
		for _, dir := range outdir.Inside(root) {
			var of Dashboard
			of.ShowFolder(dir, storeIn(dir))
			folders = append(folders, *of.Folder)
		}
		return folders
	}

	d.Folder = &web.Folder{Inside: inside}
	d.Results = func(ctx context.Context, id eval.ID) (results.Reader, error) {
		for _, dir := range outdir.Inside(root) {
			if reader := openWith(ctx, storeIn(dir), id); reader != nil {
				return reader, nil
			}
		}
		return nil, fmt.Errorf("%w: no folder in %s has it", results.ErrNoEvaluation, root)
	}
	d.Voting.Open = func(ctx context.Context, id eval.ID) (results.Store, error) {
		for _, dir := range outdir.Inside(root) {
			if reader := openWith(ctx, storeIn(dir), id); reader != nil {
				_ = reader.Close()
				return openStore(ctx, storeIn(dir))
			}
		}
		return nil, fmt.Errorf("%w: no folder in %s has it", results.ErrNoEvaluation, root)
	}
}

// openWith opens the results store of an output folder if it has an evaluation; otherwise, it returns nil.
func openWith(ctx context.Context, storeIn outdir.StoreIn, id eval.ID) results.Reader {
	reader, _, err := storeIn.Read(ctx)
	if err != nil {
		return nil
	}
	if _, err := reader.Evaluation(ctx, id); err == nil {
		return reader
	}
	_ = reader.Close()
	return nil
}

// ShowRun makes the pages of an output folder show the run in it, through its Redis.
func (d *Dashboard) ShowRun(f *fleet.Connection) { d.steer(f, f.Dir) }

// steer makes the pages show a Redis, and change it if that is allowed. dir is the folder of the
// run that the Redis belongs to, if any.
func (d *Dashboard) steer(f *fleet.Connection, dir string) {
	d.Store, d.Limits = f.Store, f.Limits()
	if d.Changes {
		d.Actions = fleet.Actions{Connection: f, Folder: dir}
	}
}

// Exposed reports whether anyone on other machines can see the pages at an address. That is so if
// the pages have no login and the address is not a loopback address.
func (d *Dashboard) Exposed(address net.Addr) bool {
	at, ok := address.(*net.TCPAddr)
	return d.Accounts == nil && (!ok || !at.IP.IsLoopback())
}

// Serve serves the pages until ctx ends, which is not an error, and closes the listener. It passes
// their address to begun first.
func (d *Dashboard) Serve(ctx context.Context, listener net.Listener, begun func(address string)) error {
	pages := web.New(d.Config)
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	server.RegisterOnShutdown(pages.End)
	ended := make(chan error, 1)
	scheme, accepts := "http", listener
	if d.TLS != nil {
		scheme, accepts = "https", tls.NewListener(listener, d.TLS)
	}
	go func() { ended <- server.Serve(accepts) }()
	begun(fmt.Sprintf("%s://%s%s", scheme, listener.Addr(), d.Start))
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}

	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// PrometheusURL checks the address of a Prometheus. asynqmon's page contains it, so it must not
// have a password. An empty address means that there is none.
func PrometheusURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, ok := hostname.ParseWeb(text)
	if !ok {
		return "", errors.New("want a URL such as http://127.0.0.1:9090")
	}
	if u.User != nil {
		return "", errors.New("must not contain a user or password, because users of the pages can read it")
	}
	return u.String(), nil
}
