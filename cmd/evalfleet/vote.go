package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/ballot"
	"github.com/evalfleet/evalfleet/internal/fleet/dashboard"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/internal/web"
)

const (
	sampleFlag    = "sample"
	contestedFlag = "contested"
	narrowFlag    = "narrow"
	perPairFlag   = "votes-per-pair"
	// mostPerPair bounds the people who are asked about one pair.
	mostPerPair = 1000
)

func voteCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "vote",
		Usage:     "Serve a page on which people vote on pairs of texts",
		ArgsUsage: "DIR|ID",
		Description: "Serves a page that shows two texts of an evaluation side by side, without the names of candidates and without " +
			"verdicts, until Ctrl-C. It prints the page's link as the first line of stdout. The link is secret: anyone who has it " +
			"can vote, under a name of their choice; with --" + authFileFlag + ", only its users can. Votes are recorded in the " +
			"results store, and `evalfleet report` uses them like those of a file of votes.",
		Flags: []cli.Flag{
			&cli.IntFlag{
				Name: sampleFlag, Value: web.DefaultVoting().Sample,
				Usage: "ask about a random sample of `N` pairs, the only choice that shows without bias how far judges agree with people",
			},
			&cli.BoolFlag{Name: contestedFlag, Usage: "ask about pairs on which judges contradict each other or themselves, instead of a sample"},
			&cli.BoolFlag{Name: narrowFlag, Usage: "ask about pairs of neighbours in the ranking whose order is open, instead of a sample"},
			&cli.IntFlag{
				Name: perPairFlag, Value: web.DefaultVoting().PerPair,
				Usage: "ask up to `N` people about each pair; pairs without votes come first",
			},
			&cli.StringFlag{
				Name: listenFlag, Value: "127.0.0.1:8090",
				Usage: "`ADDRESS` to listen on, such as 0.0.0.0:8090 for people in your network; port 0 takes a free one",
			},
			&cli.StringFlag{
				Name:  authFileFlag,
				Usage: "htpasswd `FILE` (htpasswd -B) of users who may vote, under their own names (default everyone who has the link)",
			},
			hostsOption(), certOption(), keyOption(),
		},

		Action: func(c *cli.Context) error {
			argument, err := oneArgument(c, "DIR or ID")
			if err != nil {
				return err
			}
			voting, err := votingOf(c)
			if err != nil {
				return err
			}
			_, log, err := p.output(c)
			if err != nil {
				return err
			}
			return p.serveVotes(c, argument, voting, log)
		},
	}
}

// votingOf returns which pairs the command line asks about.
func votingOf(c *cli.Context) (voting web.Voting, err error) {
	voting = web.DefaultVoting()
	voting.Sample, voting.PerPair = c.Int(sampleFlag), c.Int(perPairFlag)
	var named []string
	for _, choice := range []struct {
		flag, chosen string
		set          bool
	}{
		{sampleFlag, results.ChosenSample, c.IsSet(sampleFlag)},
		{contestedFlag, results.ChosenContested, c.Bool(contestedFlag)},
		{narrowFlag, results.ChosenNarrow, c.Bool(narrowFlag)},
	} {
		if choice.set {
			named, voting.Chosen = append(named, "--"+choice.flag), choice.chosen
		}
	}

	switch {
	case len(named) > 1:
		return voting, usageError("%s and %s exclude each other: choose one", named[0], named[1])
	case voting.Sample < 1 || voting.Sample > ballot.MostPairs:
		return voting, usageError("--%s must be from 1 to %d, got %d", sampleFlag, ballot.MostPairs, voting.Sample)
	case voting.PerPair < 1 || voting.PerPair > mostPerPair:
		return voting, usageError("--%s must be from 1 to %d, got %d", perPairFlag, mostPerPair, voting.PerPair)
	}
	return voting, nil
}

// serveVotes serves the page for the evaluation of a folder, or for one of a fleet.
func (p *process) serveVotes(c *cli.Context, argument string, voting web.Voting, log zerolog.Logger) error {
	of := &dashboard.Dashboard{Config: web.Config{Hosts: c.StringSlice(allowedHostsFlag), Voting: voting, Log: log}}
	if err := secured(c, of); err != nil {
		return err
	}
	dir, err := place(c, argument)
	if err != nil {
		return err
	}

	id := eval.ID(argument)
	if dir != "" {
		if err := outdir.Check(dir); err != nil {
			return err
		}
		reader, found, err := p.folder(c, dir).Read(c.Context)
		if err != nil {
			return err
		}
		defer reader.Close()
		id = found
		of.ShowFolder(dir, p.folder(c, dir))
	} else {
		d, err := p.openConnection(c, false)
		if err != nil {
			return err
		}
		defer d.Close()
		if _, err := d.Store.Evaluation(c.Context, id); err != nil {
			return d.Unknown(c.Context, id)
		}
		of.ShowFleet(d)
	}

	if err := p.announce(c, of, id); err != nil {
		return err
	}
	of.Voting.Only, of.Start = id, "/"
	if of.Accounts == nil {
		if of.Voting.Key, err = p.own.Derive("link to vote"); err != nil {
			log.Warn().Err(err).Msg("cannot keep a key: the link to vote is another one at the next start")
			of.Voting.Key = []byte(rand.Text() + rand.Text())
		}
		of.Start = of.Voting.LinkPath()
	}
	return p.serve(c.Context, c.String(listenFlag), of)
}

// announce checks that people can vote on an evaluation, and prints about which pairs they are asked.
func (p *process) announce(c *cli.Context, of *dashboard.Dashboard, id eval.ID) error {
	db, err := of.Voting.Open(c.Context, id) // votes have to be written
	if err != nil {
		return outdir.StoreError(err)
	}
	defer db.Close()
	e, err := db.Evaluation(c.Context, id)
	if err != nil {
		return outdir.StoreError(err)
	}
	drawn, err := ballot.Draw(c.Context, db, e, of.Voting.Settings, func(ctx context.Context) (*report.Report, error) {
		return report.Build(ctx, db, id, report.Options{})
	})
	if err != nil {
		return usageError("%s: %w", id, err)
	}

	which := map[string]string{
		results.ChosenSample:    "a random sample of those that judges compare",
		results.ChosenContested: "those on which judges contradict each other or themselves",
		results.ChosenNarrow:    "those of neighbours whose order is open",
	}[of.Voting.Chosen]
	fmt.Fprintf(p.stderr, "asking about %s of %s, %s; each is for up to %s\n", wording.Count(len(drawn.Pairs)),
		wording.Counted(drawn.All, "pair"), which, wording.Either(of.Voting.PerPair, "person", "people"))
	return nil
}

// reachable replaces the host of an address that means all of this machine's addresses by one of them.
func reachable(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsUnspecified() {
		return address
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return address
	}
	for _, one := range addresses {
		if at, ok := one.(*net.IPNet); ok && at.IP.To4() != nil && at.IP.IsGlobalUnicast() {
			u.Host = net.JoinHostPort(at.IP.String(), u.Port())
			return u.String()
		}
	}
	return address
}
