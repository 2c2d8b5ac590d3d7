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

const (
	connectTimeout = 10 * time.Second // unless the URL or PGCONNECT_TIMEOUT names one
	idleFor        = time.Minute      // before a connection is given back
)

// createTables is schema.sql in what PostgreSQL has for SQLite's own words. Text is
// compared byte by byte, as in SQLite, and not as the database's language sorts.
var createTables = strings.NewReplacer(
	") WITHOUT ROWID", ")",
	"INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	"TEXT", `TEXT COLLATE "C"`,
).Replace(schema) + ";\nALTER TABLE sink ADD version BIGINT NOT NULL"

// postgres is PostgreSQL's dialect.
type postgres struct {
	patience time.Duration // for another transaction's lock
}

// bind numbers the parameters.
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

func (postgres) using(string) string { return "" } // it knows its data

func (postgres) locked() string { return " FOR UPDATE" }

// begin bounds how long a transaction waits for another's lock, and sees that it is
// on the server's disk once it is committed, whatever the server's settings: an
// entry is then deleted from Redis.
func (d postgres) begin(ctx context.Context, t *transaction) error {
	_, err := t.tx.ExecContext(ctx, `
SELECT set_config('lock_timeout', $1, true),
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`,
		strconv.FormatInt(d.patience.Milliseconds(), 10))
	return err
}

// send needs one trip to the server.
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
				_ = done.Close() // says the same
				return err
			}
			changed[i] = tag.RowsAffected()
		}
		return done.Close()
	})
	return changed, err
}

// connectPostgres opens no connection yet. name is where the database is, without
// a password.
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
	db.SetMaxOpenConns(readers + 1)
	db.SetMaxIdleConns(1) // there may be a sink open for each of many evaluations
	db.SetConnMaxIdleTime(idleFor)
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

func openPostgres(ctx context.Context, address string) (*store, error) {
	r, err := openPostgresReader(ctx, address, true)
	if err != nil {
		return nil, err
	}
	s, err := newStore(r, r.db)
	if err != nil {
		_ = r.Close()
	}
	return s, err
}

// openPostgresReader creates the sink where there is to be one for writing and there is
// none.
func openPostgresReader(ctx context.Context, address string, writing bool) (_ *reader, err error) {
	db, config, name, err := connectPostgres(address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	state, err := examine(ctx, db, name, writing)
	if err != nil {
		return nil, err
	}
	if state == fresh {
		if !writing {
			return nil, empty(name)
		}
		if err := create(ctx, db, name, config.RuntimeParams["search_path"]); err != nil {
			return nil, err
		}
	}
	return newReader(ctx, postgres{busyTimeout}, name, db)
}

// examine says whether a sink is in the first schema of the search path that
// there is. One that this program does not know is an error, and so is a server
// that takes no writes when there are to be some.
func examine(ctx context.Context, db rowQuerier, name string, writing bool) (sinkState, error) {
	var schema string
	var readOnly, found bool
	var columns int
	err := db.QueryRowContext(ctx, `
SELECT coalesce(current_schema(), ''), current_setting('transaction_read_only') = 'on', found IS NOT NULL,
  (SELECT count(*) FROM pg_attribute WHERE attrelid = found AND attname IN ('id', 'created_at', 'version'))
FROM (SELECT to_regclass(quote_ident(current_schema()) || '.sink') AS found) AS s`).Scan(&schema, &readOnly, &found, &columns)
	switch {
	case err != nil:
		return 0, explainPostgres("open", name, err)
	case readOnly && writing:
		return 0, unfit{fmt.Errorf("open results database %s: the server takes no writes, as a standby does: name the primary", name)}
	case !found:
		return fresh, nil
	case columns != 3:
		return 0, foreign(name, schema)
	}
	var version int
	if err := db.QueryRowContext(ctx, "SELECT version FROM sink").Scan(&version); err != nil {
		return 0, explainPostgres("open", name, err)
	}
	return ours, checkVersion(name, version, "name another schema with search_path")
}

// create makes the tables, unless another process does it at the same moment.
func create(ctx context.Context, db *sql.DB, name, searchPath string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return explainPostgres("create", name, err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", applicationID); err != nil {
		return explainPostgres("create", name, err)
	}
	if state, err := examine(ctx, tx, name, true); err != nil || state == ours {
		return err
	}
	if searchPath != "" && !strings.ContainsAny(searchPath, `,"$`) {
		var missing bool
		err := tx.QueryRowContext(ctx, "SELECT current_schema() IS NULL").Scan(&missing)
		if err == nil && missing {
			_, err = tx.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{strings.ToLower(strings.TrimSpace(searchPath))}.Sanitize())
		}
		if err != nil {
			return explainPostgres("create", name, err)
		}
	}
	if _, err := tx.ExecContext(ctx, createTables); err != nil {
		return explainPostgres("create", name, err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO sink (id, created_at, version) VALUES ($1, $2, $3)",
		strings.ToLower(rand.Text()), stamp{time.Now()}, schemaVersion)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return explainPostgres("create", name, err)
	}
	return nil
}
