package results

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"modernc.org/sqlite"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// next are two versions after this program's, as a later program would know them: each
// changes tables, rows and indices.
var next = released.with(`
ALTER TABLE runs ADD COLUMN weight BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET weight = index_ + 1;
CREATE INDEX runs_by_weight ON runs (evaluation, weight);
CREATE TABLE notes (evaluation TEXT NOT NULL PRIMARY KEY, note TEXT NOT NULL) WITHOUT ROWID;`,
	`INSERT INTO notes (evaluation, note) SELECT id, name FROM evaluations;`)

func (h history) with(steps ...string) history {
	return history{h.create, append(h.steps[:len(h.steps):len(h.steps)], steps...)}
}

// goldens make stores that the first release of version 7 has written, each in a place
// of its own.
var goldens = map[string]func(testing.TB) string{"sqlite": func(t testing.TB) string {
	path := newPath(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), readTestdata(t, "store-7.sqlite.sql")); err != nil {
		t.Fatal(err)
	}
	return path
}}

func readTestdata(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The stores of version 7 that exist hold what they held, and take more.
func TestAStoreOfVersion7IsOpened(t *testing.T) {
	t.Parallel()
	for kind, golden := range goldens {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for name, h := range map[string]history{"by this program": released, "by a later one": next} {
				url := golden(t)
				db, err := open(t.Context(), url, h)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				defer db.Close()
				fresh, e := openStore(t, kinds[kind](t))
				mustAppend(t, fresh, e.ID, append(verdicts(4), failure(4, 0), scores(0), scores(1))...)
				if err := fresh.Finish(t.Context(), e.ID, epoch.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if diff := cmp.Diff(contents(t, fresh, e.ID), contents(t, db, e.ID)); diff != "" {
						t.Errorf("%s: it holds something else (-want +got):\n%s", name, diff)
					}
					mustAppend(t, fresh, e.ID, verdict(4), scores(2))
					mustAppend(t, db, e.ID, verdict(4), scores(2))
				}
			}
		})
	}
}

// contents is what a store tells of an evaluation.
func contents(t *testing.T, r Reader, id eval.ID) []any {
	t.Helper()
	ctx := t.Context()
	e, err := r.Evaluation(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := r.Counts(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	totals, err := r.CallTotals(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Text(ctx, e.Plan.Documents[0].Hash)
	if err != nil {
		t.Fatal(err)
	}
	calls := mustCollect(t, r.Calls(ctx, eval.RunID{Evaluation: id, Phase: 1, Index: 4}))
	return []any{
		e, counts, totals, text, calls,
		mustCollect(t, r.Runs(ctx, id)), mustCollect(t, r.PairwiseRows(ctx, id)), mustCollect(t, r.SingleRows(ctx, id)),
	}
}

// A new store and one that was migrated step by step have the same tables.
func TestMigratedTablesAreThoseOfANewStore(t *testing.T) {
	t.Parallel()
	path, fresh := goldens["sqlite"](t), newPath(t)
	for range 2 { // the second time there is nothing to do
		for _, path := range []string{path, fresh} {
			db, err := open(t.Context(), path, next)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(tables(t, fresh), tables(t, path)); diff != "" {
		t.Errorf("the migrated store has other tables (-new +migrated):\n%s", diff)
	}
}

func tables(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			t.Fatal(err)
		}
		found[name] = statement
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	for kind, newURL := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for name, test := range map[string]func(*testing.T, string){
				"in the middle of an error":  testFailedMigration,
				"by several at once":         testMigratedAtOnce,
				"under a program's feet":     testOutgrown,
				"of a store that is read":    testReadersDoNotMigrate,
				"of a store that is not one": testNothingToMigrate,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, newURL(t))
				})
			}
		})
	}
}

// putVerdicts makes a store with 20 verdicts.
func putVerdicts(t *testing.T, url string) eval.ID {
	t.Helper()
	db, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e, texts := essays()
	if err := db.PutEvaluation(t.Context(), e, texts); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, db, e.ID, verdicts(20)...)
	return e.ID
}

// wantVersion checks a store's version, and its rows by a program of that version.
func wantVersion(t *testing.T, url string, h history, id eval.ID) {
	t.Helper()
	version, err := versionAt(t.Context(), url, next)
	if err != nil || version != h.version() {
		t.Fatalf("got version %d, %v, want %d", version, err, h.version())
	}
	r, err := openReadOnly(t.Context(), url, h)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantVerdicts(t, r, id, 20)
	if h.version() < next.version() {
		return
	}
	var weights, notes int
	ask := r.(*reader).one
	err = errors.Join(
		ask(t.Context(), "SELECT CAST(sum(weight) AS BIGINT) FROM runs").Scan(&weights),
		ask(t.Context(), "SELECT count(*) FROM notes WHERE note = 'essays'").Scan(&notes))
	if err != nil || weights != 20*21/2 || notes != 1 {
		t.Errorf("got weights of %d, %d notes, %v, want %d and 1", weights, notes, err, 20*21/2)
	}
}

// A step that fails leaves the version before it, and no trace of its own.
func testFailedMigration(t *testing.T, url string) {
	id := putVerdicts(t, url)
	first := history{next.create, next.steps[:len(next.steps)-1]}
	broken := first.with("DELETE FROM calls; UPDATE runs SET state = 'lost'; INSERT INTO nowhere VALUES (1)")
	if db, err := open(t.Context(), url, broken); err == nil {
		_ = db.Close()
		t.Fatal("a migration that cannot be done was done")
	}
	wantVersion(t, url, first, id)
	from, to, err := migrate(t.Context(), url, next)
	if err != nil || from != first.version() || to != next.version() {
		t.Errorf("got versions %d and %d, %v, want %d and %d", from, to, err, first.version(), next.version())
	}
	wantVersion(t, url, next, id)
}

func testMigratedAtOnce(t *testing.T, url string) {
	id := putVerdicts(t, url)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, _, err := migrate(t.Context(), url, next); err != nil {
				t.Errorf("migrate: %v", err)
			}
		})
	}
	all.Wait()
	wantVersion(t, url, next, id)
}

// A program that has a store open while a later one migrates it writes nothing more, and
// can no longer open it.
func testOutgrown(t *testing.T, url string) {
	old, e := openStore(t, url)
	mustAppend(t, old, e.ID, verdicts(20)...)
	if _, _, err := migrate(testrun.Context(t), url, next); err != nil {
		t.Fatal(err)
	}
	err := old.Append(t.Context(), e.ID, verdicts(21))
	wantError(t, err, "newer evalfleet", "upgrade")
	if !errors.Is(err, ErrUnfit) || passes(err) {
		t.Errorf("got %v, want ErrUnfit, which ends a collector", err)
	}
	wantVersion(t, url, next, e.ID)
	db, err := Open(t.Context(), url)
	if err == nil {
		_ = db.Close()
	}
	wantError(t, err, "use the newer evalfleet")
}

func testReadersDoNotMigrate(t *testing.T, url string) {
	id := putVerdicts(t, url)
	reader, err := openReadOnly(t.Context(), url, next)
	if err == nil {
		_ = reader.Close()
	}
	wantError(t, err, "it has version 13", "reads version 15", "evalfleet migrate ")
	if !errors.Is(err, ErrUnfit) {
		t.Errorf("got %v, want ErrUnfit", err)
	}
	wantVersion(t, url, released, id)
}

func testNothingToMigrate(t *testing.T, url string) {
	if _, _, err := migrate(t.Context(), url, next); !errors.Is(err, ErrNoStore) {
		t.Errorf("got %v, want ErrNoStore", err)
	}
	if reader, err := OpenReadOnly(t.Context(), url); !errors.Is(err, ErrNoStore) {
		_ = reader.Close()
		t.Errorf("it was made: %v", err)
	}
}

// begunStatements tells a test that a statement of its own is being executed: select begun().
var begunStatements = make(chan struct{}, 1)

func init() {
	sqlite.MustRegisterScalarFunction("begun", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		select {
		case begunStatements <- struct{}{}:
		default:
		}
		return int64(1), nil
	})
}

// A program that was stopped leaves the version before. The statement is being executed when it
// is stopped: an interruption just before would be lost in the driver, and the statement would
// first run to its end, which this one does not have.
func TestMigrationIsStopped(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	id := putVerdicts(t, path)
	endless := released.with(`UPDATE runs SET state = 'lost';
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(begun()) FROM n`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() {
		_, _, err := migrate(ctx, path, endless)
		ended <- err
	}()
	select {
	case <-begunStatements:
	case err := <-ended:
		t.Fatalf("the migration ended before it was stopped: %v", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	wantVersion(t, path, released, id)
}

func TestHistoryOfSchemas(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got := mustReadHistory(fstest.MapFS{"schema/0007.sql": file("a"), "schema/0008.sql": file("b"), "schema/0009.sql": file("c")})
	if diff := cmp.Diff(history{"a", []string{"b", "c"}}, got, cmp.AllowUnexported(history{})); diff != "" || got.version() != 9 {
		t.Errorf("version %d (-want +got):\n%s", got.version(), diff)
	}
	defer func() {
		if recover() == nil {
			t.Error("a missing version was not noticed")
		}
	}()
	mustReadHistory(fstest.MapFS{"schema/0007.sql": file("a"), "schema/0009.sql": file("c")})
}
