package lossy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func lostLines(n int) []byte { return fmt.Appendf(nil, "%d lines lost\n", n) }

func openPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close(); _ = write.Close() })
	return read, write
}

// A pipe that is not read delays no writer for long. When it is read, its lines come in order,
// and the last says how many are missing.
func TestPipeThatNoOneReads(t *testing.T) {
	t.Parallel()
	read, write := openPipe(t)
	w := New(write, 256<<10, lostLines)
	const lines, writers = 2000, 8 // of 500 bytes: more than pipe and buffer take together
	var all sync.WaitGroup
	for of := range writers {
		all.Go(func() {
			for i := range lines / writers {
				fmt.Fprintf(w, "%d %d %s\n", of, i, strings.Repeat("x", 500))
			}
		})
	}
	all.Wait() // hangs where a write waits for the reader
	closed := make(chan int, 1)
	go func() {
		dropped, _ := w.Close(time.Minute)
		closed <- dropped
		_ = write.Close()
	}()

	got, next, lost := 0, [writers]int{}, 0
	reader := bufio.NewScanner(read)
	for reader.Scan() {
		var of, i int
		if strings.HasSuffix(reader.Text(), "lines lost") {
			if _, err := fmt.Sscanf(reader.Text(), "%d", &lost); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := fmt.Sscanf(reader.Text(), "%d %d ", &of, &i); err != nil || i < next[of] {
			t.Fatalf("line %q: %v, want one after %d", reader.Text(), err, next[of])
		}
		next[of] = i + 1
		got++
	}
	if lost == 0 || got+lost != lines {
		t.Errorf("%d lines were written and %d said to be lost, want %d together and some lost", got, lost, lines)
	}
	if dropped := <-closed; dropped != lost {
		t.Errorf("Close: got %d lines dropped, want %d", dropped, lost)
	}
}

// While the destination takes lines, each is there when its write returns.
func TestLinesAreWrittenWhenTheWriteReturns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var mu sync.Mutex
	w := New(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), 1<<20, lostLines)
	for i := range 100 {
		fmt.Fprintf(w, "%d\n", i)
		mu.Lock()
		if !strings.HasSuffix(out.String(), fmt.Sprintf("%d\n", i)) && !w.isStuck() {
			t.Fatalf("line %d is not there when its write has returned", i)
		}
		mu.Unlock()
	}
	if dropped, err := w.Close(time.Minute); dropped != 0 || err != nil {
		t.Errorf("Close: %d lines dropped, %v", dropped, err)
	}
}

// Close has a bound while the destination takes nothing, and reports its failure.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	read, write := openPipe(t)
	w := New(write, 1<<20, lostLines)
	fmt.Fprintln(w, strings.Repeat("x", 200<<10))
	if dropped, err := w.Close(time.Millisecond); dropped != 1 || err != nil {
		t.Errorf("Close: got %d lines dropped, %v; want 1", dropped, err)
	}
	_ = read.Close() // ends the goroutine
	testrun.Eventually(t, "the writer ends", func() bool {
		select {
		case <-w.ended:
			return true
		default:
			return false
		}
	})

	gone := errors.New("gone")
	w = New(writerFunc(func([]byte) (int, error) { return 0, gone }), 1<<20, lostLines)
	fmt.Fprintln(w, "x")
	if _, err := w.Close(time.Minute); !errors.Is(err, gone) {
		t.Errorf("Close: got %v, want the failure of the destination", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var _ io.Writer = writerFunc(nil)

func (w *Writer) isStuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck
}
