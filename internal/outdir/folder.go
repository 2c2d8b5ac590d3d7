// Package outdir manages output folders: the files of one evaluation that was run, collected or
// submitted on this machine. One process at a time holds a folder. The folder has what `evalfleet
// resume` needs, events, and the results store, unless another is named. It also has what a run
// with a Redis of its own has spent or could not store.
//
// A folder may come from another person. So the package refuses known names that are links, devices
// or too large, and an Owner tells which folders runs of this user have written. The package
// executes nothing and knows neither flags nor Redis.
package outdir

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
	"github.com/evalfleet/evalfleet/internal/failure"
	"github.com/evalfleet/evalfleet/internal/redisx/embedded"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Names of files in an output folder, and of the folder that contains the default ones.
const (
	Root        = "evalfleet-out"
	ResultsFile = "results.db"
	RestFile    = "results.rest"
	SpentFile   = "budget.spent"
	BegunFile   = "calls.begun"
	EventsFile  = "events.jsonl"
	ReportName  = "report" // of files in any format
	ReportFile  = ReportName + "." + HTML
	lockFile    = ".lock"
)

// Folder is an output folder, held by one process at a time.
type Folder struct {
	dir  string
	lock *flock.Flock
	// added holds what did not exist before: names in the folder, and the topmost folder that was
	// created for it.
	added []string
	made  string
}

// Default returns the folder for an evaluation's files if none is given. It shortens a name that is
// too long for a folder in its middle.
func Default(name string, id eval.ID) string {
	return filepath.Join(Root, eval.FileName(fileSafe(name)+"-"+fileSafe(string(id))))
}

var unsafeInFile = regexp.MustCompile(`[^\p{L}\p{N}._-]+`)

func fileSafe(name string) string {
	safe := strings.Trim(unsafeInFile.ReplaceAllString(name, "_"), "._")
	if safe == "" {
		return "evaluation"
	}
	return safe
}

// largest maps the names of files in a folder to the most bytes that they may have; 0: any, because
// they are not read whole.
var largest = map[string]int64{
	ResultsFile: 0, ResultsFile + "-wal": 0, ResultsFile + "-shm": 0, ResultsFile + "-journal": 0, RestFile: 0, EventsFile: 0, lockFile: 0,
	SpentFile: 1 << 10, BegunFile: 256 << 20, embedded.AddressFile: 4 << 10,
	ResumeFile:          64 << 20, // it contains the names of answers
	ResumeFile + ".new": 0,
}

// Check rejects a folder in which a known name is a symbolic link, a device or a pipe, or a file
// too large for memory. With such names, a received folder could have files elsewhere read and
// written, or be read without end.
func Check(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(largest)) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		switch most := largest[name]; {
		case err != nil: // it does not exist, or the folder itself has a problem
		case !info.Mode().IsRegular():
			return failure.Usagef("%s is not a regular file: remove it, or choose another folder", path)
		case most > 0 && info.Size() > most:
			return failure.Usagef(
				"%s is too large: it has %d bytes, and evalfleet writes at most %d; remove it, or choose another folder", path,
				info.Size(), most,
			)
		}
	}
	return nil
}

// OpenError means that an output folder cannot be opened, but another folder may work.
type OpenError struct{ err error }

func (e *OpenError) Error() string { return e.err.Error() }
func (e *OpenError) Unwrap() error { return e.err }

// ErrInUse means that another process has locked the output folder.
var ErrInUse = errors.New("in use by another evalfleet")

// Open creates and locks an output folder. The error is an *OpenError, which is ErrInUse if another
// process has locked the folder. It is another error if Check rejects the folder.
func Open(dir string) (*Folder, error) {
	f := &Folder{dir: dir, lock: flock.New(filepath.Join(dir, lockFile)), made: firstMissing(dir)}
	f.adding(lockFile)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Undo()
		return nil, Failed(&OpenError{fmt.Errorf("cannot create output folder %s: %w", dir, err)})
	}
	if err := Check(dir); err != nil {
		f.Undo()
		return nil, err
	}
	held, err := f.lock.TryLock()
	switch {
	case err != nil:
		f.Undo()
		return nil, Failed(&OpenError{fmt.Errorf("cannot write to output folder %s: %w", dir, err)})
	case !held:
		return nil, failure.With(
			failure.Usage,
			&OpenError{fmt.Errorf("output folder %s is %w; wait for it, or look at it with `evalfleet status %s`", dir, ErrInUse, dir)},
		)
	}
	// Only now: until the folder was locked, another process may have been adding to it.
	f.adding(ResultsFile, ResultsFile+"-wal", ResultsFile+"-shm", ResultsFile+"-journal")

	return f, nil
}

// adding notes which of the names are not in the folder yet.
func (f *Folder) adding(names ...string) {
	for _, name := range names {
		if _, err := os.Lstat(f.Path(name)); errors.Is(err, fs.ErrNotExist) {
			f.added = append(f.added, name)
		}
	}
}

// firstMissing returns the topmost part of a path that does not exist; "" if all of it does.
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

// Undo removes what Open, and a results store that could not be created, have left in the folder.
// It removes the folder itself if it is new. Call it while the lock is held.
func (f *Folder) Undo() {
	for _, name := range f.added {
		_ = os.Remove(f.Path(name))
	}
	if f.made == "" {
		return
	}
	for at := filepath.Clean(f.dir); os.Remove(at) == nil && at != f.made; {
		at = filepath.Dir(at)
	}
}

// Failed gives the error for a folder that cannot be written its exit code: a full disk needs room,
// anything else another command line.
func Failed(err error) error {
	if results.OutOfRoom(err) {
		return failure.With(failure.Unavailable, err)
	}
	return failure.With(failure.Usage, err)
}

// Close unlocks the folder. It does not remove the lock file, because another process may have just
// locked it.
func (f *Folder) Close() error { return f.lock.Unlock() }

// Path returns the path of a file in the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name) }

// Is reports whether an argument names an output folder, and not an evaluation.
func Is(argument string) bool {
	info, err := os.Stat(argument)
	return err == nil && info.IsDir()
}

// Inside returns the output folders in a folder, if it is not an output folder itself. An example is Root.
func Inside(dir string) []string {
	var folders []string
	for _, name := range []string{ResultsFile, ResumeFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
		found, _ := filepath.Glob(filepath.Join(escaped(dir), "*", name))
		for _, path := range found {
			folders = append(folders, filepath.Dir(path))
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// escaped returns a path as a pattern that matches it alone.
func escaped(path string) string {
	return regexp.MustCompile(`[*?\[\]]`).ReplaceAllString(path, "[$0]")
}

// Nearest returns the end of a message that suggests the output folder that the user may have
// meant.
func Nearest(argument string) string {
	stores, _ := filepath.Glob(filepath.Join(Root, "*", ResultsFile))
	folders := make([]string, len(stores))
	for i, store := range stores {
		folders[i] = filepath.Dir(store)
	}
	if near := wording.Nearest(argument, folders); near != "" {
		return "; did you mean " + near + "?"
	}
	newest := ""
	var at int64
	for _, store := range stores {
		if info, err := os.Stat(store); err == nil && info.ModTime().UnixNano() > at {
			newest, at = filepath.Dir(store), info.ModTime().UnixNano()
		}
	}
	if newest != "" {
		return "; the newest here is " + newest
	}
	return ""
}

// InUse reports whether a process holds an output folder.
func InUse(dir string) bool {
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	out, err := Open(dir)
	if err != nil {
		return true
	}
	_ = out.Close()
	return false
}
