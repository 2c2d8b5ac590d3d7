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

// Copy holds a server's data at one moment.
type Copy struct {
	dump string // an RDB file, if the server has no append-only file
	log  string // the append-only file
	size int64  // length of the append-only file at that moment
}

// Copy returns a copy of the server's current data, for Revert. The copy is useless if the server rewrites its
// append-only file before that.
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
	// Keep the file that the test saved before: the server starts from it.
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

// Revert makes a killed server start from a copy the next time. It returns false if the server has rewritten its
// append-only file since the copy was made.
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

// dumpName is the name of the file from which a server without an append-only file starts.
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
