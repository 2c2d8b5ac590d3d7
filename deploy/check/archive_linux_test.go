package check

import (
	"bufio"
	"context"
	"encoding/csv"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

var dist = flag.String("dist", "", "folder with archives of `make snapshot`; the one for this system is tried")

// TestArchive: the program of a release's archive works in a root file system that has
// nothing but the archive: no /tmp, /etc, /proc, shell or library.
func TestArchive(t *testing.T) {
	if *dist == "" {
		t.Skip("make snapshot builds an archive and tries it")
	}
	archives, err := filepath.Glob(filepath.Join(*dist, "evalfleet_*_linux_"+runtime.GOARCH+".tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives %v, %v, want one", archives, err)
	}
	empty := t.TempDir()
	if out, err := exec.Command("tar", "-xf", archives[0], "-C", empty, "--strip-components", "1").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	for _, file := range []string{"LICENSE", "README.md", "completions/_evalfleet", "man/evalfleet-run.1", "examples/essays/truth.csv", "systemd/evalfleet-worker.service"} {
		if !exists(empty, file) {
			t.Errorf("the archive has no %s", file)
		}
	}
	within := func(ctx context.Context, args ...string) *exec.Cmd {
		command := exec.CommandContext(ctx, "/evalfleet", args...)
		command.Dir, command.Env = "/", []string{}
		if os.Geteuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{Chroot: empty}
		} else {
			command.Path, command.Dir = filepath.Join(empty, "evalfleet"), empty
		}
		return command
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "evalfleet v"},
		{[]string{"run", "examples/essays/evaluation.yaml"}, "512 of 512 succeeded"},
		{[]string{"init"}, ""},
		{[]string{"validate", "evaluation.yaml"}, ""},
	} {
		out, err := within(t.Context(), c.args...).CombinedOutput()
		t.Logf("evalfleet %s\n%s", strings.Join(c.args, " "), out)
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("evalfleet %v: %v, want %q", c.args, err, c.want)
		}
	}
	reports, _ := filepath.Glob(filepath.Join(empty, "evalfleet-out/*/report.html"))
	rankings, _ := filepath.Glob(filepath.Join(empty, "evalfleet-out/*/ranking.csv"))
	if len(reports) != 1 || len(rankings) != 1 {
		t.Fatalf("reports %v, rankings %v, want one each", reports, rankings)
	}
	file, err := os.Open(rankings[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if rows, err := csv.NewReader(file).ReadAll(); err != nil || len(rows) < 17 {
		t.Errorf("%d rows in the ranking, %v, want 16 candidates", len(rows), err)
	}

	demo := within(t.Context(), "demo", "--listen", "127.0.0.1:0")
	stdout, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	demo.Stderr = &log
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	lines, address := bufio.NewScanner(stdout), ""
	for address == "" && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			address = lines.Text()
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	if address == "" {
		t.Errorf("demo printed no address: %s", log.String())
	} else if answer, err := http.Get(address); err != nil {
		t.Error(err)
	} else {
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "evalfleet") {
			t.Errorf("the demo's page answers %s, %v", answer.Status, err)
		}
	}
	if err := demo.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = demo.Wait()
}
