// Package lossy writes lines to a file or pipe that may block, without making the rest of the
// program wait for it. What does not fit into a bounded buffer is dropped and counted.
//
// While the destination accepts lines, nothing is buffered: a write returns when its line is
// written. So lines keep their order among other output, and the last ones survive a crash.
// zerolog's diode, in contrast, returns at once, bounds lines instead of bytes, and waits forever
// when it is closed.
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

// chunk is how many bytes are written at once, so that even a slow destination frees room.
const chunk = 64 << 10

// Writer writes through a buffer of a bounded size. It is safe for concurrent use.
type Writer struct {
	to   io.Writer
	most int
	lost func(lines int) []byte

	mu      sync.Mutex // guards all below
	buffer  []byte
	added   int64         // bytes that were put into the buffer
	written int64         // bytes of those that were written, or failed
	told    chan struct{} // closed when written changes
	stuck   bool          // the destination has blocked for longer than patience
	dropped int           // lines dropped since the last one that was written
	total   int           // lines dropped so far
	err     error         // the first failure
	closed  bool
	work    chan struct{} // has a buffer of one; the buffer has something, or the writer is closed
	ended   chan struct{}
}

// New returns a writer with a buffer of most bytes. lost returns the line that says how many lines
// were dropped, once the destination accepts lines again. Close must be called.
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

// SetLost changes the function that returns the line about dropped lines.
func (w *Writer) SetLost(lost func(lines int) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}

// Write writes p, or keeps it in the buffer if the destination is stuck, or drops it if the buffer
// is full. It returns an error only if the destination failed.
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

// await waits until everything up to a position is written, or the destination counts as stuck.
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

// run writes the buffer's contents until the writer is closed and the buffer empty.
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

// step writes the beginning of the buffer, or, once all of it is written, how much was dropped. It
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

// Close writes what is left, for at most within. It returns how many lines were dropped in all and
// the first failure of the destination. If the destination blocks, the writer's goroutine remains.
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
