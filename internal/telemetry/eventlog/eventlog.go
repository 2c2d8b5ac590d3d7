// Package eventlog appends the events of runs to a file, one JSON line each, or to a log.
package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/telemetry/lossy"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// How many bytes of events wait while their file blocks, and how long Close waits for it.
const (
	mostWaiting = 16 << 20
	lastEvents  = 5 * time.Second
)

// File appends events to a file, one JSON line each. A file that blocks, such as a pipe that is not
// read or a network disk that hangs, delays no run. Events that do not fit into a buffer are
// dropped, and Close reports their number.
type File struct {
	mu   sync.Mutex // guards all below
	file *os.File
	to   *lossy.Writer // writes the file
	made bool          // this process created it, and it is still empty
	err  error         // the first failure; later events are discarded
}

// Open opens a file to which several processes may append.
func Open(path string) (*File, error) {
	_, missing := os.Lstat(path)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	if err := endLine(file); err != nil {
		return nil, fmt.Errorf("open event log: %w", errors.Join(err, file.Close()))
	}
	l := &File{file: file, made: missing != nil}
	l.to = lossy.New(file, mostWaiting, func(int) []byte { return nil }) // Close reports dropped events
	return l, nil
}

// endLine ends the last line of a file if a process was killed while writing it. So the next event
// has a line of its own.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return err
	}
	written, err := os.Open(file.Name())
	if errors.Is(err, fs.ErrPermission) {
		return nil // it may be a file that can only be written
	}
	if err != nil {
		return err
	}
	defer written.Close()
	last := make([]byte, 1)
	if _, err := written.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.Write([]byte{'\n'})
	return err
}

// OpenOwn opens a file to which only this process appends. It writes the release of calls that were
// in flight when an earlier process was killed. So acquired minus released is always the number of
// calls in flight.
func OpenOwn(path string) (*File, error) {
	l, err := Open(path)
	if err != nil {
		return nil, err
	}
	if err := l.releaseLost(); err != nil {
		return nil, fmt.Errorf("read event log: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// acquiredCall identifies a call in its events: a worker makes one at a time for a run.
type acquiredCall struct{ run, dimension, worker string }

// mostAcquired bounds the calls in flight in an event log, because they are kept in memory and the
// log may come from another person.
const mostAcquired = 50_000

// releaseLost writes the missing releases.
func (l *File) releaseLost() error {
	written, err := os.Open(l.file.Name())
	if err != nil {
		return err
	}
	defer written.Close()
	acquired := map[acquiredCall]observe.Event{}
	lines := bufio.NewReaderSize(written, 1<<16)
	for cut := false; ; { // inside a line that is too long to be one of these events
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		long := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !long {
			return err
		}
		if long || cut {
			cut = long
			continue
		}
		if !bytes.Contains(line, []byte(`"acquired"`)) && !bytes.Contains(line, []byte(`"released"`)) {
			continue
		}
		var e observe.Event
		if json.Unmarshal(line, &e) != nil {
			continue // cut off
		}
		call := acquiredCall{string(e.Evaluation) + " " + e.RunID, e.Dimension, e.Worker}
		switch e.Event {
		case observe.EventAcquired:
			if acquired[call] = e; len(acquired) > mostAcquired {
				return fmt.Errorf("%s has more than %d calls in flight: remove it", l.file.Name(), mostAcquired)
			}
		case observe.EventReleased:
			delete(acquired, call)
		}
	}

	lost := slices.SortedFunc(maps.Values(acquired), func(a, b observe.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range lost {
		e.Event, e.Time, e.ActiveSlots, e.Message = observe.EventReleased, time.Now().UTC(), nil, "the process that made the call was killed"
		l.Write(e)
	}

	return l.err
}

// Write appends an event.
func (l *File) Write(e observe.Event) {
	line, err := json.Marshal(e)
	if !l.begin() {
		return
	}
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	if err != nil {
		l.fail(err)
	}
}

// begin reports whether another event may be written.
func (l *File) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = false
	return l.err == nil
}

func (l *File) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// Close reports the first event that could not be written, or how many were dropped. It removes a
// file that it has created and that is still empty.
func (l *File) Close() error {
	dropped, err := l.to.Close(lastEvents)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && err == nil && dropped > 0 {
		err = fmt.Errorf("%s took no more events: %d were dropped; have it read, or choose a file on a disk", l.file.Name(), dropped)
	}
	if l.err == nil {
		l.err = err
	}
	if dropped > 0 { // a write may be under way, and closing would wait for it
		return l.err
	}
	err = errors.Join(l.err, l.file.Close())
	if l.made {
		err = errors.Join(err, os.Remove(l.file.Name()))
	}
	return err
}
