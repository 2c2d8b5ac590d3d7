package check

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The image holds one static program, runs without a user's rights, and says how it is
// checked.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "deploy/Dockerfile")
	_, final, ok := strings.Cut(text, "\nFROM scratch\n")
	if !ok {
		t.Fatal("the image is not made from scratch")
	}
	for _, line := range []string{"USER 65532:65532", `ENTRYPOINT ["evalfleet"]`, "/etc/ssl/certs/ca-certificates.crt"} {
		if !strings.Contains(final, line) {
			t.Errorf("the image lacks %s", line)
		}
	}
	check := regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD \["evalfleet", "(.*)"\]$`).FindStringSubmatch(final)
	if check == nil {
		t.Fatal("the image has no HEALTHCHECK")
	}
	wantCommand(t, strings.Split(check[1], `", "`), nil)
	if !strings.Contains(final, `org.opencontainers.image.version="${VERSION:-development build}"`) {
		t.Error("the image has no label with its version")
	}
}

// The program of an image says the version that its build was given.
func TestImageVersion(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(program(t), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "evalfleet "+stamped+", ") {
		t.Errorf("evalfleet version: %v: %s, want %s", err, out, stamped)
	}
}

// A worker names the file that the image's user may not read, and the fix. A clone made with umask 077 has such files.
func TestImageSaysWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(filepath.Dir(program(t)), "umask")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	user, mode := os.Geteuid(), os.FileMode(0)
	command := exec.CommandContext(t.Context(), program(t), "worker", "--redis", "redis://127.0.0.1:1", "--config", "fleet.yaml")
	if user == 0 {
		user, mode = 65532, 0o600
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), nil, mode); err != nil {
		t.Fatal(err)
	}
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err == nil {
		t.Errorf("the worker ended with 0: %s", out)
	}
	for _, want := range []string{"fleet.yaml", fmt.Sprintf("permission denied for user %d", user), "chmod a+r the file"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the worker says %s, want %q", out, want)
		}
	}
}

// What the Dockerfile builds needs no library of a system, and works as a user
// without a name or a home, in a folder that cannot be written.
func TestImageProgram(t *testing.T) {
	t.Parallel()
	path := program(t)
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("the program wants an interpreter: it is not static")
		}
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the program wants the libraries %v, %v", libraries, err)
	}

	dir := filepath.Join(filepath.Dir(path), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range smallest {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	nobody := func(args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), path, args...)
		command.Dir, command.Env = dir, []string{"PATH=/usr/local/bin"}
		if os.Geteuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		}
		return command
	}
	for _, args := range [][]string{{"version"}, {"validate", "evaluation.yaml"}} {
		if out, err := nobody(args...).CombinedOutput(); err != nil {
			t.Errorf("evalfleet %v: %v: %s", args, err, out)
		}
	}

	address := freeAddress(t)
	worker := nobody("worker", "--redis", privateRedis(t), "--metrics-addr", address, "--grace", "1s")
	var log strings.Builder
	worker.Stdout, worker.Stderr = &log, &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	wait := make(chan error, 1)
	go func() { wait <- worker.Wait() }()
	eventually(t, "the worker is ready", func() error {
		if out, err := nobody("healthcheck", "--ready", "--metrics-addr", address).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if out, err := nobody("healthcheck", "--metrics-addr", address).CombinedOutput(); err != nil {
		t.Errorf("healthcheck: %v: %s", err, out)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-wait:
		if err != nil {
			t.Errorf("the worker ended with %v, want exit code 0: %s", err, log.String())
		}
	case <-time.After(time.Until(lastMoment(t))):
		t.Error("the worker does not end when told to")
	}
}
