package results

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Open opens the results store at url, and creates it with a random identity if it does not exist.
// url is "sqlite:PATH" or a plain path, whose folder must exist; or a libpq connection string for a
// PostgreSQL database, "postgres://…" or "host=… dbname=…", whose search_path names the schema.
// Missing settings come from libpq's environment and files.
//
// Open migrates a results store of an older version before it returns, or leaves it unchanged. It
// waits while another process migrates it.
//
// The error names the place, without a password, and says what to do. Either the place is not a
// results store, is damaged, was written by a newer program, or cannot be written.
func Open(ctx context.Context, url string) (Store, error) { return open(ctx, url, released) }

func open(ctx context.Context, url string, h history) (Store, error) {
	if isPostgres(url) {
		return openPostgres(ctx, url, h)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLite(ctx, path, h)
}

// OpenReadOnly opens an existing results store for reading, even while others write to it. The
// folder or server need not be writable. It changes nothing: for a results store of an older
// version, it returns an ErrUnfit that says how to migrate it.
func OpenReadOnly(ctx context.Context, url string) (Reader, error) {
	return openReadOnly(ctx, url, released)
}

func openReadOnly(ctx context.Context, url string, h history) (Reader, error) {
	if isPostgres(url) {
		return openPostgresReader(ctx, url, h, false)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLiteReader(ctx, path, h)
}

// Public returns a results store's URL without its password, in a form that may be stored and
// shown. A process that opens that URL takes the password from PGPASSWORD or ~/.pgpass. Public
// fails if it cannot tell the password from the rest.
func Public(url string) (string, error) {
	if !isPostgresURL(url) {
		if secretKey.MatchString(url) && isPostgres(url) {
			return "", unfit{errors.New("results store in key=value form: its password would be stored: set PGPASSWORD or use ~/.pgpass")}
		}
		return url, nil
	}
	kind, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	where, query, asked := strings.Cut(rest[end:], "?")
	if strings.ContainsAny(rest[end:], "@#") {
		return "", unfit{fmt.Errorf("results store %s://…: percent-encode special characters in user and password, such as %%40 for @", kind)}
	}
	who, host, named := cutLast(rest[:end], "@")
	if user, _, secret := strings.Cut(who, ":"); named && secret {
		who = user
	}
	public := kind + "://" + host + where
	if named {
		public = kind + "://" + who + "@" + host + where
	}
	var kept []string
	for setting := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(setting, "=")
		if key, err := neturl.QueryUnescape(key); err == nil && !strings.HasSuffix(key, "password") {
			kept = append(kept, setting)
		}
	}

	if asked && len(kept) > 0 {
		public += "?" + strings.Join(kept, "&")
	}
	return public, nil
}

// secretKey matches the beginning of a secret setting in key=value form.
var secretKey = regexp.MustCompile(`(^|\s)(ssl)?password\s*=`)

func cutLast(s, at string) (before, after string, found bool) {
	i := strings.LastIndex(s, at)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(at):], true
}

// File returns the path of the file that a results store's URL names; ok is false for a server's.
func File(url string) (path string, ok bool) {
	path, named := strings.CutPrefix(url, "sqlite:")
	if named {
		path = strings.TrimPrefix(path, "//")
	}
	return path, !isPostgres(url)
}

func isPostgres(url string) bool { return isPostgresURL(url) || keyValue.MatchString(url) }

func isPostgresURL(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// keyValue matches the beginning of a connection string in libpq's key=value form.
var keyValue = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|database|user|password|passfile|service|sslmode|` +
	`search_path|application_name|connect_timeout)\s*=`)

func sqlitePath(url string) (string, error) {
	path, _ := File(url)
	if scheme, _, ok := strings.Cut(url, "://"); ok && path == url {
		return "", unfit{fmt.Errorf("results store %s://…: unknown kind %q: want sqlite:PATH or postgres://…", scheme, scheme)}
	}
	if path == "" {
		return "", unfit{fmt.Errorf("results store %q names no file: want sqlite:PATH or postgres://…", url)}
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("results store %q: %w", url, err)
	}
	if info, err := os.Stat(absolute); err == nil && info.IsDir() {
		return "", unfit{fmt.Errorf("open results database %s: it is a folder: name a file in it", absolute)}
	}
	return absolute, nil
}
