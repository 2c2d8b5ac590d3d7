package outdir

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/failure"
)

// What Save writes, ReadResumption reads: a file that it would refuse is not written, and the
// one before it stays.
func TestResumptionIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	named := map[string]string{"run": "answer.md"}
	if err := (Resumption{Slots: 3, Outs: named}).Save(dir); err != nil {
		t.Fatal(err)
	}
	err := Resumption{Slots: 4, Outs: map[string]string{"run": strings.Repeat("x", int(largest[ResumeFile]))}}.Save(dir)
	if failure.KindOf(err) != failure.Usage {
		t.Errorf("saving more than is read again: %v, want kind %d", err, failure.Usage)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	r, err := ReadResumption(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Slots != 3 || !maps.Equal(r.Outs, named) {
		t.Errorf("read %+v, want what was saved first", r)
	}
	if info, err := os.Stat(filepath.Join(dir, ResumeFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v; want mode 600", ResumeFile, info, err)
	}
}
