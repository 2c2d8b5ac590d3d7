// Package terminal writes to a person's terminal, or to whatever is in its place: lines above one
// that is redrawn, and log lines. What others wrote is made harmless on its way. The package
// decides nothing about what is said.
package terminal

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/lines"
	"github.com/evalfleet/evalfleet/internal/lossy"
	"github.com/evalfleet/evalfleet/internal/wording"
)

// Console shares stderr between permanent lines, such as logs, and one line at its foot that is
// redrawn, such as progress. Its input is made harmless; logs, which have colours, go to its
// raw side.
type Console struct {
	io.Writer
	raw *shared
}

// New returns a console on a writer. On Messages its lines stay messages.
func New(out io.Writer) *Console {
	messages, logged := out.(*Messages)
	out = Raw(out)
	raw := &shared{out: out, terminal: Of(out) != nil}
	if logged {
		return &Console{messages, raw}
	}
	return &Console{folding(harmless.NewWriter(raw), Of(out)), raw}
}

// How much output waits while standard error takes none, and how long the end of a command may wait
// for it.
const (
	mostWaiting = 1 << 20 // bytes
	lastOutput  = time.Second
)

// Unblocked returns a writer to standard error that delays no other part of the program while
// standard error takes nothing: a full pipe that is not read, or a terminal after Ctrl-S. Lines that do not
// fit are dropped, and their number is said, as a message or in a JSON log, when it takes lines
// again. end must be called before the process ends.
func Unblocked(stderr io.Writer) (out *lossy.Writer, end func()) {
	out = lossy.New(stderr, mostWaiting, func(n int) []byte { return []byte("evalfleet: " + lostLines(n) + "\n") })
	return out, func() { _, _ = out.Close(lastOutput) }
}

func lostLines(n int) string {
	return wording.Counted(n, "line") + " of this log were dropped because standard error was not read"
}

// Stderr is standard error as messages are written to it: they are made harmless, and broken
// between words on a terminal.
func Stderr(out io.Writer) io.Writer { return folding(harmless.NewWriter(out), Of(out)) }

// folding breaks the lines of messages to a terminal; nil: it is none.
func folding(to *harmless.Writer, terminal *os.File) io.Writer {
	if terminal == nil {
		return to
	}
	return folded{to, terminal}
}

// folded breaks messages for its terminal's width at the moment. A prompt, which ends without a
// line feed, is passed on as it is.
type folded struct {
	*harmless.Writer
	terminal *os.File
}

func (f folded) Write(p []byte) (int, error) {
	columns, _, err := term.GetSize(int(f.terminal.Fd()))
	if err != nil || columns <= 0 {
		return f.Writer.Write(p)
	}
	whole := bytes.LastIndexByte(p, '\n') + 1
	if _, err := f.Writer.Write(append([]byte(lines.Message(string(p[:whole]), columns)), p[whole:]...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw is the side that takes logs.
func (c *Console) Raw() io.Writer { return c.raw }

// Raw is where escape sequences of our own go, of a writer that lets none pass.
func Raw(out io.Writer) io.Writer {
	if safe, ok := out.(interface{ Raw() io.Writer }); ok {
		return safe.Raw()
	}
	return out
}

// Of is the terminal that a writer writes to; nil: none.
func Of(out io.Writer) *os.File {
	if c, ok := out.(*Console); ok {
		out = c.raw.out
	}
	out = Raw(out)
	if buffered, ok := out.(*lossy.Writer); ok {
		out = buffered.To()
	}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// IsTerminal reports whether the console is on a terminal.
func (c *Console) IsTerminal() bool { return c.raw.terminal }

// shared is what a console writes to.
type shared struct {
	out      io.Writer
	terminal bool

	mu   sync.Mutex // guards foot, and keeps writes apart
	foot string
}

const clearLine = "\r\x1b[K"

// Write writes above the foot.
func (c *shared) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foot == "" {
		return c.out.Write(p)
	}
	if _, err := io.WriteString(c.out, clearLine); err != nil {
		return 0, err
	}
	n, err := c.out.Write(p)
	if err == nil {
		_, err = io.WriteString(c.out, c.foot)
	}
	return n, err
}

// SetFoot redraws the foot; an empty one removes it. Without a terminal it does nothing.
func (c *Console) SetFoot(line string) {
	if c.IsTerminal() {
		c.raw.setFoot(harmless.Line(line))
	}
}

func (c *shared) setFoot(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == c.foot {
		return
	}
	c.foot = line
	_, _ = io.WriteString(c.out, clearLine+line)
}

// unknownWidth is taken for that of a terminal which does not tell it, in columns.
const unknownWidth = 100

// Width is the number of columns of the terminal, 100 if unknown.
func (c *Console) Width() int {
	if file := Of(c); file != nil {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return unknownWidth
}
