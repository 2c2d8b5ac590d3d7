//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/outdir"
)

// collectedThere returns a fleet that has done an evaluation, whose results were collected into the folder there.
func collectedThere(t *testing.T) (f *testFleet, file, id string) {
	t.Helper()
	f = newFleetWith(t, "--latency", "10ms")
	f.writeCalm("providers: {local: {dialect: chat, base_url: \"" + f.provider + "/v1\"}}\n")
	file = essays(t, f.dir, "essays", 100)
	f.startWorkers(1)
	f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml", "--wait", "--out-dir", "there")
	return f, file, f.onlyID()
}

// An evaluation whose results are in another folder is not reported on or collected from
// here, and nothing is left behind that looks like results.
func TestResultsThatAreElsewhere(t *testing.T) {
	t.Parallel()
	f, _, id := collectedThere(t)
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

// An evaluation that is submitted again with another results store says that it is done, where its results are, and how
// to get results in the store that was named.
func TestSubmittedAgainForAnotherStore(t *testing.T) {
	t.Parallel()
	f, file, id := collectedThere(t)

	asked := "sqlite:" + filepath.Join(f.dir, "team.db")
	again := f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml", "--sink", asked)
	said := again.stderr.String()
	for _, want := range []string{
		"already in Redis, and done: 6 runs", "its results are in the output folder of the process that collects it, not in " + asked,
		"with --again NAME",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the second submission says %q, want %q", said, want)
		}
	}
	if strings.TrimSpace(again.stdout.String()) != id {
		t.Errorf("it prints %q, want %s", again.stdout.String(), id)
	}

	same := f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml")
	if said := same.stderr.String(); !strings.Contains(said, "already in Redis, and done") || strings.Contains(said, "its results are") {
		t.Errorf("without another store it says %q", said)
	}
	f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml", "--sink", asked, "--again", "team", "--wait", "--out-dir", "team")
}
