package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/config"
	"github.com/evalfleet/evalfleet/internal/config/endpoints"
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Each model is asked for one word, and its answer ends after this many tokens.
const (
	probePrompt = "Reply with the word ready."
	probeTokens = 64
)

func doctorCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "Check Redis, keys and models before a run",
		ArgsUsage: "FILE|DIR",
		Description: "Checks what `run` needs: the evaluation itself, the Redis of --redis if set, the key of each provider, " +
			"and each model, with one call of a few tokens. Prints one line per check, with the fix if it failed, and exits with 3 if " +
			"any did. Problems of the file exit with 2, as in validate. For a first verdict, use run --limit 1.",
		Flags: append(inputFlags(), judgeOption(), allowKeysOption()),
		Action: func(c *cli.Context) error {
			asked, err := p.request(c, false)
			if err != nil {
				return err
			}
			if err := p.grantKeys(c, asked); err != nil {
				return err
			}
			return asked.each(func(s *config.Submission) error { return p.examine(c, s) })
		},
	}
}

// examine runs every check for one evaluation, even after one has failed.
func (p *process) examine(c *cli.Context, s *config.Submission) error {
	text, _, err := summary(s)
	if err != nil {
		return failure.With(failure.Usage, err)
	}
	failed := 0
	say := func(name string, result string, err error) {
		verdict := "ok  "
		if err != nil {
			verdict, result = "FAIL", err.Error()
			failed++
		}
		fmt.Fprint(p.stdout, p.folded(fmt.Sprintf("%s  %s: %s\n", verdict, name, harmless.OneLine(result))))
	}
	say("evaluation", text, nil)
	at, err := p.fleetRedis(c)
	if err != nil {
		return err
	}

	if at.URL == "" {
		say("redis", "embedded; set --redis to use a fleet's", nil)
	} else {
		evaluations, err := connect(c.Context, at, c.String(namespaceFlag), roleOf(c), s.Lease, false, zerolog.Nop())
		if err == nil {
			defer evaluations.Close()
			limits := ratelimit.Config{Namespace: c.String(namespaceFlag), Lease: s.Lease}
			err = ratelimit.NewAdmin(evaluations.Client(), limits).CheckLease(c.Context)
		}
		say("redis", dial.Redact(at.URL)+" is reachable and accepts this client", err)
	}

	tried := map[string]bool{}
	for _, judge := range s.Settings.Everyone(s.Evaluation) {
		if tried[judge.Target()] {
			continue
		}
		tried[judge.Target()] = true
		for _, at := range s.Providers[judge.Provider].Each() {
			result, err := p.probe(c.Context, at, judge.Model, s.Settings.Timeout(judge))
			if c.Err() != nil {
				return c.Err()
			}
			say(at.Name+":"+judge.Model, result, err)
		}
	}

	if failed > 0 {
		return failure.With(failure.Unavailable, fmt.Errorf("%s of %s failed", wording.Counted(failed, "check"), s.Evaluation.Name))
	}
	return nil
}

// probe asks a model of a provider, or an account, for one word, and reports the result or a remedy. If the address has no
// such path, it also tries the address that was probably meant.
func (p *process) probe(ctx context.Context, at catalog.Entry, model string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	told, err := p.askAt(ctx, at, model)
	var failure *providers.Error
	other := at
	other.BaseURL = at.Alternative()
	if !errors.As(err, &failure) || !failure.NoSuchPath() || other.BaseURL == "" {
		return told, err
	}

	if told, otherErr := p.askAt(ctx, other, model); otherErr == nil {
		return "", fmt.Errorf("no answer at %s, but at another address it %s; write base_url: %q", at.BaseURL, told, other.BaseURL)
	}
	return "", fmt.Errorf("%w; %s does not answer either", err, other.BaseURL)
}

// askAt asks a model of a provider, or an account, for one word.
func (p *process) askAt(ctx context.Context, at catalog.Entry, model string) (string, error) {
	judges := []eval.Judge{{Provider: at.Name, Model: model}}
	callable, err := endpoints.Open(ctx, map[string]catalog.Entry{at.Name: at}, p.env, p.keys, 1, endpoints.OfJudges(judges))
	if err != nil {
		return "", err
	}
	defer callable.Close()

	endpoint, began := callable.ByName[at.Name], time.Now()
	request := &providers.Request{
		Key: endpoint.Key, Model: model, MaxOutputTokens: probeTokens,
		Messages: []providers.Message{{Role: providers.User, Content: probePrompt}},
	}
	result, err := endpoint.Provider.Call(ctx, request)
	for errors.Is(err, providers.ErrAgain) {
		result, err = endpoint.Provider.Call(ctx, request)
	}

	var failure *providers.Error
	if errors.As(err, &failure) {
		return "", fmt.Errorf("%w; %s", failure, remedy(failure, callable.Entries[at.Name], model))
	}
	if err != nil {
		return "", err
	}
	told := "answered in " + time.Since(began).Round(time.Millisecond).String()
	if result.Usage.Reported {
		told += fmt.Sprintf(", %d tokens in and %d out", result.Usage.Input, result.Usage.Output)
	}
	return told, nil
}

// remedy returns advice on a model that does not answer.
func remedy(failure *providers.Error, e catalog.Entry, model string) string {
	switch {
	case failure.Status == 0:
		return "check that a server listens at " + e.BaseURL + ", and the proxy and firewall on the way"
	case failure.Class == providers.Auth && e.KeySource != nil:
		return "check the key from " + e.KeyFrom()
	case failure.Class == providers.Auth && e.KeyEnv != "":
		return "put a valid key for " + e.BaseURL + " into " + e.KeyEnv
	case failure.Class == providers.Auth:
		if provider, account := catalog.ProviderOf(e.Name); account != "" {
			return "name the variable with the key of account " + account + " in providers." + provider + ".accounts"
		}
		return "name the variable with the key in providers." + e.Name + ".api_key_env"
	case failure.Class == providers.ModelUnavailable:
		return "check the name " + model + ", and whether the account may use it at " + e.BaseURL
	case failure.Class == providers.QuotaBilling:
		return "add credit to the account, or use another"
	case failure.Class == providers.QuotaDaily:
		return "wait until the account's daily quota resets, or use another account"
	case failure.Class.Retryable():
		return "try again in a minute; a run waits and retries"
	}
	return "see docs/errors.md"
}
