//go:build unix

package results

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/table"
)

// play runs a part of the test in a process of its own.
func play(t *testing.T, name, path string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+name, "TEST_SINK="+path)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

func unexpected(what string, err error, want string) error {
	return errors.New(fmt.Sprint(what, ": got error ", err, ", want ", want))
}

func init() {
	children["limited"] = writeLimited
	children["nobody"] = readAsNobody
}

// A file size limit is met where a quota is: as an error of write(2) that SQLite
// does not report as "full".
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db, e := openStore(t, path)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	play(t, "limited", path)
	reader, err := OpenReadOnly(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	wantVerdicts(t, reader, e.ID, 300)
}

func writeLimited() error {
	ctx := context.Background()
	path := os.Getenv("TEST_SINK")
	e, _ := essays()
	db, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	unlimited := limit
	limit.Cur = 200_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	all := verdicts(300)
	if err := db.Append(ctx, e.ID, all[:50]); err != nil {
		return fmt.Errorf("below the limit: %w", err)
	}
	err = db.Append(ctx, e.ID, all[50:])
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), path) {
		return unexpected("beyond the limit", err, "ErrFull naming the file")
	}
	if rows, err := collect(db.Runs(ctx, e.ID)); len(rows) != 50 || err != nil {
		return unexpected("reading after the failure", err, "50 runs")
	}
	target := filepath.Join(filepath.Dir(path), "ranking.csv")
	long := table.Of("ranking", placeTable, table.Rows([]place{{candidate: strings.Repeat("x", 300_000)}}))
	_, err = Export(ctx, Place{Dir: filepath.Dir(path)}, db, e.ID, Rankings{Tables: []table.Sheet{long}})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), target) {
		return unexpected("export", err, "ErrFull naming the file")
	}
	for _, pattern := range []string{"*ranking*", ".evalfleet-*"} {
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), pattern)); len(left) != 0 {
			return fmt.Errorf("the failed export left %v", left)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &unlimited); err != nil {
		return err
	}
	if err := db.Append(ctx, e.ID, all[50:]); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return nil
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	// Not t.TempDir: its parents are closed to others.
	folder, err := os.MkdirTemp("", "ef")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Chmod(folder, 0o700)
		_ = os.RemoveAll(folder)
	})
	path := filepath.Join(folder, "results.db")
	db, e := openStore(t, path)
	mustAppend(t, db, e.ID, verdicts(5)...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{path: 0o444, folder: 0o555} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	play(t, "nobody", path)
}

func readAsNobody() error {
	if os.Getuid() == 0 { // nothing is closed to root
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
	}
	ctx := context.Background()
	path := os.Getenv("TEST_SINK")
	e, _ := essays()
	for _, url := range []string{path, filepath.Join(filepath.Dir(path), "new.db")} {
		db, err := Open(ctx, url)
		if err == nil {
			_ = db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), url) || !strings.Contains(err.Error(), "cannot be written") {
			return unexpected("open", err, url+" cannot be written")
		}
	}
	reader, err := OpenReadOnly(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	if rows, err := collect(reader.PairwiseRows(ctx, e.ID)); len(rows) != 5 || err != nil {
		return unexpected("reading", err, "5 rows")
	}
	if _, err := Export(ctx, Place{Dir: filepath.Dir(path)}, reader, e.ID, Rankings{}); err == nil || !strings.Contains(err.Error(), "answers.csv") {
		return unexpected("export", err, "answers.csv cannot be written")
	}
	return nil
}
