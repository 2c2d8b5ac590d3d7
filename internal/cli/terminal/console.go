// Package terminal writes to a terminal, or to what replaces it: permanent lines above one that is redrawn, and log
// lines. It makes text from others safe to print. It does not decide what is written.
package terminal

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/evalfleet/evalfleet/internal/telemetry/lossy"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Console shares stderr between permanent lines, such as logs, and one line at the bottom that is redrawn, such as
// progress. It makes its input safe to print. Logs, which have colours, go to the writer returned by Raw.
type Console struct {
	io.Writer
	raw *shared
}

// New returns a console on a writer. If the writer is Messages, lines are still written as messages.
func New(out io.Writer) *Console {
	messages, logged := out.(*Messages)
	out = Raw(out)
	raw := &shared{out: out, terminal: Of(out) != nil}
	if logged {
		return &Console{messages, raw}
	}
	return &Console{folding(harmless.NewWriter(raw), Of(out)), raw}
}

// mostWaiting is how much output is buffered while standard error accepts none, and lastOutput how long a command
// waits for it at its end.
const (
	mostWaiting = 1 << 20 // bytes
	lastOutput  = time.Second
)

// Unblocked returns a writer to standard error that never delays the program. Standard error may accept nothing
// because a full pipe is not read, or a terminal was stopped with Ctrl-S. Lines that do not fit in the buffer are
// dropped. Their number is reported, as a message or in a JSON log, once standard error accepts lines again. Call end
// before the process ends.
func Unblocked(stderr io.Writer) (out *lossy.Writer, end func()) {
	out = lossy.New(stderr, mostWaiting, func(n int) []byte { return []byte("evalfleet: " + lostLines(n) + "\n") })
	return out, func() { _, _ = out.Close(lastOutput) }
}

func lostLines(n int) string {
	return wording.Counted(n, "line") + " of this log were dropped because standard error was not read"
}

// Stderr returns a writer for messages to standard error. It makes them safe to print and, on a terminal, wraps them
// between words.
func Stderr(out io.Writer) io.Writer { return folding(harmless.NewWriter(out), Of(out)) }

// folding returns a writer that wraps the lines of messages on a terminal; without one (nil) it returns to.
func folding(to *harmless.Writer, terminal *os.File) io.Writer {
	if terminal == nil {
		return to
	}
	return folded{to, terminal}
}

// folded wraps messages at the current width of its terminal. A prompt, which ends without a line feed, is not
// changed.
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

// Report writes a line. In a JSON log, the line has facts as its fields, for programs that follow the command.
func (c *Console) Report(line string, facts map[string]any) {
	if messages, logged := c.Writer.(*Messages); logged {
		messages.report(line, facts)
		return
	}
	_, _ = io.WriteString(c, line+"\n")
}

// Raw returns the writer for logs.
func (c *Console) Raw() io.Writer { return c.raw }

// Raw returns the writer under one that makes its input safe to print, for our own escape sequences. It returns any
// other writer unchanged.
func Raw(out io.Writer) io.Writer {
	if safe, ok := out.(interface{ Raw() io.Writer }); ok {
		return safe.Raw()
	}
	return out
}

// Of returns the terminal that a writer writes to; nil if it is none.
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

// IsTerminal reports whether the console writes to a terminal.
func (c *Console) IsTerminal() bool { return c.raw.terminal }

// shared is the writer under a console.
type shared struct {
	out      io.Writer
	terminal bool

	mu   sync.Mutex // guards foot, and keeps writes from interleaving
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

// SetFoot redraws the foot; an empty line removes it. Without a terminal it does nothing.
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

// unknownWidth is the assumed width, in columns, of a terminal that does not report it.
const unknownWidth = 100

// Width returns the number of columns of the terminal; 100 if unknown.
func (c *Console) Width() int {
	if file := Of(c); file != nil {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return unknownWidth
}
