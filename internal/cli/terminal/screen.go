package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Frame returns one view of something that changes. last says that there is nothing more to watch.
type Frame func(ctx context.Context, now time.Time) (text string, last bool, err error)

// Screen shows frames: in place on a terminal, elsewhere one after the other.
type Screen struct {
	Out      io.Writer
	Notices  io.Writer // for failures, if there is no terminal
	Terminal *os.File  // nil: there is none
	Every    time.Duration
	Passes   func(error) bool // reports whether a failed frame may succeed again without action
}

const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // alternate screen, without a cursor
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	screenRest  = "\x1b[J" // clears the lines below
	lineRest    = "\x1b[K" // clears the rest of the line
)

// Watch shows the frame text and those that follow, until ctx ends or the last frame was shown. The last one stays on
// the terminal. A failure that Passes accepts is shown once, and Watch continues.
func (s *Screen) Watch(ctx context.Context, text string, look Frame) (err error) {
	if s.Terminal != nil {
		if _, err := io.WriteString(s.Out, screenEnter); err != nil {
			return err
		}
		defer func() {
			_, leaving := io.WriteString(s.Out, screenLeave+harmless.Text(text))
			err = errors.Join(err, leaving)
		}()
	}

	ticker := time.NewTicker(s.Every)
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
		case !s.Passes(err):
			return err
		case notice == "" && s.Terminal == nil:
			fmt.Fprintf(s.Notices, "evalfleet: %v; waiting for it\n", err)
			fallthrough
		default:
			notice = err.Error() + "; waiting for it"
		}
		if last && err == nil {
			if s.Terminal == nil {
				return s.show(text, notice)
			}
			return nil
		}
	}
}

// show draws a frame over the previous one, or prints it if there is no terminal. With a notice, the frame is not the
// current one.
func (s *Screen) show(text, notice string) error {
	if s.Terminal == nil {
		if notice != "" {
			return nil
		}
		_, err := io.WriteString(s.Out, text)
		return err
	}
	columns, rows, err := term.GetSize(int(s.Terminal.Fd()))
	if err != nil || columns < 1 || rows < 2 {
		columns, rows = unknownWidth, 24
	}
	_, err = io.WriteString(s.Out, drawn(text, notice, columns, rows))
	return err
}

// drawn returns a frame as text for a terminal of that size. No line wraps, and the terminal does not scroll.
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
