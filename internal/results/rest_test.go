package results

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Entries left in the stream when the results store is full are stored by the next process to
// open the file, and the file makes room again.
func TestRestIsTakenByTheNext(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	ctx := context.Background()
	client := redistest.New(t).Client()
	path := filepath.Join(t.TempDir(), "rest")
	db, e := openStore(t, newPath(t))
	open := func() *Rest {
		t.Helper()
		r, err := OpenRest(ctx, path, size, db)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(path); err != nil || len(raw) != size || bytes.Trim(raw, "\x00") != nil && len(bytes.Trim(raw, "\x00")) > 0 {
			t.Fatalf("the file has %d bytes, %v; want %d zeros", len(raw), err, size)
		}
		return r
	}
	r := open()
	publish(t, client, e.ID, verdicts(5)...)
	if kept, left, err := r.Keep(ctx, client, keys, e.ID); kept != 5 || left != 0 || err != nil {
		t.Fatalf("Keep = %d, %d, %v; want 5 kept", kept, left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != size {
		t.Errorf("the file grew to %d, %v; want %d: a full disk has no room", info.Size(), err, size)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, db, e.ID, 0)
	r = open()
	wantVerdicts(t, db, e.ID, 5)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that keeps nothing stays: %v", err)
	}
}

// The file may come from another person: a line without end is not read whole.
func TestRestOfOneEndlessLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rest")
	db, _ := openStore(t, newPath(t))
	if err := errors.Join(os.WriteFile(path, []byte("{"), 0o600), os.Truncate(path, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRest(t.Context(), path, 1000, db); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("got %v, want %v", err, bufio.ErrTooLong)
	}
}

// What has no room is counted, and a line that was cut short is no result.
func TestRestIsBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redistest.New(t).Client()
	path := filepath.Join(t.TempDir(), "rest")
	db, e := openStore(t, newPath(t))
	r, err := OpenRest(ctx, path, 2000, db)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, client, e.ID, verdicts(9)...)
	kept, left, err := r.Keep(ctx, client, keys, e.ID)
	if kept < 2 || kept+left != 9 || left == 0 || err != nil {
		t.Fatalf("Keep = %d, %d, %v; want some of 9", kept, left, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := bytes.LastIndexByte(raw, '\n')
	if err := os.WriteFile(path, raw[:end-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRest(ctx, path, 2000, db); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, db, e.ID, kept-1)
}

func TestRestOfAnUnknownEvaluationStays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "rest")
	const line = `{"evaluation":"ev-zzzzzzzzzzzz","calls":[{"id":"0.1.0-w-1"}]}` + "\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	db, _ := openStore(t, newPath(t))
	if _, err := OpenRest(ctx, path, 1000, db); !errors.Is(err, ErrNoEvaluation) {
		t.Errorf("got %v, want ErrNoEvaluation", err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != line {
		t.Errorf("the file holds %q, %v; want it as it was", raw, err)
	}
}
