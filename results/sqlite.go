package results

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	applicationID = 0x65766c66 // PRAGMA application_id: "evlf"
	busyTimeout   = 5 * time.Second
	readers       = 4 // connections for reading
)

//go:embed schema.sql
var schema string

// lite is SQLite's dialect: one connection writes, others read beside it.
type lite struct{}

func (lite) bind(query string) string  { return query }
func (lite) locked() string            { return "" } // a transaction that writes is the only one
func (lite) using(index string) string { return " INDEXED BY " + index }
func (lite) values(args []any) []any   { return args }
func (lite) row(row scanner) scanner   { return row }

func (lite) begin(context.Context, *transaction) error { return nil }

// seconds are exact to the millisecond, as the columns are.
func (lite) seconds(from, to string) string {
	return "unixepoch(" + to + ", 'subsec') - unixepoch(" + from + ", 'subsec')"
}

func (lite) send(ctx context.Context, t *transaction, statements []statement) ([]int64, error) {
	// When ctx ends, so does the transaction, and with it every statement. To
	// watch for that once more in each would cost as much as the statements.
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

// connect opens no file yet. synchronous is FULL although a write-ahead log is
// consistent with NORMAL, too: an entry is deleted from Redis once it is
// committed here, so a commit has to survive a power cut. One fsync a batch is
// what that costs.
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
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func openSQLite(ctx context.Context, path string) (_ *store, err error) {
	write, err := connect(path, "rwc", 1)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = write.Close()
		}
	}()
	if err := prepare(ctx, write, path); err != nil {
		return nil, err
	}
	read, err := openReader(ctx, path, "rw")
	if err != nil {
		return nil, err
	}
	return newStore(read, write)
}

// prepare creates the tables of a new file, refuses a file that is not ours, and
// sees that it can be written at all. Several processes may do it at once.
func prepare(ctx context.Context, db *sql.DB, path string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return explainSQLite("open", path, err)
	}
	defer func() { _ = tx.Rollback() }()
	state, err := inspect(ctx, tx, path)
	if err != nil {
		return err
	}
	if state == fresh {
		create := fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, schemaVersion)
		if _, err := tx.ExecContext(ctx, create); err != nil {
			return explainSQLite("create", path, err)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO sink (id, created_at) VALUES (?, ?)",
			strings.ToLower(rand.Text()), stamp{time.Now()})
		if err != nil {
			return explainSQLite("create", path, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return explainSQLite("create", path, err)
	}
	return keepLogAhead(ctx, db, path)
}

// keepLogAhead switches to a write-ahead log, once the file is known to be ours.
// Where the file system cannot hold one, SQLite keeps its rollback journal.
//
// SQLite answers "busy" at once, without its timeout, when another process
// switches at the same moment; the other's switch is then as good.
func keepLogAhead(ctx context.Context, db *sql.DB, path string) error {
	for deadline := time.Now().Add(busyTimeout); ; {
		_, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		if err == nil {
			return nil
		}
		if err = explainSQLite("open", path, err); !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// inspect says whose database the file is. One that is neither empty nor a sink
// that this program knows is an error.
func inspect(ctx context.Context, db rowQuerier, path string) (sinkState, error) {
	var application, version, tables int
	for _, ask := range []struct {
		query string
		into  *int
	}{
		{"PRAGMA application_id", &application},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
	} {
		if err := db.QueryRowContext(ctx, ask.query).Scan(ask.into); err != nil {
			return 0, explainSQLite("open", path, err)
		}
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return fresh, nil
	case application != applicationID:
		return 0, unfit{fmt.Errorf("open results database %s: it is a SQLite database of another program: name another file", path)}
	}
	return ours, checkVersion(path, version, "name another file")
}

func openSQLiteReader(ctx context.Context, path string) (*reader, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, missing{unfit{fmt.Errorf("open results database %s: there is no such file: name the output folder or sink of an evaluation: %w", path, err)}}
	}
	r, err := openReader(ctx, path, "rw")
	if err == nil || !unwritable(err) || pendingLog(path) {
		return r, err
	}
	// SQLite reads through a file of shared memory beside the database. In a
	// folder where that cannot be made nobody is writing either.
	return openReader(ctx, path, "immutable")
}

// pendingLog reports whether commits wait in the write-ahead log, which
// "immutable" would not see.
func pendingLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

func openReader(ctx context.Context, path, mode string) (_ *reader, err error) {
	db, err := connect(path, mode, readers)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	state, err := inspect(ctx, db, path)
	if err != nil {
		return nil, err
	}
	if state == fresh {
		return nil, empty(path)
	}
	return newReader(ctx, lite{}, path, db)
}
