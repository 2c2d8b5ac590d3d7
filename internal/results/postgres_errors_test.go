package results

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler that mixes up prepared statements is named, with the setting that avoids them.
func TestPoolersAreExplained(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"42P05", "26000"} {
		err := explainPostgres("write", "db", &pgconn.PgError{Code: code, Message: "prepared statement"})
		if !strings.Contains(err.Error(), "default_query_exec_mode=exec") || !strings.Contains(err.Error(), "prepared statement (SQLSTATE "+code+")") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
