//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
)

// An evaluation whose results are in another folder is not reported on or collected from
// here, and nothing is left behind that looks like results.
func TestResultsThatAreElsewhere(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--latency", "10ms")
	f.writeCalm("providers: {local: {dialect: chat, base_url: \"" + f.provider + "/v1\"}}\n")
	file := essays(t, f.dir, "essays", 100)
	f.startWorkers(1)
	f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml", "--wait", "--out-dir", "there")
	id := f.onlyID()
	for _, args := range [][]string{{"report", id}, {"report", id, "--out-dir", "here"}, {"collect", id}, {"collect", id, "--out-dir", "here"}} {
		p := f.onFleet(exitUsage, args...)
		if said := p.stderr.String(); !strings.Contains(said, "in the folder of the command that collects it; name that one with --out-dir") {
			t.Errorf("%v: %s", args, said)
		}
	}
	for _, folder := range []string{"here", outdir.Root} {
		if _, err := os.Stat(filepath.Join(f.dir, folder)); err == nil {
			t.Errorf("%s was made, want nothing", folder)
		}
	}
	f.onFleet(exitOK, "report", id, "--out-dir", "there")
	f.onFleet(exitOK, "collect", id, "--out-dir", "there")
}
