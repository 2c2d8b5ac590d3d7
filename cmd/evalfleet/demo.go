package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/simulator"
)

//go:embed demo
var demoFiles embed.FS

// demoWorkers is how many workers the demo has.
const demoWorkers = 2

func demoCommand(p *process) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "Try a fleet: pages, workers and a simulated provider, for about a minute",
		Description: "Starts a Redis, the simulated provider, two workers and a controller in one process, and submits an " +
			"evaluation that takes about a minute. It prints the address of the pages as the first line of stdout, and runs until " +
			"Ctrl-C. Everything is in a temporary folder (here if there is no /tmp), which is removed at the end. It needs no keys and no network.",
		Flags: []cli.Flag{&cli.StringFlag{Name: listenFlag, Value: "127.0.0.1:8080", Usage: "`ADDRESS` of the pages; port 0 takes a free one"}},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return p.demo(c.Context, c.String(listenFlag))
		},
	}
}

// demo runs the demo until ctx ends, which is not an error.
func (p *process) demo(ctx context.Context, listen string) (err error) {
	dir, err := os.MkdirTemp("", "evalfleet-demo-")
	if errors.Is(err, fs.ErrNotExist) { // an empty container has no /tmp
		var here string
		if here, err = os.Getwd(); err == nil {
			dir, err = os.MkdirTemp(here, "evalfleet-demo-")
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	redis, err := embedded.Start(dir)
	if err != nil {
		return err
	}
	defer redis.Close()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Behaviour: simulator.Behaviour{
		Latency: simulator.Span{Min: 2 * time.Second, Max: 4 * time.Second}}})
	if err != nil {
		return err
	}
	defer server.Close()
	if err := writeDemo(dir, server.URL); err != nil {
		return err
	}

	fleet := []string{"--redis", redis.URL(), "--config", filepath.Join(dir, "fleet.yaml"), "--log-level", "error"}
	url := "sqlite:" + filepath.Join(dir, "results.db")
	parts, running := errgroup.WithContext(ctx)
	part := func(stdout io.Writer, args ...string) error {
		// The user's own settings and keys would lead out of the demo.
		none := func(string) (string, bool) { return "", false }
		of := &process{env: none, keys: none, stdin: strings.NewReader(""), stdout: stdout, stderr: io.Discard, now: p.now, atOnce: p.atOnce}
		return of.run(running, append(args, fleet...))
	}
	for range demoWorkers {
		parts.Go(func() error { return part(io.Discard, "worker", "--metrics-addr", "off", "--grace", "100ms") })
	}
	parts.Go(func() error {
		return part(
			p.stdout, "controller", "--listen", listen, "--metrics-addr", "off", "--allow-actions", "--allow-sink", url,
			"--out-dir", filepath.Join(dir, "out"),
		)
	})
	parts.Go(func() error {
		err := part(io.Discard, "enqueue", filepath.Join(dir, "evaluation.yaml"), "--sink", url)
		if err == nil {
			fmt.Fprintln(
				p.stderr,
				"an evaluation of about a minute has started; open the address in a browser; Ctrl-C ends the demo and removes everything",
			)
		}
		return err
	})
	err = parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// demoSlips is how many words each of the demo's documents repeats. Simulated judges count them, and err: of neighbours
// that differ by little, a judge prefers now the one and now the other.
var demoSlips = []int{2, 3, 3, 3, 4, 4, 4, 5}

// writeDemo writes the demo's files.
func writeDemo(dir, simulator string) error {
	evaluation, err := demoFiles.ReadFile("demo/evaluation.yaml")
	if err != nil {
		return err
	}
	text, err := demoFiles.ReadFile("demo/text.md")
	if err != nil {
		return err
	}

	files := map[string]string{
		"evaluation.yaml": string(evaluation),
		"fleet.yaml": fmt.Sprintf(
			"providers:\n  simulator: {base_url: %q}\nconcurrency:\n  per_provider:\n    simulator: {max_concurrency: 6}\n",
			simulator+"/v1",
		),
	}
	words := strings.SplitAfter(string(text), " ")
	for version, slips := range demoSlips {
		every := len(words) / slips
		var document strings.Builder
		for i, word := range words {
			document.WriteString(word)
			if i%every == 3+version && i/every < slips {
				document.WriteString(word)
			}
		}
		files[fmt.Sprintf("docs/version-%d.md", version+1)] = document.String()
	}

	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}

	return nil
}
