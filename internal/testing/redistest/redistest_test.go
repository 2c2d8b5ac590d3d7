package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestServersShareNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b := New(t).Client(), New(t).Client()
	if err := a.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Fatalf("Exists on the other server = %d, %v; want 0", n, err)
	}
}

func TestKilledServerStartsEmptyOnTheSameSocket(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := New(t)
	client := s.Client()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Start()
	if n, err := client.Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Fatalf("Exists after restart = %d, %v; want 0", n, err)
	}
}

// A process that is killed leaves no server behind.
func TestServerEndsWithItsProcess(t *testing.T) {
	const variable = "REDISTEST_SERVES"
	if os.Getenv(variable) != "" {
		fmt.Println(New(t).socket)
		select {} // until it is killed
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), variable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimSpace(line)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(socket)) })
	answers := func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	if !answers() {
		t.Fatal("the server does not answer")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	testrun.Eventually(t, "the server has ended", func() bool { return !answers() })
}
