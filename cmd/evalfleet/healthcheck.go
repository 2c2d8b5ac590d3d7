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

	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/telemetry/metrics"
)

const readyFlag = "ready"

// healthcheckTime is how long a process may take to answer a health check.
const healthcheckTime = 5 * time.Second

func healthcheckCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "healthcheck",
		Usage: "Check a worker's health",
		Description: "Asks the worker that serves metrics on --metrics-addr whether its process responds, without checking Redis. " +
			"With --ready, asks whether it is registered with the fleet, reaches Redis and accepts runs. Exits with 0 for " +
			"yes and 3 for no. Useful in containers without a shell.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: metricsFlagName, Value: metricsDefault, Usage: "the worker's metrics `ADDRESS`"},
			&cli.BoolFlag{Name: readyFlag, Usage: "check whether the worker accepts runs"},
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

// askHealth asks the process that listens on address for its health at path. It returns the answer, or an error unless
// the answer has status 200.
func askHealth(ctx context.Context, address, path string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usageError("--%s %s: want host:port or :port: %w", metricsFlagName, address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a process that listens on all addresses listens here
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
		return "", failure.With(failure.Unavailable, fmt.Errorf("no worker answers: %w", err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return "", failure.With(failure.Unavailable, fmt.Errorf("read answer of %s: %w", request.URL, err))
	}
	if response.StatusCode != http.StatusOK {
		return "", failure.With(failure.Unavailable, errors.New(strings.TrimSpace(string(body))))
	}
	return string(body), nil
}
