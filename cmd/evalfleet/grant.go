package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

const (
	allowKeysFlag     = "allow-keys"
	allowOutsideFlag  = "allow-outside"
	allowCommandsFlag = "allow-commands"
)

func allowKeysOption() cli.Flag {
	return &cli.StringSliceFlag{
		Name: allowKeysFlag,
		Usage: "`NAME=VARIABLE`: send the key in VARIABLE to provider NAME, which FILE defines (default ask on a " +
			"terminal, else refuse); repeatable",
	}
}

func allowOutsideOption() cli.Flag {
	return &cli.BoolFlag{Name: allowOutsideFlag, Usage: "allow FILE to name documents, templates and other files outside of its folder"}
}

// grantKeys decides which providers defined by evaluation files get a key: those that the
// command line allows, or the user at the terminal. It prints the address that each key is sent
// to.
func (p *process) grantKeys(c *cli.Context, asked *request) error {
	allowed := map[string]string{}
	for _, pair := range c.StringSlice(allowKeysFlag) {
		name, variable, ok := strings.Cut(pair, "=")
		if !ok || name == "" || variable == "" {
			return usageError("--%s: got %q, want NAME=VARIABLE, for example local=LOCAL_KEY", allowKeysFlag, pair)
		}
		allowed[name] = variable
	}
	for _, s := range asked.submissions {
		if err := p.grantKeysOf(c, s, asked.options.Fleet, allowed); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) grantKeysOf(c *cli.Context, s *config.Submission, fleet *config.Fleet, allowed map[string]string) error {
	var open []catalog.Entry
	wanted := ""
	for _, name := range s.OwnProviders(fleet.Providers) {
		e := s.Providers[name]
		variable, ok := allowed[name]
		switch {
		case ok && (e.KeyEnv == "" || e.KeyEnv == variable):
			e.KeyEnv = variable
			s.Providers[name] = e
			fmt.Fprintf(p.stderr, "the key in %s is sent to provider %s at %s\n", variable, name, e.BaseURL)
		case e.KeyEnv != "":
			open = append(open, e)
			wanted += fmt.Sprintf("\n  provider %s at %q wants the key in %q", name, e.BaseURL, e.KeyEnv)
		}
	}

	if len(open) == 0 {
		return nil
	}
	yes, asked, err := terminal.Confirm(
		c.Context, p.stdin, p.stderr, "the evaluation file defines where keys are sent:"+wanted+"\nSend them there?",
	)
	switch {
	case err != nil:
		return failure.With(failure.Interrupted, errors.New("interrupted: no calls were made"))
	case yes:
		return nil
	case asked:
		return usageError("nothing was called")
	}

	flags := ""
	for _, e := range open {
		flags += fmt.Sprintf(" --%s %s", allowKeysFlag, wording.ShellWord(e.Name+"="+e.KeyEnv))
	}
	return usageError(
		"keys are not sent to addresses of an evaluation file:%s\nto allow it, add%s; or move the providers to a file for --%s",
		wanted, flags, configFlag,
	)
}
