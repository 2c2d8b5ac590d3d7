package results

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

func (postgres) explain(operation, name string, err error) error {
	return explainPostgres(operation, name, err)
}

func explainPostgres(operation, name string, err error) error {
	where := fmt.Sprintf("%s results database %s", operation, name)
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said):
		return explainSaid(where, name, said, err)
	case refusesTLS(err):
		return fmt.Errorf("%s: cannot establish a TLS connection: see sslmode and sslrootcert: %w", where, err)
	case isAway(err):
		return fmt.Errorf("%s: %w: %w", where, ErrAway, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// explainSaid explains an error that the server returned, by its SQLSTATE.
func explainSaid(where, name string, said *pgconn.PgError, err error) error {
	switch said.Code {
	case "53100": // disk_full
		return fmt.Errorf("%s: %w: make room on the server; nothing collected is lost: %w", where, ErrFull, err)
	case "55P03", "40001", "40P01": // lock_not_available, serialization_failure, deadlock_detected
		return fmt.Errorf("%s: %w: %w", where, ErrBusy, err)
	case "57P01", "57P02", "57P03", "53300": // the server stops, has crashed or is starting; too many connections
		return fmt.Errorf("%s: %w: %w", where, ErrAway, err)
	case "28P01", "28000":
		return fmt.Errorf("%s: the server refuses the login: set PGPASSWORD or use ~/.pgpass, or check the server's pg_hba.conf: %w", where, err)
	case "3D000":
		return unfit{fmt.Errorf("%s: the database does not exist: create it with `createdb`, or name another: %w", where, err)}
	case "42501":
		return unfit{fmt.Errorf("%s: the role lacks rights: docs/postgres.md lists them: %w", where, err)}
	case "25006":
		return unfit{fmt.Errorf("%s: the server is read-only (a standby?): use the primary: %w", where, err)}
	case "3F000":
		return unfit{fmt.Errorf(
			"%s: no schema of its search path exists: create one with CREATE SCHEMA, or set another with search_path: %w", where,
			err,
		)}
	case "42P05", "26000": // duplicate_prepared_statement, invalid_sql_statement_name
		return unfit{fmt.Errorf("%s: a pooler between evalfleet and the server mixes up prepared statements (PgBouncer, pool_mode=transaction): "+
			"add default_query_exec_mode=exec to the URL: %w", where, err)}
	case "42P07": // duplicate_table, while the tables were being created
		return foreign(name, "the schema")
	}

	if strings.HasPrefix(said.Code, "08") {
		return fmt.Errorf("%s: %w: %w", where, ErrAway, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

func foreign(name, schema string) error {
	return unfit{fmt.Errorf(
		"open results database %s: %s has tables of another program: set an empty schema, such as postgres://…?search_path=evalfleet",
		name, schema,
	)}
}

func refusesTLS(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &untrusted) || errors.As(err, &record) || strings.Contains(err.Error(), "refused TLS")
}

// isAway reports whether the connection failed, or was lost.
func isAway(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	var connecting *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connecting) || errors.As(err, &network) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, pgconn.ErrConnClosed)
}

// parseError explains why an address is invalid, without the parts that may contain a password.
func parseError(address string, err error) error {
	_, why, _ := strings.Cut(err.Error(), "`: ")
	if why == "" || strings.Contains(why, "failed to parse as") {
		why = "it cannot be parsed: percent-encode special characters in user and password, such as %40 for @"
	}
	kind, _, _ := strings.Cut(address, ":")
	if !isPostgresURL(address) {
		kind = "in key=value form"
	}
	return fmt.Errorf("results store %s…: %s", kind, why)
}
