package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Interactive reports whether a person can answer questions on stdin.
func Interactive(stdin io.Reader) bool {
	keyboard, ok := stdin.(*os.File)
	return ok && term.IsTerminal(int(keyboard.Fd()))
}

// Confirm asks a yes-or-no question on a terminal. asked is false if stdin is not a terminal. err is the error of ctx
// if it ended before the answer.
func Confirm(ctx context.Context, stdin io.Reader, console io.Writer, question string) (yes, asked bool, err error) {
	if !Interactive(stdin) {
		return false, false, nil
	}
	fmt.Fprint(console, question+" [y/N] ")
	answered := make(chan string, 1)
	go func() { // Ctrl-C leaves it behind: reading from a terminal cannot be interrupted
		line, err := bufio.NewReader(stdin).ReadString('\n')
		if err != nil {
			line = ""
		}
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		return answer == "y" || answer == "yes", true, nil
	case <-ctx.Done():
		fmt.Fprintln(console)
		return false, true, ctx.Err()
	}
}
