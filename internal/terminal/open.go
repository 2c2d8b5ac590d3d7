package terminal

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// openTime is how long an opener may take before it counts as one that stays until its window is
// closed.
const openTime = 5 * time.Second

// Open has the system open a file for its user, in a browser for example. The error says why
// there is no way to do it.
func Open(ctx context.Context, path string, env func(string) (string, bool)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	command, err := opener(runtime.GOOS, env)
	if err != nil {
		return err
	}
	opening := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], path)...) // its window stays
	if err := opening.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- opening.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(openTime):
	case <-ctx.Done():
	}
	return nil
}

// opener is the command that opens a file on a system.
func opener(system string, env func(string) (string, bool)) ([]string, error) {
	switch system {
	case "darwin":
		return []string{"open"}, nil
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}, nil
	}
	shows := false
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"} {
		value, _ := env(name)
		shows = shows || value != ""
	}
	if !shows { // xdg-open would take over the terminal with a text browser
		return nil, errors.New("this machine has no display")
	}
	for _, name := range []string{"xdg-open", "wslview"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, errors.New("xdg-open is not installed")
}
