package results

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

func testTwoWriters(t *testing.T, url string) {
	ctx := context.Background()
	first, e := openStore(t, url)
	second, _ := openStore(t, url)
	var both sync.WaitGroup
	for _, db := range []Store{first, second} {
		both.Go(func() {
			for i := range 30 {
				if err := db.Append(ctx, e.ID, []record.Entry{verdict(i)}); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	both.Wait()
	wantVerdicts(t, first, e.ID, 30)
}

func testReadWhileWritten(t *testing.T, url string) {
	ctx := context.Background()
	db, e := openStore(t, url)
	mustAppend(t, db, e.ID, verdicts(10)...)
	reader, err := OpenReadOnly(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	read := 0
	for _, err := range reader.PairwiseRows(ctx, e.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Append(ctx, e.ID, []record.Entry{verdict(10 + read)}); err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Counts(ctx, e.ID); err != nil {
			t.Fatalf("read in the middle of an iteration: %v", err)
		}
		read++
	}
	if read != 10 {
		t.Errorf("got %d rows, want the 10 that stood when the iteration began", read)
	}
	for _, err := range reader.Runs(ctx, e.ID) {
		if err != nil {
			t.Fatal(err)
		}
		break // gives its connection back: Close would wait for it
	}
	wantVerdicts(t, reader, e.ID, 20)
}

func testOpenedAtOnce(t *testing.T, url string) {
	ctx := context.Background()
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			db, err := Open(ctx, url)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			ids[i] = db.ID()
			if err := db.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	all.Wait()
	if slices.Sort(ids); ids[0] != ids[len(ids)-1] {
		t.Errorf("got identities %v, want one", slices.Compact(ids))
	}
}

// Evaluations with the same documents do not wait for each other for good.
func testStoredAtOnce(t *testing.T, url string) {
	ctx := context.Background()
	one, texts := essays()
	all := maps.Collect(texts)
	plan := *one.Plan
	for i := range 1000 {
		text := fmt.Sprintf("The text of %d.", i)
		hash := eval.TextHash(text)
		all[hash] = text
		plan.Documents = append(plan.Documents, eval.Document{ID: fmt.Sprintf("%d.md", i), Candidate: "a", Hash: hash, Bytes: len(text)})
	}
	var writers sync.WaitGroup
	for i := range 3 {
		db, err := Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		writers.Go(func() {
			own := one
			named := plan
			named.Name = fmt.Sprintf("essays %d", i)
			own.Plan, own.ID = &named, named.ID()
			if err := db.PutEvaluation(ctx, own, maps.All(all)); err != nil {
				t.Errorf("store: %v", err)
			}
		})
	}
	writers.Wait()
}

func testStopped(t *testing.T, url string) {
	db, e := openStore(t, url)
	mustAppend(t, db, e.ID, verdicts(50)...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range db.Runs(ctx, e.ID) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("iteration with an ended context: got %v last, want context.Canceled", last)
	}
}
