//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// In a fleet by hand, collecting an evaluation to its end writes the report, says who won and where the report is, and
// tells every other command of the fleet; collecting it once more says so again.
func TestCollectSaysWhoWon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, calm)
	f.file = f.evaluation("won", "simulator:careful", 3, 3)
	id := strings.TrimSpace(f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml").stdout.String())

	early := f.onFleet(exitOK, "collect", id, "--out-dir", "got")
	if said := early.stderr.String(); early.stdout.String() != "" || !strings.Contains(said, "has not ended; see who leads so far with: evalfleet report got") {
		t.Errorf("before the end: %s%s", early.stdout.String(), said)
	}
	f.startWorkers(1)
	for _, args := range [][]string{{"collect", id, "--follow", "--out-dir", "got"}, {"collect", id, "--out-dir", "got"}} {
		said := f.onFleet(exitOK, args...).stdout.String()
		for _, want := range []string{"won  " + id, "\nTrust ", "\nReport   " + filepath.Join("got", "report.html") + "\n"} {
			if !strings.Contains(said, want) {
				t.Errorf("%v: no %q in\n%s", args, want, said)
			}
		}
		testrun.Eventually(t, "the fleet has noted that it is done, which a worker does", func() bool {
			return strings.Contains(f.onFleet(exitOK, "status", id).stdout.String(), "done, submitted")
		})
	}

	for _, name := range []string{"report.html", "answers.html"} { // which links to the other
		if info, err := os.Stat(filepath.Join(f.dir, "got", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a page", name, err)
		}
	}
	if said := f.onFleet(exitOK, "status", id).stdout.String(); !strings.Contains(said, "same verdict in both orders") {
		t.Errorf("status does not say how far to trust the result:\n%s", said)
	}
}
