package results

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

const (
	applicationID = 0x65766c66 // PRAGMA application_id: "evlf"
	readers       = 4          // connections for reading

	// migrationPatience is how long a store with an older version may be locked. Another process is
	// then probably migrating it.
	migrationPatience = 10 * time.Minute
)

// busyTimeout is how long to wait for another program's lock.
var busyTimeout = 5 * time.Second // tests have more patience

// lite is SQLite's dialect: one connection writes, others read at the same time.
type lite struct {
	version int // of the store when it was opened
}

func (lite) bind(query string) string  { return query }
func (lite) locked() string            { return "" } // the only transaction that writes
func (lite) using(index string) string { return " INDEXED BY " + index }
func (lite) values(args []any) []any   { return args }
func (lite) row(row scanner) scanner   { return row }

// begin reads the version under the lock of the transaction, so that it cannot change.
func (d lite) begin(ctx context.Context, t *transaction) error {
	var version int
	if err := t.tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != d.version {
		return outgrown(d.version)
	}
	return nil
}

// seconds returns an expression that is exact to the millisecond, as the columns are.
func (lite) seconds(from, to string) string {
	return "unixepoch(" + to + ", 'subsec') - unixepoch(" + from + ", 'subsec')"
}

func (lite) send(ctx context.Context, t *transaction, statements []statement) ([]int64, error) {
	// When ctx ends, so does the transaction, and with it every statement. Watching for that again
	// in each statement would cost as much as the statements.
	ctx = context.WithoutCancel(ctx)
	prepared := map[string]*sql.Stmt{}
	changed := make([]int64, len(statements))
	for i, s := range statements {
		if prepared[s.query] == nil {
			var err error
			if prepared[s.query], err = t.tx.PrepareContext(ctx, s.query); err != nil { //nolint:sqlclosecheck // closed with tx
				return nil, err
			}
		}
		result, err := prepared[s.query].ExecContext(ctx, s.args...)
		if err != nil {
			return nil, err
		}
		if changed[i], err = result.RowsAffected(); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// connect prepares connections, but opens no file yet. synchronous is FULL although a write-ahead
// log is consistent with NORMAL, too. An entry is deleted from Redis once it is committed here, so
// a commit must survive a power cut. The price is one fsync per batch.
func connect(path, mode string, connections int) (*sql.DB, error) {
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") { // C:/…
		name = "/" + name
	}
	query := url.Values{
		"mode":          {mode},
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_synchronous":  {"FULL"},
		"_txlock":       {"immediate"},
		"_error_rc":     {"1"},
	}
	if mode != "rwc" {
		query.Set("_query_only", "1")
	}
	if mode == "immutable" {
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	}

	dsn := url.URL{Scheme: "file", Path: name, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("results database %s: %w", path, err)
	}

	pool(db, connections)
	return db, nil
}

func openSQLite(ctx context.Context, path string, h history) (_ *store, err error) {
	// SQLite gives its other files the permissions of this one. If the file cannot be created,
	// SQLite reports why.
	if made, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		_ = made.Close()
	}
	write, err := connect(path, "rwc", 1)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = write.Close()
		}
	}()
	if err := prepare(ctx, write, path, h); err != nil {
		return nil, err
	}
	read, err := openReader(ctx, path, "rw", h)
	if err != nil {
		return nil, err
	}
	return &store{read, write}, nil
}

// prepare creates the tables of a new file, or migrates an older one. It refuses a file that is not
// a results store or cannot be written. Several processes may call it at once: the others wait for
// the one that migrates the file.
func prepare(ctx context.Context, db *sql.DB, path string, h history) error {
	for deadline := time.Now().Add(migrationPatience); ; {
		version, err := advance(ctx, db, path, h)
		if errors.Is(err, ErrBusy) && version != noStore && version < h.version() && time.Now().Before(deadline) {
			continue // it has waited for busyTimeout
		}
		if err != nil {
			return err
		}
		if version == h.version() {
			return keepLogAhead(ctx, db, path)
		}
	}
}

// advance creates the tables, or takes one migration step, in one transaction. It returns the
// version that the store has then. If the process is killed, the store keeps the version before.
func advance(ctx context.Context, db *sql.DB, path string, h history) (version int, err error) {
	defer func() { err = stopped(ctx, err) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		err = explainSQLite("open", path, err)
		if found, readErr := inspect(ctx, db, path, h); errors.Is(err, ErrBusy) && readErr == nil {
			version = found
		}
		return version, err
	}
	defer func() { _ = tx.Rollback() }()
	version, err = inspect(ctx, tx, path, h)
	if err != nil {
		return version, err
	}

	operation := "migrate"
	switch {
	case version == noStore:
		operation, version = "create", oldestVersion
		_, err = tx.ExecContext(ctx, h.create+fmt.Sprintf("; PRAGMA application_id = %d", applicationID))
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO sink (id, created_at) VALUES (?, ?)", strings.ToLower(rand.Text()), stamp{time.Now()})
		}
		for _, step := range h.steps {
			if err == nil {
				_, err = tx.ExecContext(ctx, step)
				version++
			}
		}
	case version < h.version():
		_, err = tx.ExecContext(ctx, h.after(version)[0])
		version++
	}

	if err == nil {
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return noStore, explainSQLite(operation, path, err)
	}
	return version, nil
}

// keepLogAhead switches to a write-ahead log, once the file is known to be a results store. If the
// file system does not support one, SQLite keeps its rollback journal.
//
// SQLite answers "busy" at once, without its timeout, if another process switches at the same
// moment; the other's switch is then as good.
func keepLogAhead(ctx context.Context, db *sql.DB, path string) error {
	for deadline := time.Now().Add(busyTimeout); ; {
		_, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		if err == nil {
			return nil
		}
		if err = explainSQLite("open", path, err); !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			return err
		}
		if err := outage.Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// inspect returns the version of the store in the file, or noStore if the file is empty. Any other
// file is an error.
func inspect(ctx context.Context, db rowQuerier, path string, h history) (version int, err error) {
	var application, tables int
	for _, ask := range []struct {
		query string
		into  *int
	}{
		{"PRAGMA application_id", &application},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
	} {
		if err := db.QueryRowContext(ctx, ask.query).Scan(ask.into); err != nil {
			return noStore, explainSQLite("open", path, err)
		}
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return noStore, nil
	case application != applicationID:
		return noStore, unfit{fmt.Errorf("open results database %s: it is another program's SQLite database: name another file", path)}
	}
	return version, h.check(path, version, "name another file")
}

func openSQLiteReader(ctx context.Context, path string, h history) (*reader, error) {
	if err := mustExist(path); err != nil {
		return nil, err
	}
	r, err := openReader(ctx, path, "rw", h)
	if err == nil || !unwritable(err) || pendingLog(path) {
		return r, err
	}
	// SQLite reads through a file of shared memory next to the database. In a folder where that
	// cannot be created, there are no writers either.
	return openReader(ctx, path, "immutable", h)
}

func mustExist(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return missing{unfit{fmt.Errorf(
			"open results database %s: there is no such file: name the output folder or results store of an evaluation", path,
		)}}
	}
	return nil
}

func sqliteVersion(ctx context.Context, path string, h history) (int, error) {
	if err := mustExist(path); err != nil {
		return 0, err
	}
	db, err := connect(path, "rw", 1)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	version, err := inspect(ctx, db, path, h)
	if err == nil && version == noStore {
		err = empty(path)
	}
	return version, err
}

// pendingLog reports whether the write-ahead log has commits, which "immutable" would not see.
func pendingLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

func openReader(ctx context.Context, path, mode string, h history) (_ *reader, err error) {
	db, err := connect(path, mode, readers)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	version, err := inspect(ctx, db, path, h)
	if err != nil {
		return nil, err
	}
	if version == noStore {
		return nil, empty(path)
	}
	if err := h.readable(path, version); err != nil {
		return nil, err
	}
	return newReader(ctx, lite{version}, path, db)
}
