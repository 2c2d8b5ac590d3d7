package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// dialect is the difference between SQLite and PostgreSQL. Everything else is written once, in SQL
// that both accept. Parameters are ?, conditional counts are count(*) FILTER (WHERE …), and
// integers are cast to BIGINT. Tables and types are those of the files in schema.
//
// A new column needs a new file in schema and a place in its table's list of columns (append.go).
// It needs code that writes it (append.go) and code that reads it (rows.go, run.go). A column that
// is summed also needs code in totals.go.
type dialect interface {
	// bind returns the query with its parameters in the database's form.
	bind(query string) string
	// seconds returns an expression for the seconds between two columns of times.
	seconds(from, to string) string
	// using returns a clause that follows a table's name and forces the use of an index. SQLite has
	// no statistics here, and would often choose another index.
	using(index string) string
	// locked returns the end of a SELECT of one row that no other transaction may change before
	// this one ends.
	locked() string
	// values converts arguments to values that the database can hold; row converts them back.
	values(args []any) []any
	row(row scanner) scanner
	// begin prepares a transaction that writes. It refuses a store that was migrated since it was
	// opened.
	begin(ctx context.Context, t *transaction) error
	// send runs statements in order, and returns how many rows each has changed.
	send(ctx context.Context, t *transaction, statements []statement) ([]int64, error)
	// explain returns err with the operation, the database and a remedy, so that the message is
	// complete on a terminal.
	explain(operation, name string, err error) error
}

type scanner interface{ Scan(into ...any) error }

// pool bounds a database's connections. It keeps one idle connection for a while.
func pool(db *sql.DB, most int) {
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(1) // a controller has a results store open for each active evaluation
	db.SetConnMaxIdleTime(time.Minute)
}

// noStore is the version of a place without a store, where one can be created.
const noStore = 0

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func empty(name string) error {
	return missing{unfit{fmt.Errorf("open results database %s: it is empty: no results were collected into it", name)}}
}

// access runs queries, inside or outside of a transaction.
type access struct {
	dialect
	name string // of the database, for messages; empty in a transaction
	on   interface {
		rowQuerier
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

// one runs a query that returns a single row.
func (a *access) one(ctx context.Context, query string, args ...any) scanner {
	return a.row(a.on.QueryRowContext(ctx, a.bind(query), a.values(args)...))
}

// unread returns the error for a row that could not be read. It names the database, unless a
// transaction adds that.
func (a *access) unread(err error) error {
	if a.name == "" { // transact names it, for the whole operation
		return err
	}
	return a.explain("read", a.name, err)
}

// reader reads a results store.
type reader struct {
	access
	id    string
	db    *sql.DB
	looks int // MostLooked
}

func newReader(ctx context.Context, d dialect, name string, db *sql.DB) (*reader, error) {
	r := &reader{access: access{d, name, db}, db: db, looks: MostLooked}
	if err := r.one(ctx, "SELECT id FROM sink").Scan(&r.id); err != nil {
		return nil, d.explain("open", name, err)
	}
	return r, nil
}

// ID returns the results store's random identity.
func (r *reader) ID() string { return r.id }

// Close closes the database. Iterations that are still running end with an error.
func (r *reader) Close() error {
	if err := r.db.Close(); err != nil {
		return r.explain("close", r.name, err)
	}
	return nil
}

// store is a results store. It uses separate connections for writing and reading.
type store struct {
	*reader
	write *sql.DB
}

// Close closes the database; the last process to close it moves the write-ahead log into it.
func (s *store) Close() error {
	err := s.reader.Close()
	if closeErr := s.write.Close(); closeErr != nil {
		err = errors.Join(err, s.explain("close", s.name, closeErr))
	}
	return err
}

// statement is SQL that changes rows, with its arguments.
type statement struct {
	query string
	args  []any
}

// transaction is one that writes.
type transaction struct {
	access
	conn *sql.Conn // its connection
	tx   *sql.Tx
}

func (s *store) transact(ctx context.Context, operation string, write func(*transaction) error) error {
	if err := s.try(ctx, write); err != nil {
		return s.explain(operation+" in", s.name, err)
	}
	return nil
}

func (s *store) try(ctx context.Context, write func(*transaction) error) (err error) {
	defer func() { err = stopped(ctx, err) }()
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	t := &transaction{access{dialect: s.dialect, on: tx}, conn, tx}
	if err := s.begin(ctx, t); err != nil {
		return err
	}
	if err := write(t); err != nil {
		return err
	}
	return tx.Commit()
}

// stopped returns the error of ctx in place of one that only says that a transaction is over:
// package sql rolls it back at once when its context ends.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, sql.ErrTxDone) {
		return ctx.Err()
	}
	return err
}

// exec runs one statement and returns how many rows it has changed.
func (t *transaction) exec(ctx context.Context, query string, args ...any) (int64, error) {
	changed, err := t.send(ctx, t, []statement{{query, args}})
	if err != nil {
		return 0, err
	}
	return changed[0], nil
}

// insert returns the statement that adds a row with these columns.
func insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + placeholders(strings.Count(columns, ",")+1) + ")"
}

// upsert returns a statement that inserts a row, or overwrites the other columns of an existing row
// with that key.
func upsert(table, key, columns string) string {
	return insertOr(table, key, columns, func(column string) string { return "excluded." + column })
}

// addition returns a statement that inserts a row, or adds the other columns to those of an
// existing row with that key.
func addition(table, key, columns string) string {
	return insertOr(table, key, columns, func(column string) string { return table + "." + column + " + excluded." + column })
}

// insertOr returns a statement that inserts a row, or sets each of the other columns of an existing
// row with that key to value(column).
func insertOr(table, key, columns string, value func(column string) string) string {
	var set []string
	for column := range strings.SplitSeq(columns, ", ") {
		set = append(set, column+" = "+value(column))
	}
	return insert(table, key+", "+columns) + " ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(set, ", ")
}

func qualified(alias, columns string) string {
	return alias + "." + strings.ReplaceAll(columns, ", ", ", "+alias+".")
}

func placeholders(n int) string { return "?" + strings.Repeat(", ?", n-1) }
