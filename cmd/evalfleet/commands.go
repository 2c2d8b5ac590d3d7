package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/check"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/fleet"
	"github.com/evalfleet/evalfleet/internal/machine/command"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// commandsAtOnce is how many commands of checks run at once.
const commandsAtOnce = 4

// grantCommands requires that the command line, or the user at the terminal, allows the commands of checks to run.
func (p *process) grantCommands(c *cli.Context, asked *request) error {
	var wanted []string
	for _, s := range asked.submissions {
		if s.Judging != nil {
			s = s.Judging.Planned
		}
		for _, one := range s.Evaluation.Checks {
			if one.Kind == eval.CheckCommand {
				wanted = append(wanted, shellWords(check.Command(one, eval.Item{})))
			}
		}
	}
	if len(wanted) == 0 || c.Bool(allowCommandsFlag) {
		return nil
	}

	list := "\n  " + strings.Join(slices.Compact(wanted), "\n  ")
	question := "checks run commands on this machine, once for each text:" + list + "\nRun them?"
	if asked, err := p.confirm(c.Context, p.stderr, question, "no command was run"); asked {
		return err
	}
	return usageError("checks of an evaluation file run commands on this machine only with --%s:%s", allowCommandsFlag, list)
}

// shellWords returns a command as it would be typed into a shell.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = wording.ShellWord(harmless.OneLine(word))
	}
	return strings.Join(quoted, " ")
}

// runCommands runs the commands of checks on an evaluation's texts, and notes which texts fail. It keeps the outcomes of
// an earlier submission, which stored returns; nil: there was none.
func (p *process) runCommands(
	ctx context.Context, s *config.Submission, stored func(context.Context, *eval.Evaluation) (*eval.Evaluation, error),
) error {
	commands := s.Commands()
	if len(commands) == 0 {
		return nil
	}
	before, err := stored(ctx, s.Evaluation)
	if err != nil {
		return err
	}
	if before != nil {
		s.FailAs(before)
		return nil
	}

	fmt.Fprintf(p.stderr, "running commands of checks: %s\n", wording.Counted(len(commands), "text"))
	said := make([]string, len(commands)) // empty: passed
	running, inner := errgroup.WithContext(ctx)
	running.SetLimit(commandsAtOnce)
	environment := command.Environment(os.Environ(), keyVariables(s)...)
	for i, one := range commands {
		running.Go(func() error {
			if inner.Err() != nil {
				return inner.Err()
			}
			how := command.Program{Words: one.Words, Dir: s.Dir, Env: environment}
			why, passed, err := how.Run(inner, one.Text)
			if err != nil {
				return fmt.Errorf("check %s: %w", one.Check.Name, err)
			}
			if !passed {
				said[i] = why
			}
			return nil
		})
	}
	err = running.Wait()
	if ctx.Err() != nil {
		return failure.With(failure.Interrupted, errors.New("interrupted while commands of checks ran: no calls were made"))
	}
	if err != nil {
		return failure.With(failure.Usage, err)
	}

	for i, why := range said {
		if why != "" {
			s.Fail(commands[i], why)
		}
	}
	p.warnOfCommands(s, commands, said)
	return nil
}

// warnOfCommands names the checks that no text passes, because a program with a fault refuses every text.
func (p *process) warnOfCommands(s *config.Submission, commands []*config.Command, said []string) {
	for _, one := range s.Evaluation.Checks {
		why, passed := "", one.Kind != eval.CheckCommand
		for i, c := range commands {
			if c.Check == one {
				passed = passed || said[i] == ""
				why = said[i]
			}
		}
		if !passed {
			fmt.Fprintf(p.stderr, "evalfleet: warning: no text passes check %s, which says: %s\n",
				harmless.OneLine(one.Name), harmless.OneLine(check.Reason(why)))
		}
	}
}

// keyVariables returns the names of the variables with the keys of the providers that an evaluation may name.
func keyVariables(s *config.Submission) (names []string) {
	for _, provider := range s.Providers {
		names = append(names, provider.KeyEnvs()...)
	}
	return names
}

// stored returns the evaluation as the job's results store has it; nil: it does not.
func (j *job) stored(ctx context.Context, e *eval.Evaluation) (*eval.Evaluation, error) {
	url := j.StoreURL
	if url == "" {
		url = filepath.Join(j.Place.Dir, outdir.ResultsFile)
	}
	return fleet.StoredAt(ctx, url, e.ID())
}
