package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/terminal"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/view/plain"
)

const watchFlag = "watch"

const lookEvery = time.Second // on a terminal; elsewhere plain.ReportEvery

// lookFlags are those of the commands that look in.
func lookFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: watchFlag, Usage: "refresh until Ctrl-C: every second in place on a terminal, otherwise every 10 seconds"},
		&cli.BoolFlag{Name: jsonFlag, Usage: "print JSON; with --watch, one line per refresh"},
	}
}

// frame is one look at something. last: there is nothing more to watch.
type frame func(ctx context.Context, now time.Time) (text string, last bool, err error)

// look prints one frame, or with --watch one after the other until ctx ends or
// the last one was printed. Redis or a results store that is away after the first frame is
// said once and waited for.
func (p *process) look(c *cli.Context, look frame) error {
	text, last, err := look(c.Context, time.Now())
	if err != nil {
		return err
	}
	if !c.Bool(watchFlag) || last {
		_, err := io.WriteString(p.stdout, text)
		return err
	}
	screen := &screen{out: p.stdout, notices: p.stderr, every: plain.ReportEvery}
	if file := terminal.Of(p.stdout); file != nil && !c.Bool(jsonFlag) {
		screen.out, screen.terminal, screen.every = file, file, lookEvery
	}
	return screen.watch(c.Context, text, look)
}

// screen shows frames.
type screen struct {
	out      io.Writer
	notices  io.Writer // where there is no terminal
	terminal *os.File  // nil: there is none
	every    time.Duration
}

const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	screenRest  = "\x1b[J" // clears the lines below
	lineRest    = "\x1b[K" // clears the rest of the line
)

// watch shows the first frame and those that follow. Its last frame stays on the
// terminal.
func (s *screen) watch(ctx context.Context, text string, look frame) (err error) {
	if s.terminal != nil {
		if _, err := io.WriteString(s.out, screenEnter); err != nil {
			return err
		}
		defer func() {
			_, leaving := io.WriteString(s.out, screenLeave+harmless.Text(text))
			err = errors.Join(err, leaving)
		}()
	}
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	notice := ""
	for {
		if err := s.show(text, notice); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		next, last, err := look(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			text, notice = next, ""
		case codeOf(err) != exitUnreachable:
			return err
		case notice == "" && s.terminal == nil:
			fmt.Fprintf(s.notices, "evalfleet: %v; waiting for it\n", err)
			fallthrough
		default:
			notice = err.Error() + "; waiting for it"
		}
		if last && err == nil {
			if s.terminal == nil {
				return s.show(text, notice)
			}
			return nil
		}
	}
}

// show draws a frame over the one before, or prints it where nothing can be
// drawn. With a notice the frame is an old one.
func (s *screen) show(text, notice string) error {
	if s.terminal == nil {
		if notice != "" {
			return nil
		}
		_, err := io.WriteString(s.out, text)
		return err
	}
	columns, rows, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil || columns < 1 || rows < 2 {
		columns, rows = plain.Width, 24
	}
	_, err = io.WriteString(s.out, drawn(text, notice, columns, rows))
	return err
}

// drawn is a frame as a terminal of so many columns and rows takes it: no line
// wraps, and it does not scroll.
func drawn(text, notice string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if notice != "" {
		lines = append([]string{notice}, lines...)
	}
	if len(lines) > rows {
		hidden := len(lines) - rows + 1
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", hidden))
	}
	var out strings.Builder
	out.WriteString(screenHome)
	for i, line := range lines {
		if i > 0 {
			out.WriteString("\r\n")
		}
		out.WriteString(wording.Columns.Truncate(harmless.Line(line), columns, "…") + lineRest)
	}
	return out.String() + screenRest
}
