package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, path, statements string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), statements); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		make     func(t *testing.T, path string)
		want     []string // in the error of both ways to open
		readOnly []string // in that of OpenReadOnly, where it is another; nil: as want
	}{
		"not a database": {
			make: func(t *testing.T, path string) {
				if err := os.WriteFile(path, []byte(strings.Repeat("id,doc_id\n", 500)), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"not a SQLite database", "name another file"},
		},
		"another program's": {
			make: func(t *testing.T, path string) { run(t, path, "CREATE TABLE notes (text)") },
			want: []string{"another program's", "name another file"},
		},
		"a newer version": {
			make: func(t *testing.T, path string) {
				openAndClose(t, path)
				run(t, path, "PRAGMA user_version = 14")
			},
			want: []string{"version 14", "this program knows 13", "newer evalfleet"},
		},
		"an older version": {
			make: func(t *testing.T, path string) {
				openAndClose(t, path)
				run(t, path, "PRAGMA user_version = 1")
			},
			want: []string{"version 1", "migrates from version 7 on", "older evalfleet"},
		},
		"damaged": {
			make: func(t *testing.T, path string) {
				openAndClose(t, path)
				damage(t, path, 100)
			},
			want: []string{"damaged", ".recover"},
		},
		"no folder": {
			make:     func(t *testing.T, path string) { remove(t, filepath.Dir(path)) },
			want:     []string{"cannot be written", "folder exists"},
			readOnly: []string{"there is no such file"},
		},
		"a folder": {
			make: func(t *testing.T, path string) {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"it is a folder", "name a file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			test.make(t, path)
			before, _ := os.ReadFile(path)
			sink, err := Open(context.Background(), path)
			if err == nil {
				_ = sink.Close()
			}
			wantError(t, err, append(test.want, path)...)
			reader, err := OpenReadOnly(context.Background(), path)
			if err == nil {
				_ = reader.Close()
			}
			if test.readOnly == nil {
				test.readOnly = test.want
			}
			wantError(t, err, append(test.readOnly, path)...)
			if after, _ := os.ReadFile(path); string(before) != string(after) {
				t.Error("the file was changed")
			}
		})
	}
}

func openAndClose(t *testing.T, path string) {
	t.Helper()
	db, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// damage overwrites the file from offset to its end.
func damage(t *testing.T, path string, offset int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := offset; i < len(raw); i++ {
		raw[i] = 0xa5
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got error %v, want %q in it", err, part)
		}
	}
}

func TestDamageIsMetLater(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := newPath(t)
	db, e := openStore(t, path)
	mustAppend(t, db, e.ID, verdicts(200)...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, path, 40*4096) // after the first page of every table, and after the schema
	damaged, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = damaged.Close() }()
	wantError(t, damaged.Append(ctx, e.ID, verdicts(400)), path, "damaged")
	_, err = collect(damaged.Runs(ctx, e.ID))
	wantError(t, err, path, "damaged")
}

func TestOpenReadOnlyOfNothing(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	_, err := OpenReadOnly(context.Background(), path)
	wantError(t, err, path, "no such file")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made a file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = OpenReadOnly(context.Background(), path)
	wantError(t, err, path, "empty")
}

func TestNamesOfStores(t *testing.T) {
	t.Parallel()
	working, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"results.db":              filepath.Join(working, "results.db"),
		"sqlite:out/results.db":   filepath.Join(working, "out", "results.db"),
		"sqlite://out/results.db": filepath.Join(working, "out", "results.db"),
		"sqlite:/srv/results.db":  filepath.FromSlash("/srv/results.db"),
		"sqlite:///srv/a:b.db":    filepath.FromSlash("/srv/a:b.db"),
	} {
		if runtime.GOOS == "windows" && strings.Contains(url, "/srv") {
			continue // gets a drive
		}
		if got, err := sqlitePath(url); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", url, got, err, want)
		}
	}
	for url, want := range map[string]string{
		"":                      "names no file",
		"sqlite:":               "names no file",
		"mysql://user:key@host": `unknown kind "mysql"`,
	} {
		_, err := Open(context.Background(), url)
		wantError(t, err, want, "sqlite:PATH")
		if strings.Contains(err.Error(), "key") {
			t.Errorf("the error shows the URL's password: %v", err)
		}
	}
}

func TestAnyFileName(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows forbids such names")
	}
	path := filepath.Join(t.TempDir(), "a b?mode=ro&c#d%41'\"é.db")
	db, e := openStore(t, "sqlite:"+path)
	mustAppend(t, db, e.ID, verdict(0))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it was made elsewhere: %v", err)
	}
	wantVerdicts(t, db, e.ID, 1)
}

// A commit has to survive a power cut, because the entry is then deleted from
// Redis; and readers must not wait for writers.
func TestDurability(t *testing.T) {
	t.Parallel()
	db, _ := openStore(t, newPath(t))
	write := db.(*store).write
	got := map[string]string{}
	for _, pragma := range []string{"journal_mode", "synchronous", "busy_timeout", "application_id", "user_version"} {
		var value string
		if err := write.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[pragma] = value
	}
	want := map[string]string{
		"journal_mode": "wal", "synchronous": "2", "busy_timeout": fmt.Sprint(busyTimeout.Milliseconds()),
		"application_id": "1702259814", "user_version": "13",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pragmas (-want +got):\n%s", diff)
	}
}

// A store at rest keeps few connections: a controller has a thousand stores open, and a
// connection costs open files and a cache.
func TestStoreAtRestKeepsFewConnections(t *testing.T) {
	t.Parallel()
	for kind, newURL := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sink, _ := openStore(t, newURL(t))
			db := sink.(*store).db
			var busy []*sql.Conn
			for range readers {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				busy = append(busy, conn)
			}
			if open := db.Stats().OpenConnections; open != readers {
				t.Fatalf("%d connections in use, want %d", open, readers)
			}
			for _, conn := range busy {
				if err := conn.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if open := db.Stats().OpenConnections; open != 1 {
				t.Errorf("%d connections at rest, want 1", open)
			}
		})
	}
}

// Rows come one by one only if SQLite need not sort or gather them first.
func TestRowsAreNotSorted(t *testing.T) {
	t.Parallel()
	db, _ := openStore(t, newPath(t))
	for _, query := range []string{selectRuns + "r.evaluation = ?" + groupRuns, selectPairs, selectScores} {
		steps := mustCollect(t, rows(t.Context(), &db.(*store).access, func(row scanner, step *string) error {
			var id, parent, unused int
			return row.Scan(&id, &parent, &unused, step)
		}, "EXPLAIN QUERY PLAN "+query, "ev-abcdefgh2345"))
		all := strings.Join(steps, "\n")
		// The criteria of one run may be sorted.
		sorted := strings.ReplaceAll(all, "USE TEMP B-TREE FOR LAST TERM OF ORDER BY", "")
		if strings.Contains(sorted, "TEMP B-TREE") || strings.Contains(all, "SCAN") || len(steps) < 2 {
			t.Errorf("plan of %s\n%s", query, all)
		}
	}
}

// A search finds its way by an index, or a page of a million runs takes seconds.
func TestSearchesUseIndexes(t *testing.T) {
	t.Parallel()
	db, e := openStore(t, newPath(t))
	one := 1
	for _, c := range []struct {
		search Search
		want   string
	}{
		{Search{}, "r USING PRIMARY KEY"},
		{Search{Filter: Filter{Phase: &one}}, "r USING PRIMARY KEY (evaluation=? AND phase=?"},
		{Search{Filter: Filter{Judge: "strict", Text: "source"}}, "r USING PRIMARY KEY"},
		{Search{Filter: Filter{State: eval.StateFailed, Judge: "strict"}}, "r USING INDEX runs_by_state (evaluation=? AND state=?"},
		{Search{Filter: Filter{Class: "timeout", State: eval.StateFailed}}, "r USING INDEX runs_by_class (evaluation=? AND class=?"},
		{Search{Filter: Filter{Item: "q1", Candidate: "a"}}, "r USING INDEX runs_by_item (evaluation=? AND item=?"},
		{Search{Filter: Filter{Documents: []string{"a", "b"}}}, "runs USING COVERING INDEX runs_by_second (evaluation=? AND doc_id_2=?)"},
		{Search{Newest: true, Filter: Filter{Item: "q1"}}, "r USING INDEX runs_by_end"},
		{Search{Newest: true, Filter: Filter{Class: "timeout"}}, "r USING INDEX runs_unfit_by_end"},
	} {
		for _, after := range []*Mark{nil, {Phase: 1, Index: 2, Ended: epoch}} {
			c.search.After = after
			_, behind, _, sorted := c.search.key()
			w, looked := c.search.found(e.ID, lite{}.using)
			if w = w.plus(looked); after != nil {
				w = w.plus(c.search.compareMark(behind, after))
			}
			steps := mustCollect(t, rows(t.Context(), &db.(*store).access, func(row scanner, step *string) error {
				var id, parent, unused int
				return row.Scan(&id, &parent, &unused, step)
			}, "EXPLAIN QUERY PLAN SELECT r.evaluation, r.phase, r.index_ FROM "+w.from+" WHERE "+w.text+" ORDER BY "+sorted+" LIMIT 50", w.args...))
			plan := strings.Join(steps, "\n")
			plan = strings.ReplaceAll(plan, "COVERING INDEX runs_by_e", "INDEX runs_by_e")
			if sorts := strings.Contains(plan, "TEMP B-TREE"); !strings.Contains(plan, c.want) || sorts != (c.search.Documents != nil) {
				t.Errorf("%+v: want %q in\n%s", c.search, c.want, plan)
			}
		}
	}
}
