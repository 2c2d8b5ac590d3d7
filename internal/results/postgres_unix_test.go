//go:build unix

package results

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

func init() {
	kinds["postgres"] = func(t testing.TB) string { return pgtest.New(t) }
	goldens["postgres"] = func(t testing.TB) string {
		database := pgtest.New(t)
		pgtest.Exec(t, database, readTestdata(t, "store-7.postgres.sql"))
		return database
	}
}

func with(t *testing.T, database string, settings ...string) string {
	t.Helper()
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	for i := 0; i < len(settings); i += 2 {
		query.Set(settings[i], settings[i+1])
	}
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

func TestPostgresRefuses(t *testing.T) {
	t.Parallel()
	const password = "open-sesame"
	for name, test := range map[string]struct {
		make  func(t *testing.T, database string) string
		want  []string
		unfit bool
	}{
		"no such database": {
			make: func(_ *testing.T, database string) string { return strings.Replace(database, "/test", "/missing", 1) },
			want: []string{"does not exist", "createdb"}, unfit: true,
		},
		"no password": {
			make: func(t *testing.T, database string) string { return locked(t, database, password) },
			want: []string{"refuses the login", "PGPASSWORD"},
		},
		"a wrong password": {
			make: func(t *testing.T, database string) string {
				return strings.Replace(locked(t, database, password), "locked@", "locked:wrong-"+password+"@", 1)
			},
			want: []string{"refuses the login", "password authentication failed"},
		},
		"a role that may not make tables": {
			make: func(t *testing.T, database string) string {
				pgtest.Exec(t, database, "CREATE SCHEMA closed; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA closed TO guest")
				t.Cleanup(func() { pgtest.Exec(t, database, "DROP OWNED BY guest; DROP ROLE guest") })
				return with(t, pgtest.As(t, database, "guest"), "search_path", "closed")
			},
			want: []string{"role lacks rights", "permission denied for schema closed"}, unfit: true,
		},
		"another program's tables": {
			make: func(t *testing.T, database string) string {
				pgtest.Exec(t, database, "CREATE TABLE events (at timestamptz)")
				return database
			},
			want: []string{"tables of another program", "search_path"}, unfit: true,
		},
		"another program's sink": {
			make: func(t *testing.T, database string) string {
				pgtest.Exec(t, database, "CREATE TABLE sink (litres int)")
				return database
			},
			want: []string{"public has tables of another program", "search_path"}, unfit: true,
		},
		"a newer version": {
			make: func(t *testing.T, database string) string {
				openAndClose(t, database)
				pgtest.Exec(t, database, "UPDATE sink SET version = version + 1")
				return database
			},
			want: []string{"newer evalfleet"}, unfit: true,
		},
		"an older version": {
			make: func(t *testing.T, database string) string {
				openAndClose(t, database)
				pgtest.Exec(t, database, "UPDATE sink SET version = 1")
				return database
			},
			want: []string{"has version 1", "migrates from version 7 on", "older evalfleet", "another schema"}, unfit: true,
		},
		"a server that takes no writes": {
			make: func(t *testing.T, database string) string {
				return with(t, database, "default_transaction_read_only", "on")
			},
			want: []string{"read-only", "primary"}, unfit: true,
		},
		"no server": {
			make: func(t *testing.T, database string) string { return with(t, database, "host", t.TempDir()) },
			want: []string{"cannot be reached"},
		},
		"no TLS": {
			make: func(t *testing.T, _ string) string {
				return "postgres://guest:" + password + "@" + withoutTLS(t) + "/essays?sslmode=require"
			},
			want: []string{"cannot establish a TLS connection", "sslmode"},
		},
		"a word that is none of sslmode's": {
			make: func(*testing.T, string) string { return "postgres://guest@127.0.0.1:1/essays?sslmode=perhaps" },
			want: []string{"sslmode"}, unfit: true,
		},
		"a password that looks like a port": {
			make: func(*testing.T, string) string { return "postgres://guest:" + password + "/2@host/essays" },
			want: []string{"percent-encode"}, unfit: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := Open(t.Context(), test.make(t, pgtest.New(t)))
			if err == nil {
				_ = db.Close()
			}
			wantError(t, err, test.want...)
			if errors.Is(err, ErrUnfit) != test.unfit {
				t.Errorf("%v: ErrUnfit is %t, want %t", err, !test.unfit, test.unfit)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// locked makes the role that needs its password.
func locked(t *testing.T, database, password string) string {
	t.Helper()
	pgtest.Exec(t, database, `DO $$ BEGIN CREATE ROLE `+pgtest.Locked+` LOGIN PASSWORD '`+password+`';
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	return pgtest.As(t, database, pgtest.Locked)
}

// withoutTLS is the address of a server that answers that it has none.
func withoutTLS(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 8))
			_, _ = conn.Write([]byte("N"))
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// Reading needs no right to write.
func TestPostgresIsReadByAGuest(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	db, e := openStore(t, database)
	mustAppend(t, db, e.ID, verdicts(3)...)
	pgtest.Exec(t, database, "CREATE ROLE viewer LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO viewer")
	t.Cleanup(func() { pgtest.Exec(t, database, "DROP OWNED BY viewer; DROP ROLE viewer") })
	as := pgtest.As(t, database, "viewer")
	reader, err := OpenReadOnly(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	wantVerdicts(t, reader, e.ID, 3)
	guest, err := Open(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = guest.Close() }()
	if err := guest.Append(t.Context(), e.ID, verdicts(4)); !errors.Is(err, ErrUnfit) {
		t.Errorf("append: got %v, want ErrUnfit", err)
	}
}

// A schema is a results store of its own, and is made where it is missing.
func TestPostgresSchemas(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	ids := map[string]bool{}
	for _, path := range []string{"", "essays", "Essays, public", "poems"} {
		at := database
		if path != "" {
			at = with(t, database, "search_path", path)
		}
		db, e := openStore(t, at)
		mustAppend(t, db, e.ID, verdict(0))
		ids[db.ID()] = true
	}
	if len(ids) != 3 { // Essays is essays
		t.Errorf("got %d identities, want 3", len(ids))
	}
	if _, err := OpenReadOnly(t.Context(), with(t, database, "search_path", "none")); !errors.Is(err, ErrNoStore) {
		t.Errorf("a schema that is not there: got %v, want ErrNoStore", err)
	}
}

// The database's language must not change the order of rows.
func TestPostgresComparesBytes(t *testing.T) {
	t.Parallel()
	db, _ := openStore(t, pgtest.New(t))
	wrong := mustCollect(t, rows(t.Context(), &db.(*store).access, func(row scanner, name *string) error { return row.Scan(name) }, `
SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.atttypid = 'text'::regtype AND a.attcollation <> '"C"'::regcollation`))
	if len(wrong) > 0 {
		t.Errorf("these are compared as the database's language sorts: %v", wrong)
	}
}

// fail makes the server answer inserts of calls with an error.
const fail = `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER fail BEFORE INSERT ON calls FOR EACH ROW EXECUTE FUNCTION fail()`

func TestPostgresIsFull(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	db, e := openStore(t, database)
	mustAppend(t, db, e.ID, verdicts(2)...)
	pgtest.Exec(t, database, fail)
	err := db.Append(t.Context(), e.ID, verdicts(5))
	wantError(t, err, "no space left", "nothing collected is lost")
	if !errors.Is(err, ErrFull) || passes(err) {
		t.Errorf("got %v, want ErrFull, which does not pass by itself", err)
	}
	wantVerdicts(t, db, e.ID, 2)
	pgtest.Exec(t, database, "DROP TRIGGER fail ON calls")
	mustAppend(t, db, e.ID, verdicts(5)...)
	wantVerdicts(t, db, e.ID, 5)
}

func TestPostgresIsLocked(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	db, e := openStore(t, database)
	other, _ := openStore(t, database)
	held, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- other.(*store).transact(context.Background(), "hold", func(tx *transaction) error {
			err := tx.lock(context.Background(), e.ID)
			close(held)
			<-release
			return err
		})
	}()
	<-held
	db.(*store).dialect = postgres{patience: 20 * time.Millisecond, version: released.version()}
	if err := db.Append(t.Context(), e.ID, verdicts(1)); !errors.Is(err, ErrBusy) || !passes(err) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	wantVerdicts(t, db, e.ID, 0)
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mustAppend(t, db, e.ID, verdict(0))
}

// A server that goes away in the middle, and comes back, is waited for.
func TestFollowWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	server := pgtest.Own(t)
	db, e := openStore(t, server.New(t))
	publish(t, client, e.ID, verdicts(3)...)
	committed := make(chan int, 100)
	log := make(logged, 10)
	waits := make(chan error, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := NewCollector(client, keys, e.ID, db, Options{
		Log: zerolog.New(log), Waiting: func(why error) { waits <- why },
		Committed: func(entries []record.Entry) { committed <- len(entries) },
	})
	ended := make(chan error)
	go func() { ended <- c.Follow(ctx, nil) }()
	for n := 0; n < 3; {
		n += <-committed
	}
	server.Kill()
	publish(t, client, e.ID, verdict(3), verdict(4))
	log.want(t, "cannot be reached")
	server.Start(t)
	log.want(t, "results are collected again")
	for n := 3; n < 5; {
		n += <-committed
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("follow: %v", err)
	}
	if begun, over := <-waits, <-waits; !errors.Is(begun, ErrAway) || over != nil || len(waits) != 0 {
		t.Errorf("told of waiting for %v, then %v; want ErrAway, and its end", begun, over)
	}
	wantVerdicts(t, db, e.ID, 5)
}
