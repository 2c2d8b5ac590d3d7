package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/config"
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
	question := "the evaluation file defines where keys are sent:" + wanted + "\nSend them there?"
	if asked, err := p.confirm(c.Context, p.stderr, question, "no calls were made"); asked {
		return err
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
