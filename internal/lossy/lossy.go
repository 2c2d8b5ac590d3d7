// Package lossy writes lines to a file or pipe that may not take them, without making the rest of
// the program wait for it: what does not fit into a bounded buffer is dropped, and counted.
//
// While the destination takes lines, nothing is buffered: a write returns when its line is
// written, so that lines keep their order among other output, and the last ones survive a crash.
// zerolog's diode returns at once, bounds lines instead of bytes, and waits without end when it is
// closed.
package lossy

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// patience is how long a write waits for its line to be written, before the destination counts
// as stuck.
const patience = 100 * time.Millisecond

// chunk is how much is written at once, so that a slow destination frees room while it reads.
const chunk = 64 << 10

// Writer writes through a buffer of a bounded size. It is safe for concurrent use.
type Writer struct {
	to   io.Writer
	most int
	lost func(lines int) []byte

	mu      sync.Mutex // guards all below
	buffer  []byte
	added   int64         // bytes that were put into the buffer
	written int64         // of them, those that were written or could not be
	told    chan struct{} // closed when written changes
	stuck   bool          // the destination has not taken everything for longer than patience
	dropped int           // lines, since the last that was written
	total   int           // lines dropped so far
	err     error         // the first failure
	closed  bool
	work    chan struct{} // holds one: the buffer has something, or the writer is closed
	ended   chan struct{}
}

// New returns a writer with a buffer of most bytes. lost makes the line that says how many lines
// were dropped, when the destination takes lines again. Close must be called.
func New(to io.Writer, most int, lost func(lines int) []byte) *Writer {
	w := &Writer{
		to:    to,
		most:  most,
		lost:  lost,
		told:  make(chan struct{}),
		work:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	go w.run()
	return w
}

// To returns the destination.
func (w *Writer) To() io.Writer { return w.to }

// SetLost changes the line that says how many lines were dropped.
func (w *Writer) SetLost(lost func(lines int) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}

// Write writes p, or keeps it in the buffer if the destination is stuck, or drops it if the
// buffer is full. Its error is one of the destination.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.closed || len(w.buffer)+len(p) > w.most {
		n := max(1, bytes.Count(p, []byte("\n")))
		w.dropped += n
		w.total += n
		w.mu.Unlock()
		return len(p), nil
	}
	w.buffer = append(w.buffer, p...)
	w.added += int64(len(p))
	end, stuck := w.added, w.stuck
	w.mu.Unlock()
	w.wake()

	if stuck {
		return len(p), nil
	}
	return len(p), w.await(end)
}

// await waits until everything up to a place is written, or the destination counts as stuck.
func (w *Writer) await(end int64) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		w.mu.Lock()
		done, told, err := w.written >= end || w.stuck, w.told, w.err
		w.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-told:
		case <-timer.C:
			w.mu.Lock()
			w.stuck = w.written < end
			w.mu.Unlock()
		}
	}
}

func (w *Writer) wake() {
	select {
	case w.work <- struct{}{}:
	default:
	}
}

// run writes what is in the buffer until the writer is closed and the buffer empty.
func (w *Writer) run() {
	defer close(w.ended)
	for range w.work {
		for w.step() {
		}
		w.mu.Lock()
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return
		}
	}
}

// step writes the beginning of the buffer, or how much was dropped once all of it is written. It
// reports whether there was anything to write.
func (w *Writer) step() bool {
	w.mu.Lock()
	next := bytes.Clone(w.buffer[:min(len(w.buffer), chunk)])
	counts := len(next)
	if counts == 0 && w.dropped > 0 {
		next, w.dropped = w.lost(w.dropped), 0
	}
	w.mu.Unlock()
	if len(next) == 0 {
		return false
	}

	_, err := w.to.Write(next)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffer = append(w.buffer[:0], w.buffer[counts:]...)
	w.written += int64(counts)
	if len(w.buffer) == 0 {
		w.stuck = false
	}
	if w.err == nil {
		w.err = err
	}
	close(w.told)
	w.told = make(chan struct{})
	return true
}

// Close writes what is left, for at most so long, and returns how many lines were dropped in all
// and the first failure of the destination. A destination that takes nothing keeps the writer's
// goroutine.
func (w *Writer) Close(within time.Duration) (dropped int, err error) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wake()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total + bytes.Count(w.buffer, []byte("\n")), w.err
}
