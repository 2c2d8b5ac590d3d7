package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/fleet"
	"github.com/evalfleet/evalfleet/folder"
	"github.com/evalfleet/evalfleet/internal/dial"
	"github.com/evalfleet/evalfleet/internal/embedded"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/results"
	"github.com/evalfleet/evalfleet/store"
	"github.com/evalfleet/evalfleet/web"
)

const (
	listenFlag       = "listen"
	allowActionsFlag = "allow-actions"
	prometheusFlag   = "prometheus"
	authFileFlag     = "auth-file"
	allowedHostsFlag = "allowed-hosts"
	tlsCertFlag      = "tls-cert"
	tlsKeyFlag       = "tls-key"
)

// closeTime is how long answers under way have after a stop.
const closeTime = 3 * time.Second

func uiCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "ui",
		Usage:     "Serve a dashboard for evaluations, limits and queues",
		ArgsUsage: "[ID|DIR]",
		Description: "Serves a live dashboard at / until Ctrl-C: evaluations, limits, workers, queues and tasks, and asynqmon at /asynqmon/. With the output folder of a " +
			"run in progress, it shows that run; after its end, the numbers and the report. It prints its address as the " +
			"first line of stdout. Anyone who can reach the address can see everything, unless --auth-file is set. Changes " +
			"require --allow-actions.",
		Flags: pageFlags("`ADDRESS` to listen on; port 0 takes a free one"),
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return usageError("ui takes one ID or folder or none, got %d", c.Args().Len())
			}
			_, log, err := p.output(c)
			if err != nil {
				return err
			}
			pages, err := p.pages(c, c.Args().First(), log)
			if err != nil {
				return err
			}
			defer pages.close()
			return p.serve(c.Context, c.String(listenFlag), pages)
		},
	}
}

// pageFlags are those of the commands that serve pages.
func pageFlags(listen string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: listenFlag, Value: "127.0.0.1:8080", Usage: listen},
		&cli.BoolFlag{Name: allowActionsFlag, Usage: "allow pausing, resuming, cancelling and retrying evaluations, and changing queues and tasks in asynqmon; on addresses other than loopback, requires --" + authFileFlag},
		&cli.StringFlag{Name: authFileFlag, Usage: "htpasswd `FILE` (htpasswd -B) of users who may see the pages (default no login)"},
		&cli.StringSliceFlag{Name: allowedHostsFlag, Usage: "host `NAMES` under which browsers may open the pages, comma-separated (default localhost and IP addresses; with --" + authFileFlag + ", all)"},
		&cli.StringFlag{Name: tlsCertFlag, Usage: "`FILE` with the certificate of the pages, PEM; serves https, requires --" + tlsKeyFlag + " (default http)"},
		&cli.StringFlag{Name: tlsKeyFlag, Usage: "`FILE` with the private key of --" + tlsCertFlag + ", PEM (default none)"},
		&cli.StringFlag{Name: prometheusFlag, Usage: "`URL` of a Prometheus that scrapes the controller, for asynqmon's charts (default no charts)"},
	}
}

// pages are what `ui` serves.
type pages struct {
	config  web.Config
	start   string      // path of the page to begin with
	allowed bool        // to act
	tls     *tls.Config // nil: http
	client  redis.UniversalClient
}

// prometheusURL checks what --prometheus says; empty: there is none. asynqmon's page has
// it in its text, so that it may hold no password.
func prometheusURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usageError("--%s wants a URL such as http://127.0.0.1:9090", prometheusFlag)
	}
	if u.User != nil {
		return "", usageError("--%s must not contain a user or password, because users of the pages can read it", prometheusFlag)
	}
	return u.String(), nil
}

func (p *pages) close() {
	if p.client != nil {
		_ = p.client.Close()
	}
}

// pages finds the source that the argument names: a folder, with its Redis during a run in it,
// or an evaluation of the Redis of --redis, or all of them.
func (p *process) pages(c *cli.Context, argument string, log zerolog.Logger) (*pages, error) {
	of, err := newPages(c, log)
	if err != nil {
		return nil, err
	}
	dir, err := place(c, argument)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		if err := folder.Check(dir); err != nil {
			return nil, err
		}
		of.config.Folder = p.folderPages(c, dir)
		of.config.Results = func(ctx context.Context, _ eval.ID) (results.Reader, error) {
			return of.config.Folder.Open(ctx)
		}
		address, err := embedded.Address(dir)
		if err == nil {
			if client, err := connect(c.Context, dial.Settings{URL: address}, c.String(namespaceFlag), dial.Controller, 0, false, log); err == nil {
				of.client = client
				of.steered(&fleet.Connection{Client: client, Store: store.New(client, c.String(namespaceFlag)), Dir: dir, Log: log}, dir)
				return of, nil
			}
			log.Debug().Msg("the run in this folder ended unexpectedly; showing its recorded results")
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, withCode(exitUsage, fmt.Errorf("read the address of the run in %s: %w", dir, err))
		}
		reader, _, err := p.readFolder(c, dir) // describes the missing part
		if err != nil {
			return nil, err
		}
		return of, reader.Close()
	}
	d, err := p.openDrain(c, 0, false)
	if err != nil {
		return nil, err
	}
	of.client = d.Client
	of.ofFleet(d)
	if argument != "" {
		of.start = "/evaluations/" + argument
		if _, err := d.Store.Evaluation(c.Context, eval.ID(argument)); errors.Is(err, store.ErrNoEvaluation) {
			defer of.close()
			return nil, d.Unknown(c.Context, eval.ID(argument))
		}
	}
	return of, nil
}

// newPages returns pages without a source, for the users that the command line names.
func newPages(c *cli.Context, log zerolog.Logger) (*pages, error) {
	prometheus, err := prometheusURL(c.String(prometheusFlag))
	if err != nil {
		return nil, err
	}
	of := &pages{start: "/", allowed: c.Bool(allowActionsFlag), config: web.Config{Prometheus: prometheus, Hosts: c.StringSlice(allowedHostsFlag), Log: log}}
	if cert, key := c.String(tlsCertFlag), c.String(tlsKeyFlag); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, usageError("--%s and --%s: %w", tlsCertFlag, tlsKeyFlag, err)
		}
		of.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if path := c.String(authFileFlag); path != "" {
		if of.config.Accounts, err = web.OpenAccounts(path); err != nil {
			return nil, usageError("--%s: %w", authFileFlag, err)
		}
	}
	return of, nil
}

// steered makes the pages show a Redis, and change it if that is allowed. folder
// is that of the run that the Redis belongs to, if any.
func (p *pages) steered(d *fleet.Connection, folder string) {
	p.config.Store, p.config.Limits = d.Store, d.Limits()
	if p.allowed {
		p.config.Actions = fleet.Actions{Connection: d, Folder: folder}
	}
}

// ofFleet has the pages show a fleet, and reports from its evaluations'
// stores.
func (p *pages) ofFleet(d *fleet.Connection) {
	p.steered(d, "")
	p.config.Results = func(ctx context.Context, id eval.ID) (results.Reader, error) {
		reader, _, _, err := d.Reader(ctx, id)
		if codeOf(err) == exitUsage && !errors.Is(err, store.ErrNoEvaluation) { // in a store that was not named here
			err = fmt.Errorf("%w: %w", web.ErrNotHere, err)
		}
		return reader, err
	}
}

func (p *process) folderPages(c *cli.Context, dir string) *web.Folder {
	return &web.Folder{
		Open: func(ctx context.Context) (results.Reader, error) {
			url, only, err := p.sinkIn(c, dir)
			if err != nil {
				return nil, err
			}
			reader, _, err := folder.ReadStore(ctx, url, only)
			return reader, err
		},
		Status: func(of results.Listed) record.Status { return fleet.StatusInFolder(dir, of) },
	}
}

// serve serves until ctx ends, which is no failure.
func (p *process) serve(ctx context.Context, address string, of *pages) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return usageError("--%s %s: %w; another address is named as --%s 127.0.0.1:0, which takes a free port", listenFlag, address, err, listenFlag)
	}
	loopback := listener.Addr().(*net.TCPAddr).IP.IsLoopback()
	switch {
	case loopback || of.config.Accounts != nil:
	case of.allowed:
		_ = listener.Close()
		return usageError("--%s lets anyone who reaches %s cancel evaluations: add a login with --%s FILE, or listen on 127.0.0.1", allowActionsFlag, listener.Addr(), authFileFlag)
	default:
		fmt.Fprintf(p.stderr, "evalfleet: the pages have no login: anyone who reaches %s sees document names and verdicts; add a login with --%s\n", listener.Addr(), authFileFlag)
	}
	pages := web.New(of.config)
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	server.RegisterOnShutdown(pages.End)
	ended := make(chan error, 1)
	scheme, accepts := "http", listener
	if of.tls != nil {
		scheme, accepts = "https", tls.NewListener(listener, of.tls)
	}
	go func() { ended <- server.Serve(accepts) }()
	fmt.Fprintf(p.stdout, "%s://%s%s\n", scheme, listener.Addr(), of.start)
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
