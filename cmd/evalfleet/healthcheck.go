package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/metrics"
)

const readyFlag = "ready"

// healthcheckTime is how long a process may take to say that it is well.
const healthcheckTime = 5 * time.Second

func healthcheckCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "healthcheck",
		Usage: "ask the worker of this container or machine whether it is alive, or ready",
		Description: "Asks the worker that serves its metrics on --metrics-addr: whether its process answers, which needs no Redis, " +
			"or with --ready whether it is known to the fleet, reaches Redis and takes runs. Exit code 0 means yes, 3 no. " +
			"For containers without a shell.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: metricsFlagName, Value: metricsDefault, Usage: "`ADDRESS` that the worker was given"},
			&cli.BoolFlag{Name: readyFlag, Usage: "ask whether it takes runs"},
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			path := metrics.HealthPath
			if c.Bool(readyFlag) {
				path = metrics.ReadyPath
			}
			answer, err := askHealth(c.Context, c.String(metricsFlagName), path)
			if err != nil {
				return err
			}
			_, err = io.WriteString(p.stdout, answer)
			return err
		},
	}
}

// askHealth is what the process that listens on address says at path; an error
// unless it says yes.
func askHealth(ctx context.Context, address, path string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usageError("--%s %s: want host:port or :port: %w", metricsFlagName, address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // what listens everywhere listens here
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return "", usageError("--%s %s: %w", metricsFlagName, address, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without the proxies of the environment
	response, err := client.Do(request)
	if err != nil {
		return "", withCode(exitUnreachable, fmt.Errorf("no worker answers: %w", err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return "", withCode(exitUnreachable, fmt.Errorf("read answer of %s: %w", request.URL, err))
	}
	if response.StatusCode != http.StatusOK {
		return "", withCode(exitUnreachable, errors.New(strings.TrimSpace(string(body))))
	}
	return string(body), nil
}
