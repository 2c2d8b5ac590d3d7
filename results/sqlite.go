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

	"github.com/klauspost/compress/zstd"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	schemaVersion = 3          // PRAGMA user_version
	applicationID = 0x65766c66 // PRAGMA application_id: "evlf"
	busyTimeout   = 5 * time.Second
	readers       = 4 // connections for reading
)

//go:embed schema.sql
var schema string

// reader reads a SQLite sink.
type reader struct {
	path string
	id   string
	db   *sql.DB
	zstd *zstd.Decoder
}

// sqlite is a SQLite sink: one connection writes, others read beside it.
type sqlite struct {
	reader
	write *sql.DB
	zstd  *zstd.Encoder
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

func openSQLite(ctx context.Context, path string) (_ *sqlite, err error) {
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
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, fmt.Errorf("start compression: %w", err)
	}
	return &sqlite{reader: *read, write: write, zstd: encoder}, nil
}

// prepare creates the tables of a new file, refuses a file that is not ours, and
// sees that it can be written at all. Several processes may do it at once.
func prepare(ctx context.Context, db *sql.DB, path string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return explain("open", path, err)
	}
	defer func() { _ = tx.Rollback() }()
	state, err := inspect(ctx, tx, path)
	if err != nil {
		return err
	}
	if state == fresh {
		create := fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, schemaVersion)
		if _, err := tx.ExecContext(ctx, create); err != nil {
			return explain("create", path, err)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO sink (id, created_at) VALUES (?, ?)",
			strings.ToLower(rand.Text()), stamp{time.Now()})
		if err != nil {
			return explain("create", path, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return explain("create", path, err)
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
		if err = explain("open", path, err); !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

type fileState int

const (
	ours fileState = iota
	fresh
)

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// inspect says whose database the file is. One that is neither empty nor a sink
// that this program knows is an error.
func inspect(ctx context.Context, db rowQuerier, path string) (fileState, error) {
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
			return 0, explain("open", path, err)
		}
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return fresh, nil
	case application != applicationID:
		return 0, unfit{fmt.Errorf("open results database %s: it is a SQLite database of another program: name another file", path)}
	case version > schemaVersion:
		return 0, unfit{fmt.Errorf("open results database %s: it has version %d, this program knows %d: use the newer evalfleet that wrote it", path, version, schemaVersion)}
	case version < schemaVersion:
		return 0, unfit{fmt.Errorf("open results database %s: it has version %d, this program needs %d: use the older evalfleet that wrote it, or name another file", path, version, schemaVersion)}
	}
	return ours, nil
}

func openSQLiteReader(ctx context.Context, path string) (*reader, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, unfit{fmt.Errorf("open results database %s: there is no such file: name the output folder or sink of an evaluation: %w", path, err)}
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
		return nil, unfit{fmt.Errorf("open results database %s: it is empty: nothing was ever collected into it", path)}
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		return nil, fmt.Errorf("start decompression: %w", err)
	}
	r := &reader{path: path, db: db, zstd: decoder}
	if err := db.QueryRowContext(ctx, "SELECT id FROM sink").Scan(&r.id); err != nil {
		return nil, explain("open", path, err)
	}
	return r, nil
}

// ID is the sink's random identity.
func (r *reader) ID() string { return r.id }

// Close closes the database. Rows still being iterated end with an error.
func (r *reader) Close() error {
	r.zstd.Close()
	if err := r.db.Close(); err != nil {
		return explain("close", r.path, err)
	}
	return nil
}

// Close closes the database; the write-ahead log is moved into it when nobody
// else has it open.
func (s *sqlite) Close() error {
	err := s.reader.Close()
	if closeErr := s.write.Close(); closeErr != nil {
		err = errors.Join(err, explain("close", s.path, closeErr))
	}
	return err
}
