package results

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Open opens the sink at url, "sqlite:PATH" or a plain path, and creates it with
// a random identity where there is none. Its folder must exist. The error names
// the path and what to do: the file is something else, is damaged, was written
// by a newer program, or cannot be written.
func Open(ctx context.Context, url string) (Sink, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLite(ctx, path)
}

// OpenReadOnly opens an existing sink for reading, also while others write to it
// and also in a folder that cannot be written.
func OpenReadOnly(ctx context.Context, url string) (Reader, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLiteReader(ctx, path)
}

func sqlitePath(url string) (string, error) {
	path, named := strings.CutPrefix(url, "sqlite:")
	if named {
		path = strings.TrimPrefix(path, "//")
	} else if scheme, _, ok := strings.Cut(url, "://"); ok {
		return "", unfit{fmt.Errorf("sink %s://…: unknown kind %q: want sqlite:PATH", scheme, scheme)}
	}
	if path == "" {
		return "", unfit{fmt.Errorf("sink %q names no file: want sqlite:PATH", url)}
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
