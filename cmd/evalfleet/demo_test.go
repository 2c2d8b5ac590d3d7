package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testrun"
)

// TestDemo: the pages show the evaluation under way, and the end leaves nothing behind.
func TestDemo(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Setenv("TMP", folder) // on Windows
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, nil, []string{"demo", "--listen", "127.0.0.1:0"}, os.LookupEnv, strings.NewReader(""), &stdout, &stderr)
	}()
	testrun.Eventually(t, "the address", func() bool { return strings.HasSuffix(stdout.String(), "/\n") })
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
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
