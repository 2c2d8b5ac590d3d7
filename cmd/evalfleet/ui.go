package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/fleet/dashboard"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/web"
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

func uiCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "ui",
		Usage:     "Serve a dashboard for evaluations, limits and queues",
		ArgsUsage: "[ID|DIR]",
		Description: "Serves a live dashboard at / until Ctrl-C: evaluations, limits, workers, queues and tasks, and " +
			"asynqmon at /asynqmon/. With the output folder of a " +
			"run in progress, it shows that run; after its end, the numbers and the report. With a folder of output folders, such as " +
			outdir.Root + ", it shows all their evaluations. It prints its address as the " +
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
			return p.serve(c.Context, c.String(listenFlag), &pages.Dashboard)
		},
	}
}

// pageFlags returns the flags of the commands that serve pages.
func pageFlags(listen string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: listenFlag, Value: "127.0.0.1:8080", Usage: listen},
		&cli.BoolFlag{
			Name: allowActionsFlag,
			Usage: "allow pausing, resuming, cancelling and retrying evaluations, and changing queues and tasks in asynqmon; " +
				"on addresses other than loopback, requires --" + authFileFlag,
		},

		authOption(), hostsOption(), certOption(), keyOption(),
		&cli.StringFlag{
			Name:  prometheusFlag,
			Usage: "`URL` of a Prometheus that scrapes the controller, for asynqmon's charts (default no charts)",
		},
	}
}

func authOption() cli.Flag {
	return &cli.StringFlag{Name: authFileFlag, Usage: "htpasswd `FILE` (htpasswd -B) of users who may see the pages (default no login)"}
}

func hostsOption() cli.Flag {
	return &cli.StringSliceFlag{
		Name: allowedHostsFlag,
		Usage: "host `NAMES` under which browsers may open the pages, comma-separated (default localhost and IP " +
			"addresses; with --" + authFileFlag + ", all)",
	}
}

func certOption() cli.Flag {
	return &cli.StringFlag{
		Name:  tlsCertFlag,
		Usage: "`FILE` with the certificate of the pages, PEM; serves https, requires --" + tlsKeyFlag + " (default http)",
	}
}

func keyOption() cli.Flag {
	return &cli.StringFlag{Name: tlsKeyFlag, Usage: "`FILE` with the private key of --" + tlsCertFlag + ", PEM (default none)"}
}

// pages holds what `ui` serves, and the connection from which it reads.
type pages struct {
	dashboard.Dashboard
	fleet *fleet.Connection // nil: none
}

func (p *pages) close() {
	if p.fleet != nil {
		_ = p.fleet.Close()
	}
}

// pages opens the source that the argument names: a folder, with its Redis during a run in it, or one or all
// evaluations of the Redis of --redis.
func (p *process) pages(c *cli.Context, argument string, log zerolog.Logger) (*pages, error) {
	settings, err := pageSettings(c, log)
	if err != nil {
		return nil, err
	}
	of := &pages{Dashboard: settings}
	dir, err := place(c, argument)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		return of, p.showFolder(c, of, dir)
	}
	d, err := p.openConnection(c, false)
	if err != nil {
		return nil, err
	}

	of.fleet = d
	of.ShowFleet(d)
	if argument != "" {
		of.Start = "/evaluations/" + argument
		if _, err := d.Store.Evaluation(c.Context, eval.ID(argument)); errors.Is(err, store.ErrNoEvaluation) {
			defer of.close()
			return nil, d.Unknown(c.Context, eval.ID(argument))
		}
	}

	return of, nil
}

// showFolder makes pages show an output folder, and the run in it.
func (p *process) showFolder(c *cli.Context, of *pages, dir string) error {
	if len(outdir.Inside(dir)) > 0 {
		of.ShowFolders(dir, func(dir string) outdir.StoreIn { return p.folder(c, dir) })
		return nil
	}
	if err := outdir.Check(dir); err != nil {
		return err
	}

	of.ShowFolder(dir, p.folder(c, dir))
	address, err := embedded.Address(dir)
	if err == nil {
		run, err := connect(c.Context, dial.Settings{URL: address}, c.String(namespaceFlag), dial.Controller, 0, false, of.Log)
		if err == nil {
			of.fleet = &fleet.Connection{Store: run, Dir: dir, Log: of.Log}
			of.ShowRun(of.fleet)
			return nil
		}
		of.Log.Debug().Msg("the run in this folder ended unexpectedly; showing its recorded results")
	} else if !errors.Is(err, os.ErrNotExist) {
		return failure.With(failure.Usage, fmt.Errorf("read the address of the run in %s: %w", dir, err))
	}
	reader, _, err := p.folder(c, dir).Read(c.Context) // describes the missing part
	if err != nil {
		return err
	}
	return reader.Close()
}

// pageSettings returns pages without a source, for the users that the command line names.
func pageSettings(c *cli.Context, log zerolog.Logger) (of dashboard.Dashboard, err error) {
	of.Start, of.Changes, of.Hosts, of.Log = "/", c.Bool(allowActionsFlag), c.StringSlice(allowedHostsFlag), log
	of.Voting = web.DefaultVoting()
	if of.Prometheus, err = dashboard.PrometheusURL(c.String(prometheusFlag)); err != nil {
		return of, usageError("--%s: %w", prometheusFlag, err)
	}
	return of, secured(c, &of)
}

// secured adds the users and the certificate that the command line names.
func secured(c *cli.Context, of *dashboard.Dashboard) (err error) {
	if cert, key := c.String(tlsCertFlag), c.String(tlsKeyFlag); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return usageError("--%s and --%s: %w", tlsCertFlag, tlsKeyFlag, err)
		}
		of.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if path := c.String(authFileFlag); path != "" {
		if of.Accounts, err = web.OpenAccounts(path); err != nil {
			return usageError("--%s: %w", authFileFlag, err)
		}
	}
	return nil
}

// serve serves pages until ctx ends, which is not an error.
func (p *process) serve(ctx context.Context, address string, of *dashboard.Dashboard) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return usageError("--%s %s: %w; choose another, such as --%s 127.0.0.1:0 for any free port", listenFlag, address, err, listenFlag)
	}

	switch {
	case !of.Exposed(listener.Addr()):
	case of.Voting.Key != nil:
		fmt.Fprintln(p.stderr, "evalfleet: anyone who has the link reads the texts and can vote")
	case of.Changes:
		_ = listener.Close()
		return usageError(
			"--%s lets anyone who reaches %s cancel evaluations: add a login with --%s FILE, or listen on 127.0.0.1",
			allowActionsFlag, listener.Addr(), authFileFlag,
		)
	default:
		fmt.Fprintf(
			p.stderr,
			"evalfleet: the pages have no login: anyone who reaches %s sees document names and verdicts; add a login with --%s\n",
			listener.Addr(), authFileFlag,
		)
	}

	return of.Serve(ctx, listener, func(address string) {
		if of.Voting.Only != "" { // a link to share
			address = reachable(address)
		}
		fmt.Fprintln(p.stdout, address)
	})
}
