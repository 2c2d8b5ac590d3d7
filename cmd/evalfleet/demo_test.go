package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestDemo: the pages show the evaluation under way, and the end leaves nothing behind, in a
// system without a folder for temporary files either.
func TestDemo(t *testing.T) {
	for name, temporary := range map[string]string{"temporary": t.TempDir(), "no temporary": filepath.Join(t.TempDir(), "missing")} {
		t.Run(name, func(t *testing.T) { demoLeavesNothing(t, temporary) })
	}
}

func demoLeavesNothing(t *testing.T, temporary string) {
	here := t.TempDir()
	t.Chdir(here)
	t.Setenv("TMPDIR", temporary)
	t.Setenv("TMP", temporary) // on Windows
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, nil, []string{"demo", "--listen", "127.0.0.1:0"}, os.LookupEnv, strings.NewReader(""), &stdout, &stderr)
	}()
	testrun.Eventually(t, "the address", func() bool { return strings.HasSuffix(stdout.String(), "/\n") || len(ended) > 0 })
	if len(ended) > 0 {
		t.Fatalf("demo ended with %d:\n%s", <-ended, stderr.String())
	}
	testrun.Eventually(t, "a call of the evaluation", func() bool {
		resp, err := http.Get(strings.TrimSpace(stdout.String()) + "api/evaluations")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var list struct {
			Evaluations []struct {
				Name string
				Used struct{ Calls int }
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&list)
		return err == nil && len(list.Evaluations) == 1 && list.Evaluations[0].Name == "demo" && list.Evaluations[0].Used.Calls > 0
	})
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("demo ended with %d:\n%s", code, stderr.String())
	}
	for _, folder := range []string{here, temporary} {
		if left, err := os.ReadDir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
			t.Errorf("it left %v in %s, %v", left, folder, err)
		}
	}
}

// TestDemoOverlaps: the demo's documents are not told apart perfectly, because real ones are not.
func TestDemoOverlaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeDemo(dir, "http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	p := launch(t, dir, "run", "evaluation.yaml")
	if code, said := p.wait(), p.stdout.String(); code != 0 || strings.Contains(said, separated) || !strings.Contains(said, "could be the best as well") {
		t.Errorf("run ended with %d:\n%s", code, said)
	}
}
