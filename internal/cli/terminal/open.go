package terminal

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// openTime is how long Open waits for a command. One that takes longer probably runs until its window is closed.
const openTime = 5 * time.Second

// Open opens a file with the user's default program, for example a browser. The error says why that is not possible.
func Open(ctx context.Context, path string, env func(string) (string, bool)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	command, err := opener(runtime.GOOS, env)
	if err != nil {
		return err
	}
	// The window outlives this program, so its command does not end with ctx.
	opening := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], path)...)
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

// opener returns the command that opens a file on a system.
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
	if !shows { // xdg-open would start a text browser in this terminal
		return nil, errors.New("this machine has no display")
	}
	for _, name := range []string{"xdg-open", "wslview"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, errors.New("xdg-open is not installed")
}
