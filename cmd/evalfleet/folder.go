package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/embedded"
)

// Names in an output folder.
const (
	outRoot    = "evalfleet-out"
	sinkFile   = "results.db"
	restFile   = "results.rest"
	spentFile  = "budget.spent"
	eventsFile = "events.jsonl"
	reportFile = "report.html"
	lockFile   = ".lock"
)

// folder is an output folder, held by one process at a time.
type folder struct {
	dir  string
	lock *flock.Flock
	// What did not exist before: names in the folder, and the topmost folder that was made for
	// it.
	added []string
	made  string
}

// defaultFolder is the folder for an evaluation's files if none is given. A name that is too long
// for a folder is shortened in its middle.
func defaultFolder(name string, id eval.ID) string {
	return filepath.Join(outRoot, eval.FileName(fileSafe(name)+"-"+fileSafe(string(id))))
}

var unsafeInFile = regexp.MustCompile(`[^\p{L}\p{N}._-]+`)

func fileSafe(name string) string {
	safe := strings.Trim(unsafeInFile.ReplaceAllString(name, "_"), "._")
	if safe == "" {
		return "evaluation"
	}
	return safe
}

// largest are the sizes in bytes that files of ours in a folder may have; 0: any, because they
// are not read whole.
var largest = map[string]int64{
	sinkFile: 0, sinkFile + "-wal": 0, sinkFile + "-shm": 0, sinkFile + "-journal": 0, restFile: 0, eventsFile: 0, lockFile: 0,
	spentFile: 1 << 10, embedded.AddressFile: 4 << 10,
	resumeFile:          64 << 20, // the names of answers are in it
	resumeFile + ".new": 0,
}

// checkFiles refuses a folder in which a name of ours is a symbolic link, a device or a pipe, or
// a file that would fill the memory. A received folder would have files elsewhere read and
// written, or be read without end.
func checkFiles(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(largest)) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		switch most := largest[name]; {
		case err != nil: // it is not there, or the folder's own problem
		case !info.Mode().IsRegular():
			return usageError("%s is not a regular file: remove it, or choose another folder", path)
		case most > 0 && info.Size() > most:
			return usageError("%s is too large: it has %d bytes, and evalfleet writes at most %d; remove it, or choose another folder", path, info.Size(), most)
		}
	}
	return nil
}

// openFolder makes and locks an output folder.
func openFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, lock: flock.New(filepath.Join(dir, lockFile)), made: firstMissing(dir)}
	f.adding(lockFile)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.undo()
		return nil, withCode(folderCode(err), fmt.Errorf("output folder %s cannot be made: %w; choose another with --out-dir", dir, err))
	}
	if err := checkFiles(dir); err != nil {
		f.undo()
		return nil, err
	}
	held, err := f.lock.TryLock()
	switch {
	case err != nil:
		f.undo()
		return nil, withCode(folderCode(err), fmt.Errorf("output folder %s cannot be written: %w; choose another with --out-dir", dir, err))
	case !held:
		return nil, usageError("output folder %s is in use by another evalfleet; wait for it, look at it with `evalfleet status %s`, or choose another with --out-dir", dir, dir)
	}
	// Only now: until then another process may have been adding to it.
	f.adding(sinkFile, sinkFile+"-wal", sinkFile+"-shm", sinkFile+"-journal")
	return f, nil
}

// adding notes which of the names are not in the folder yet.
func (f *folder) adding(names ...string) {
	for _, name := range names {
		if _, err := os.Lstat(f.path(name)); errors.Is(err, fs.ErrNotExist) {
			f.added = append(f.added, name)
		}
	}
}

// firstMissing is the topmost part of a path that is not there yet, "" when all
// of it is.
func firstMissing(dir string) string {
	missing := ""
	for at := filepath.Clean(dir); at != missing; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = at
	}
	return missing
}

// undo takes away what openFolder and a results store that could not be made
// have left in the folder, and the folder itself where it is new. It is called
// while the lock is held.
func (f *folder) undo() {
	for _, name := range f.added {
		_ = os.Remove(f.path(name))
	}
	if f.made == "" {
		return
	}
	for at := filepath.Clean(f.dir); os.Remove(at) == nil && at != f.made; {
		at = filepath.Dir(at)
	}
}

// folderCode is the exit code for a folder that cannot be written: a full disk
// is mended by making room, anything else by another command line.
func folderCode(err error) exit {
	if outOfRoom(err) {
		return exitUnreachable
	}
	return exitUsage
}

// Close unlocks the folder. The lock's file stays: removed, it could be the one that another
// process has just locked.
func (f *folder) Close() error { return f.lock.Unlock() }

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// isFolder reports whether an argument names an output folder rather than an
// evaluation.
func isFolder(argument string) bool {
	info, err := os.Stat(argument)
	return err == nil && info.IsDir()
}
