package main

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// console shares stderr between lines that stay, such as logs, and one line at
// its foot that is drawn over again and again, such as progress.
type console struct {
	out      io.Writer
	terminal bool

	mu   sync.Mutex // guards foot, and keeps writes apart
	foot string
}

func newConsole(out io.Writer) *console {
	file, ok := out.(*os.File)
	return &console{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

const clearLine = "\r\x1b[K"

// Write writes above the foot.
func (c *console) Write(p []byte) (int, error) {
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

// setFoot draws the foot anew; an empty one takes it away. Without a terminal
// it does nothing.
func (c *console) setFoot(line string) {
	if !c.terminal {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == c.foot {
		return
	}
	c.foot = line
	_, _ = io.WriteString(c.out, clearLine+line)
}

// width is the number of columns of the terminal, 100 when nobody knows.
func (c *console) width() int {
	if file, ok := c.out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 100
}
