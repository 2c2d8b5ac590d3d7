package redistest

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Copy is what a server's files held at a moment.
type Copy struct {
	dump string // an RDB file, for a server without an append-only file
	log  string // the append-only file
	size int64  // of it, by then
}

// Copy returns a copy of what the server holds now, to start it from again. The server must not
// rewrite its append-only file meanwhile, or the copy cannot be used.
func (s *Server) Copy() Copy {
	s.t.Helper()
	if log := s.appendOnlyFile(); log != "" {
		info, err := os.Stat(log)
		if err != nil {
			s.t.Fatal(err)
		}
		return Copy{log: log, size: info.Size()}
	}
	s.copies++
	c := Copy{dump: filepath.Join(s.dir, "copy-"+strconv.Itoa(s.copies)+".rdb")}
	// What the test had the server save before remains what it starts from.
	dump, kept := filepath.Join(s.dir, dumpName), filepath.Join(s.dir, "kept.rdb")
	if err := os.Rename(dump, kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	client := s.look()
	defer client.Close()
	err := client.Save(context.Background()).Err()
	if err == nil {
		err = os.Rename(dump, c.dump)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(kept, dump); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return c
}

// Revert makes a server that was killed start from a copy the next time; false: its append-only
// file is another one since the copy was made.
func (s *Server) Revert(c Copy) bool {
	s.t.Helper()
	if c.log != "" {
		if c.log != s.appendOnlyFile() {
			return false
		}
		if err := os.Truncate(c.log, c.size); err != nil {
			s.t.Fatal(err)
		}
		return true
	}
	data, err := os.ReadFile(c.dump)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, dumpName), data, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return true
}

// dumpName is the name of the file that a server without an append-only file starts from.
const dumpName = "dump.rdb"

// appendOnlyFile returns the path of the file that the server appends to; empty if there is none.
func (s *Server) appendOnlyFile() string {
	files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil {
		s.t.Fatal(err)
	}
	if len(files) == 0 {
		return ""
	}
	return slices.MaxFunc(files, func(a, b string) int { // appendonly.aof.10.incr.aof is newer than appendonly.aof.9.incr.aof
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}
