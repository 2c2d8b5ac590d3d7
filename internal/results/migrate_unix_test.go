//go:build unix

package results

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func init() {
	children["migrate"] = func() error {
		_, _, err := migrate(context.Background(), os.Getenv("TEST_SINK"), next)
		return err
	}
	children["migrate and hang"] = func() error {
		// With the interval, the server notices that its client was killed.
		hang := "SET LOCAL client_connection_check_interval = '50ms'; SELECT pg_sleep(3600)"
		if !isPostgres(os.Getenv("TEST_SINK")) {
			hang = "SELECT hang()"
			sqlite.MustRegisterScalarFunction("hang", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
				fmt.Fprintln(os.Stderr, hanging)
				select {}
			})
		}
		stuck := released.with(next.steps[len(released.steps)] + hang)
		_, _, err := migrate(context.Background(), os.Getenv("TEST_SINK"), stuck)
		return err
	}
}

// hanging is what a migration of SQLite prints when it hangs.
const hanging = "hanging"

// migrator is a process that migrates a store.
type migrator struct {
	*exec.Cmd
	said  synced
	ended chan error
}

// synced is a buffer that can be read while a process writes to it.
type synced struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}

func startMigrator(t *testing.T, url, child string) *migrator {
	t.Helper()
	m := &migrator{Cmd: exec.CommandContext(t.Context(), os.Args[0]), ended: make(chan error, 1)}
	m.Env = append(os.Environ(), childVariable+"="+child, "TEST_SINK="+url)
	m.Stderr = &m.said
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.ended <- m.Wait() }()
	return m
}

// A large store is migrated by processes that are killed in the middle and by two at
// once, while a program of the version before writes to it. With -full it has a million
// runs.
func TestALargeStoreIsMigrated(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	runs := 30_000
	if *full {
		runs = 1_000_000
	}
	for kind, newURL := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			old, e := openStore(t, url)
			mustAppend(t, old, e.ID, verdict(0))
			all := "evaluation, phase, index_, " + runFields + ", " + runWaits
			_, err := old.(*store).write.ExecContext(testrun.Context(t), fmt.Sprintf(`
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO runs (%s) SELECT %s FROM runs, n WHERE index_ = 0`, runs-1, all, strings.Replace(all, "index_", "n.i", 1)))
			if err != nil {
				t.Fatal(err)
			}
			want := func(h history, runs int) {
				t.Helper()
				r, err := openReadOnly(t.Context(), url, h)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				query, got, sum := "SELECT count(*), CAST(sum(index_) AS BIGINT) FROM runs WHERE state = 'succeeded'", 0, 0
				if h.version() == next.version() {
					query += " AND weight = index_ + 1"
				}
				if err := r.(*reader).one(testrun.Context(t), query).Scan(&got, &sum); err != nil || got != runs || sum != runs*(runs-1)/2 {
					t.Fatalf("version %d: got %d runs, sum of positions %d, %v, want %d", h.version(), got, sum, err, runs)
				}
			}
			for i, interrupt := range []func(*migrator){
				func(m *migrator) { _ = m.Process.Kill() },
				func(m *migrator) { _ = m.Process.Kill() },
				func(m *migrator) { cut(t, kind, url, m) },
			} {
				m := startMigrator(t, url, "migrate and hang")
				testrun.Eventually(t, "the migration to hang after its last row", func() bool {
					if len(m.ended) > 0 {
						t.Fatalf("migration %d ended before it was interrupted: %v\n%s", i, <-m.ended, m.said.String())
					}
					return hangs(t, kind, url, m)
				})
				interrupt(m)
				if err := <-m.ended; err == nil {
					t.Fatalf("migration %d ended without an error", i)
				}
				want(released, runs)
			}

			first, second := startMigrator(t, url, "migrate"), startMigrator(t, url, "migrate")
			added := 0
			for { // a collector that continues
				err := old.Append(testrun.Context(t), e.ID, []record.Entry{verdict(runs + added)})
				if err == nil {
					added++
				} else if !passes(err) {
					wantError(t, err, "newer evalfleet")
					break
				}
			}
			for _, m := range []*migrator{first, second} {
				if err := <-m.ended; err != nil {
					t.Errorf("migrate: %v\n%s", err, m.said.String())
				}
			}
			want(next, runs+added)
			t.Logf("%d more runs were stored meanwhile", added)
		})
	}
}

// hangs reports whether the migration has changed every row and is about to commit.
func hangs(t *testing.T, kind, url string, m *migrator) bool {
	if kind == "sqlite" {
		return strings.Contains(m.said.String(), hanging)
	}
	var n int
	ask(t, url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'", &n)
	return n > 0
}

// cut ends the migration from outside: of PostgreSQL its connection.
func cut(t *testing.T, kind, url string, m *migrator) {
	t.Helper()
	if kind == "sqlite" {
		_ = m.Process.Signal(os.Interrupt)
		return
	}
	var ended int
	ask(t, url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'", &ended)
	if ended != 1 {
		t.Errorf("cut %d connections, want 1", ended)
	}
}

func ask(t *testing.T, url, query string, into any) {
	t.Helper()
	db, _, _, err := connectPostgres(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(testrun.Context(t), query).Scan(into); err != nil {
		t.Fatal(err)
	}
}

// A role that may write rows but not change tables is told so, and changes nothing.
func TestPostgresMigrationNeedsTheOwner(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	id := putVerdicts(t, database)
	pgtest.Exec(t, database, "CREATE ROLE clerk LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk")
	t.Cleanup(func() { pgtest.Exec(t, database, "DROP OWNED BY clerk; DROP ROLE clerk") })
	_, _, err := migrate(t.Context(), pgtest.As(t, database, "clerk"), next)
	wantError(t, err, "migrate results database", "role lacks rights")
	if !errors.Is(err, ErrUnfit) {
		t.Errorf("got %v, want ErrUnfit", err)
	}
	wantVersion(t, database, released, id)
}

// A migration whose connection is lost in the middle is undone, and the next one
// succeeds.
func TestPostgresMigrationIsCut(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	id := putVerdicts(t, database)
	stuck := released.with("UPDATE runs SET state = 'lost'; SELECT pg_sleep(3600)")
	ended := make(chan error)
	go func() {
		_, _, err := migrate(testrun.Context(t), database, stuck)
		ended <- err
	}()
	testrun.Eventually(t, "the migration to be in the middle", func() bool {
		var n int
		ask(t, database, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'", &n)
		return n == 1
	})
	if err := <-ended; !errors.Is(err, ErrAway) {
		t.Errorf("got %v, want ErrAway", err)
	}
	wantVersion(t, database, released, id)
	if _, _, err := migrate(testrun.Context(t), database, next); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, database, next, id)
}
