package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/evalfleet/evalfleet/worker"
)

// eventLog appends events to a file, one JSON line each.
type eventLog struct {
	mu   sync.Mutex // keeps lines apart
	file *os.File
	made bool  // and nothing is in it yet
	err  error // the first failure; later events are not tried
}

func openEvents(path string) (*eventLog, error) {
	_, missing := os.Lstat(path)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	return &eventLog{file: file, made: missing != nil}, nil
}

func (l *eventLog) write(e worker.Event) {
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
		l.made = false
	}
	l.err = err
}

// Close reports the first event that could not be written. A file that was made
// for nothing goes.
func (l *eventLog) Close() error {
	err := errors.Join(l.err, l.file.Close())
	if l.made {
		err = errors.Join(err, os.Remove(l.file.Name()))
	}
	return err
}
