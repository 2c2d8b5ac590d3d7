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

// Confirm asks a question on a terminal. asked is false where stdin is none. The error
// is that of a context that ended before the answer came.
func Confirm(ctx context.Context, stdin io.Reader, console io.Writer, question string) (yes, asked bool, err error) {
	keyboard, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(keyboard.Fd())) {
		return false, false, nil
	}
	fmt.Fprint(console, question+" [y/N] ")
	answered := make(chan string, 1)
	go func() { // which a Ctrl-C leaves behind: reading from a terminal cannot be given up
		line, err := bufio.NewReader(keyboard).ReadString('\n')
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
