package main

import (
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/view/plain"
)

const watchFlag = "watch"

const lookEvery = time.Second // on a terminal; otherwise plain.ReportEvery

func lookFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: watchFlag, Usage: "refresh until Ctrl-C: every second in place on a terminal, otherwise every 10 seconds"},
		&cli.BoolFlag{Name: jsonFlag, Usage: "print JSON; with --watch, one line per refresh"},
	}
}

// showFrames prints one frame. With --watch it prints one after the other until ctx ends or the last one was printed. If
// Redis or a results store is unreachable after the first frame, showFrames says so once and waits.
func (p *process) showFrames(c *cli.Context, look terminal.Frame) error {
	text, last, err := look(c.Context, time.Now())
	if err != nil {
		return err
	}
	if !c.Bool(watchFlag) || last {
		_, err := io.WriteString(p.stdout, text)
		return err
	}
	screen := &terminal.Screen{
		Out: p.stdout, Notices: p.stderr, Every: plain.ReportEvery,
		Passes: func(err error) bool { return codeOf(err) == exitUnreachable },
	}
	if file := terminal.Of(p.stdout); file != nil && !c.Bool(jsonFlag) {
		screen.Out, screen.Terminal, screen.Every = file, file, lookEvery
	}
	return screen.Watch(c.Context, text, look)
}
