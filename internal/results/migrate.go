package results

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// oldestVersion is the version of the stores that the first file of schema makes.
const oldestVersion = 7

//go:embed schema
var schemaFiles embed.FS

// released are the versions that this program knows.
var released = mustReadHistory(schemaFiles)

// history holds the SQL that makes a results store and brings it from each version to
// the next. A new store runs all of it, so a new store and a migrated one have the same
// tables. Released SQL never changes.
type history struct {
	create string   // the tables of oldestVersion
	steps  []string // steps[i] brings version oldestVersion+i to the next
}

func (h history) version() int { return oldestVersion + len(h.steps) }

// after returns the steps that a store of a version lacks.
func (h history) after(version int) []string { return h.steps[version-oldestVersion:] }

// mustReadHistory reads the files of schema. Each is named after the version that it leads to, and
// none may be missing.
func mustReadHistory(files fs.FS) history {
	names, err := fs.Glob(files, "schema/*.sql")
	if err != nil {
		panic(err)
	}
	slices.Sort(names)
	var h history
	for i, name := range names {
		version, err := strconv.Atoi(strings.TrimSuffix(path.Base(name), ".sql"))
		if err != nil || version != oldestVersion+i {
			panic(fmt.Sprintf("%s: want version %d", name, oldestVersion+i))
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		if i == 0 {
			h.create = string(text)
		} else {
			h.steps = append(h.steps, string(text))
		}
	}
	return h
}

// Migrate brings an existing store to this program's version, as Open does. It returns the version
// before and the version after. The error is ErrNoStore if there is no store.
func Migrate(ctx context.Context, url string) (from, to int, err error) {
	return migrate(ctx, url, released)
}

func migrate(ctx context.Context, url string, h history) (from, to int, err error) {
	if from, err = versionAt(ctx, url, h); err != nil {
		return 0, 0, err
	}
	db, err := open(ctx, url, h)
	if err != nil {
		return 0, 0, err
	}
	return from, h.version(), db.Close()
}

func versionAt(ctx context.Context, url string, h history) (int, error) {
	if isPostgres(url) {
		return postgresVersion(ctx, url, h)
	}
	path, err := sqlitePath(url)
	if err != nil {
		return 0, err
	}
	return sqliteVersion(ctx, path, h)
}

// check refuses a store of a version that this program neither knows nor can migrate.
func (h history) check(name string, version int, instead string) error {
	switch {
	case version > h.version():
		return unfit{fmt.Errorf(
			"open results database %s: it has version %d, this program knows %d: use the newer evalfleet that wrote it", name,
			version, h.version(),
		)}
	case version < oldestVersion:
		return unfit{fmt.Errorf(
			"open results database %s: it has version %d, this program migrates from version %d on: use the older evalfleet that wrote it, or %s",
			name, version, oldestVersion, instead,
		)}
	}
	return nil
}

// readable refuses a store that has to be migrated before this program can read it. Readers do not
// migrate it themselves: they may lack the right to, and an older program may be using it.
func (h history) readable(name string, version int) error {
	if version < h.version() {
		return unfit{fmt.Errorf("open results database %s: it has version %d, this program reads version %d: "+
			"migrate it with: evalfleet migrate %s", name, version, h.version(), name)}
	}
	return nil
}

// outgrown returns the error of a write to a store that another program has migrated to version
// while this one had it open.
func outgrown(version int) error {
	return unfit{fmt.Errorf("a newer evalfleet has migrated it, and this program knows version %d: upgrade this program", version)}
}
