// Package command runs a program on a text, which passes if the program exits with 0, or for what it prints.
//
// It bounds how long a program runs and how much of its output is kept, and ends it together with the processes that it
// has started. It restricts nothing else: a program may do what its user may. So it decides nothing about which programs
// are run; the person at the command line does.
package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of a program.
const (
	Time     = 30 * time.Second // how long it may run
	mostKept = 16 << 10         // bytes of its output that are read; the rest is dropped
	rest     = time.Second      // for output of processes that it leaves behind
)

// Program is a program with its arguments.
type Program struct {
	Words []string // the program and its arguments; no shell reads them
	Dir   string   // where it runs. A program with a slash in its name is relative to it
	Env   []string // see Environment; nil: that of this process
	// Time bounds how long it may run; 0: Time of this package.
	Time time.Duration
}

// Run runs the program with the text on its standard input. said is what it says: the first line of its output, else the
// last line of its errors, else how it ended. A program that takes too long does not pass. The error says that it cannot
// be started, or is that of ctx; the program has then ended.
func (p Program) Run(ctx context.Context, text string) (said string, passed bool, err error) {
	var out, errs kept
	errs.last = true
	how, timely, err := p.run(ctx, text, &out, &errs)
	switch {
	case err != nil || how == "":
		return "", err == nil, err
	case !timely:
		return how, false, nil
	}
	return cmp.Or(firstLine(out.String()), lastLine(errs.String()), how), false, nil
}

// Output runs the program without input and returns what it prints, at most 16 KiB of it. The error says how it failed,
// with the last line of its errors, and never what it has printed.
func (p Program) Output(ctx context.Context) ([]byte, error) {
	var out, errs kept
	errs.last = true
	how, timely, err := p.run(ctx, "", &out, &errs)
	if err == nil && how != "" {
		if timely {
			how = cmp.Or(lastLine(errs.String()), how)
		}
		err = fmt.Errorf("run %q: %s", p.Words[0], how)
	}
	if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// run runs the program. how says how it failed; empty: it exited with 0. timely is false if it took too long. The error
// is as for Run.
func (p Program) run(ctx context.Context, text string, out, errs *kept) (how string, timely bool, err error) {
	bound := cmp.Or(p.Time, Time)
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	name := p.Words[0]
	if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		if name, err = filepath.Abs(filepath.Join(p.Dir, name)); err != nil {
			return "", false, err
		}
	}

	cmd := exec.CommandContext(bounded, name, p.Words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, strings.NewReader(text), out, errs
	cmd.WaitDelay = rest
	together(cmd)

	if err := cmd.Start(); err != nil {
		return "", false, fmt.Errorf("run %q: %w", p.Words[0], reason(err))
	}
	ended := cmd.Wait()
	endAll(cmd)
	switch {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case bounded.Err() != nil && !cmd.ProcessState.Success():
		return fmt.Sprintf("it took longer than %s", bound), false, nil
	case cmd.ProcessState.Success():
		return "", true, nil
	case ended == nil || cmd.ProcessState.Exited() || errors.As(ended, new(*exec.ExitError)):
		return cmd.ProcessState.String(), true, nil
	}
	return "", false, fmt.Errorf("run %q: %w", p.Words[0], ended)
}

// reason returns an error of os/exec without the name of the program.
func reason(err error) error {
	var named *exec.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &named):
		return named.Err
	case errors.As(err, &path):
		return path.Err
	}
	return err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// kept keeps the beginning of what is written to it, or its end.
type kept struct {
	bytes.Buffer
	last bool
}

// Write implements io.Writer. It always accepts everything, so that the program never waits.
func (k *kept) Write(p []byte) (int, error) {
	n := len(p)
	if k.last {
		p = p[max(0, len(p)-mostKept):]
		k.Next(max(0, k.Len()+len(p)-mostKept))
	} else {
		p = p[:min(len(p), mostKept-k.Len())]
	}
	k.Buffer.Write(p)
	return n, nil
}

// secrets are parts of the names of variables that hold keys and passwords.
var secrets = []string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"}

// Environment returns the variables of an environment, NAME=VALUE, that a program gets. It leaves out those of evalfleet
// and Redis, those that hidden names, those whose names say that they hold a key or a password, and addresses with one.
// Texts that a program reads were written by models, and may be run as code.
func Environment(environ []string, hidden ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		upper := strings.ToUpper(name)
		_, address, isAddress := strings.Cut(value, "://")
		return strings.HasPrefix(upper, "EVALFLEET_") || upper == "REDIS_URL" || slices.Contains(hidden, name) ||
			isAddress && strings.Contains(address, "@") ||
			slices.ContainsFunc(secrets, func(part string) bool { return strings.Contains(upper, part) })
	})
}
