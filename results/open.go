package results

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Open opens the sink at url, and creates it with a random identity where there is
// none: "sqlite:PATH" or a plain path, whose folder must exist, or what libpq takes
// for a PostgreSQL database, "postgres://…" or "host=… dbname=…", whose search_path
// names the schema. What is not in url comes from libpq's environment and files. The
// error names the place, never a password, and what to do: it is something else, is
// damaged, was written by a newer program, or cannot be written.
func Open(ctx context.Context, url string) (Sink, error) {
	if isPostgres(url) {
		return openPostgres(ctx, url)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLite(ctx, path)
}

// OpenReadOnly opens an existing sink for reading, also while others write to it
// and also in a folder, or on a server, that cannot be written.
func OpenReadOnly(ctx context.Context, url string) (Reader, error) {
	if isPostgres(url) {
		return openPostgresReader(ctx, url)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLiteReader(ctx, path)
}

func isPostgres(url string) bool { return isPostgresURL(url) || keyValue.MatchString(url) }

func isPostgresURL(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// keyValue is how libpq's other form begins.
var keyValue = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|database|user|password|passfile|service|sslmode|search_path|application_name|connect_timeout)\s*=`)

func sqlitePath(url string) (string, error) {
	path, named := strings.CutPrefix(url, "sqlite:")
	if named {
		path = strings.TrimPrefix(path, "//")
	} else if scheme, _, ok := strings.Cut(url, "://"); ok {
		return "", unfit{fmt.Errorf("sink %s://…: unknown kind %q: want sqlite:PATH or postgres://…", scheme, scheme)}
	}
	if path == "" {
		return "", unfit{fmt.Errorf("sink %q names no file: want sqlite:PATH or postgres://…", url)}
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sink %q: %w", url, err)
	}
	if info, err := os.Stat(absolute); err == nil && info.IsDir() {
		return "", unfit{fmt.Errorf("open results database %s: it is a folder: name a file in it", absolute)}
	}
	return absolute, nil
}
