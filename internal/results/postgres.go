package results

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// connectTimeout applies unless the URL or PGCONNECT_TIMEOUT sets one.
const connectTimeout = 10 * time.Second

// toPostgres translates the SQL of schema from SQLite's words to PostgreSQL's. Text is compared
// byte by byte, as in SQLite, and not in the database's collation.
var toPostgres = strings.NewReplacer(
	") WITHOUT ROWID", ")",
	"INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	"TEXT", `TEXT COLLATE "C"`,
)

// postgres is PostgreSQL's dialect.
type postgres struct {
	patience time.Duration // how long to wait for another transaction's lock
	version  int           // of the store when it was opened
}

// bind numbers the parameters of a query.
func (postgres) bind(query string) string {
	parts := strings.Split(query, "?")
	var numbered strings.Builder
	for i, part := range parts[:len(parts)-1] {
		numbered.WriteString(part + "$" + strconv.Itoa(i+1))
	}
	return numbered.String() + parts[len(parts)-1]
}

func (postgres) seconds(from, to string) string {
	return "extract(epoch FROM " + to + " - " + from + ")"
}

func (postgres) using(string) string { return "" } // PostgreSQL has statistics

func (postgres) locked() string { return " FOR UPDATE" }

// begin bounds how long a transaction waits for another's lock. Whatever the server's settings, it
// makes a commit reach the server's disk, because entries are then deleted from Redis. No process
// can migrate the store until the transaction ends.
func (d postgres) begin(ctx context.Context, t *transaction) error {
	changed, err := d.send(ctx, t, []statement{
		{`SELECT set_config('lock_timeout', ?, true),
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`,
			[]any{strconv.FormatInt(d.patience.Milliseconds(), 10)}},
		{"SELECT pg_advisory_xact_lock_shared(" + migrationLock + ")", nil},
		{"SELECT id FROM sink WHERE version = ?", []any{d.version}}, // sees rows committed before the lock was acquired
	})
	if err == nil && changed[2] != 1 {
		err = outgrown(d.version)
	}
	return err
}

// migrationLock identifies the lock of the store in this schema. Transactions that write share it,
// and one that migrates holds it alone.
const migrationLock = "1702259814, 'sink'::regclass::oid::int8::bit(32)::int"

// send runs all statements in one round trip to the server.
func (d postgres) send(ctx context.Context, t *transaction, statements []statement) ([]int64, error) {
	batch := &pgx.Batch{}
	bound := map[string]string{}
	for _, s := range statements {
		if bound[s.query] == "" {
			bound[s.query] = d.bind(s.query)
		}
		batch.Queue(bound[s.query], d.values(s.args)...)
	}
	changed := make([]int64, len(statements))
	err := t.conn.Raw(func(conn any) (err error) {
		done := conn.(*stdlib.Conn).Conn().SendBatch(ctx, batch)
		for i := range changed {
			tag, err := done.Exec()
			if err != nil {
				_ = done.Close() // any error is the same
				return err
			}
			changed[i] = tag.RowsAffected()
		}
		return done.Close()
	})
	return changed, err
}

// connectPostgres prepares connections, but opens none yet. name describes the database, without a
// password.
func connectPostgres(address string) (db *sql.DB, config *pgx.ConnConfig, name string, err error) {
	if _, err := Public(address); err != nil {
		return nil, nil, "", err
	}
	config, err = pgx.ParseConfig(address)
	if err != nil {
		return nil, nil, "", unfit{parseError(address, err)}
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "evalfleet"
	}
	db = stdlib.OpenDB(*config)
	pool(db, readers+1)
	return db, config, nameOf(config), nil
}

func nameOf(config *pgx.ConnConfig) string {
	name := url.URL{Scheme: "postgres", User: url.User(config.User), Path: "/" + config.Database}
	query := url.Values{}
	if strings.HasPrefix(config.Host, "/") {
		query.Set("host", config.Host)
	} else {
		name.Host = net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	}
	if path := config.RuntimeParams["search_path"]; path != "" {
		query.Set("search_path", path)
	}
	name.RawQuery = strings.ReplaceAll(query.Encode(), "%2F", "/")
	return name.String()
}

func openPostgres(ctx context.Context, address string, h history) (*store, error) {
	r, err := openPostgresReader(ctx, address, h, true)
	if err != nil {
		return nil, err
	}
	return &store{r, r.db}, nil
}

// openPostgresReader opens a store. If it is opened for writing, it is created or migrated first.
func openPostgresReader(ctx context.Context, address string, h history, writing bool) (_ *reader, err error) {
	db, config, name, err := connectPostgres(address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()

	version, err := examine(ctx, db, name, h, writing)
	if err == nil && version == noStore {
		if !writing {
			return nil, empty(name)
		}
		version, err = create(ctx, db, name, config.RuntimeParams["search_path"], h)
	}

	for writing && err == nil && version < h.version() {
		version, err = step(ctx, db, name, h)
	}
	if err == nil {
		err = h.readable(name, version)
	}
	if err != nil {
		return nil, err
	}
	return newReader(ctx, postgres{busyTimeout, version}, name, db)
}

// postgresVersion returns the version of an existing store. If there is none, that is an error.
func postgresVersion(ctx context.Context, address string, h history) (int, error) {
	db, _, name, err := connectPostgres(address)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	version, err := examine(ctx, db, name, h, false)
	if err == nil && version == noStore {
		err = empty(name)
	}
	return version, err
}

// examine returns the version of the store in the first existing schema of the search path, or
// noStore. It fails if this program does not know the store, or if writing is set and the server is
// read-only.
func examine(ctx context.Context, db rowQuerier, name string, h history, writing bool) (version int, err error) {
	var schema string
	var readOnly, found bool
	var columns int
	err = db.QueryRowContext(ctx, `
SELECT coalesce(current_schema(), ''), current_setting('transaction_read_only') = 'on', found IS NOT NULL,
  (SELECT count(*) FROM pg_attribute WHERE attrelid = found AND attname IN ('id', 'created_at', 'version'))
FROM (SELECT to_regclass(quote_ident(current_schema()) || '.sink') AS found) AS s`).Scan(&schema, &readOnly, &found, &columns)
	switch {
	case err != nil:
		return noStore, explainPostgres("open", name, err)
	case readOnly && writing:
		return noStore, unfit{fmt.Errorf("open results database %s: the server is read-only (a standby?): use the primary", name)}
	case !found:
		return noStore, nil
	case columns != 3:
		return noStore, foreign(name, schema)
	}
	if err := db.QueryRowContext(ctx, "SELECT version FROM sink").Scan(&version); err != nil {
		return noStore, explainPostgres("open", name, err)
	}
	return version, h.check(name, version, "name another schema with search_path")
}

// create creates the tables, unless another process has just created them, and returns the version
// of the store.
func create(ctx context.Context, db *sql.DB, name, searchPath string, h history) (version int, err error) {
	defer func() { err = stopped(ctx, err) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return noStore, explainPostgres("create", name, err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", applicationID); err != nil {
		return noStore, explainPostgres("create", name, err)
	}
	if version, err := examine(ctx, tx, name, h, true); err != nil || version != noStore {
		return version, err
	}

	if searchPath != "" && !strings.ContainsAny(searchPath, `,"$`) {
		var missing bool
		err := tx.QueryRowContext(ctx, "SELECT current_schema() IS NULL").Scan(&missing)
		if err == nil && missing {
			_, err = tx.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{strings.ToLower(strings.TrimSpace(searchPath))}.Sanitize())
		}
		if err != nil {
			return noStore, explainPostgres("create", name, err)
		}
	}

	if _, err := tx.ExecContext(ctx, toPostgres.Replace(h.create)+";\nALTER TABLE sink ADD version BIGINT NOT NULL"); err != nil {
		return noStore, explainPostgres("create", name, err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO sink (id, created_at, version) VALUES ($1, $2, $3)",
		strings.ToLower(rand.Text()), stamp{time.Now()}, h.version())
	for _, step := range h.steps {
		if err == nil {
			_, err = tx.ExecContext(ctx, toPostgres.Replace(step))
		}
	}

	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return noStore, explainPostgres("create", name, err)
	}
	return h.version(), nil
}

// step migrates the store by one version, in one transaction, unless another process has done so.
// It returns the version that the store has then. It waits for transactions that write; those that
// begin later wait for it.
func step(ctx context.Context, db *sql.DB, name string, h history) (version int, err error) {
	defer func() { err = stopped(ctx, err) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return noStore, explainPostgres("migrate", name, err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock("+migrationLock+")"); err != nil {
		return noStore, explainPostgres("migrate", name, err)
	}
	version, err = examine(ctx, tx, name, h, true)
	if err != nil || version == h.version() {
		return version, err
	}

	_, err = tx.ExecContext(ctx, toPostgres.Replace(h.after(version)[0]))
	version++
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE sink SET version = $1", version)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return noStore, explainPostgres("migrate", name, err)
	}
	return version, nil
}
