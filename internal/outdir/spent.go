package outdir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Spent stores in an output folder how much a run with its own Redis has spent of its budget and
// reserved. It writes the amount before each call is sent: calls in flight when a run is killed may
// have been charged, and are in no results store.
type Spent struct {
	mu   sync.Mutex // guards the rest
	file *os.File
	id   eval.ID
	nano int64
	err  error // the first failure
}

// OpenSpent opens the file at path. The evaluation has spent recorded nano-USD by its results
// store, or more by the file of an earlier run.
func OpenSpent(path string, id eval.ID, recorded int64) (*Spent, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open what was spent: %w", err)
	}
	l := &Spent{file: file, id: id, nano: recorded}
	text, err := io.ReadAll(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read what was spent: %w", err)
	}
	var of string
	var before int64
	if n, _ := fmt.Sscanf(string(text), "%s %d", &of, &before); n == 2 && of == string(id) {
		l.nano = max(l.nano, before)
	}
	l.Note(observe.Spending{})
	return l, l.err
}

// Note writes the amount spent and reserved now. The line survives the process and keeps its
// length, so that a full disk has room for it.
func (l *Spent) Note(s observe.Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nano += s.Nano
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%s %020d\n", l.id, l.nano), 0)
	if l.err == nil {
		l.err = err
	}
}

// Nano returns the amount spent and reserved, in nano-USD.
func (l *Spent) Nano() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nano
}

// Close closes the file and returns the first error of writing.
func (l *Spent) Close() error { return errors.Join(l.err, l.file.Close()) }
