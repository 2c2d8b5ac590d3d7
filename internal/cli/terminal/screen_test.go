package terminal

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// A watcher continues while Redis is unreachable, reports it once, and ends with the last
// frame.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	away := errors.New("redis does not answer")
	frames := []struct {
		text string
		err  error
	}{{"two\n", nil}, {"", away}, {"", away}, {"three\n", nil}, {"", away}, {"four\n", nil}}
	var out, notices strings.Builder
	n := 0
	passes := func(err error) bool { return errors.Is(err, away) }
	s := &Screen{Out: &out, Notices: &notices, Every: time.Millisecond, Passes: passes}
	err := s.Watch(t.Context(), "one\n", func(context.Context, time.Time) (string, bool, error) {
		f := frames[n]
		n++
		return f.text, n == len(frames), f.err
	})
	if err != nil || out.String() != "one\ntwo\nthree\nfour\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if want := strings.Repeat("evalfleet: redis does not answer; waiting for it\n", 2); notices.String() != want {
		t.Errorf("notices: got %q, want %q", notices.String(), want)
	}

	wrong := errors.New("no such evaluation")
	err = (&Screen{Out: io.Discard, Notices: io.Discard, Every: time.Millisecond, Passes: passes}).Watch(t.Context(), "one\n",
		func(context.Context, time.Time) (string, bool, error) { return "", false, wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("a failure that waiting does not mend: got %v, want it", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = (&Screen{Out: io.Discard, Notices: io.Discard, Every: time.Millisecond, Passes: passes}).Watch(ctx, "one\n",
		func(context.Context, time.Time) (string, bool, error) { cancel(); return "", false, ctx.Err() })
	if err != nil {
		t.Errorf("Ctrl-C: got %v, want a quiet end", err)
	}
}

// A frame never wraps or scrolls, whatever the terminal's size.
func TestDrawn(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 120) + "\n字字字字\nthird\nfourth\n"
	for _, c := range []struct {
		name, notice  string
		columns, rows int
		want          []string
	}{
		{"roomy", "", 200, 40, []string{strings.Repeat("x", 120), "字字字字", "third", "fourth"}},
		{"narrow", "", 6, 40, []string{"xxxxx…", "字字…", "third", "fourth"}},
		{"low", "", 100, 3, []string{strings.Repeat("x", 99) + "…", "字字字字", "… 2 more lines"}},
		{"with a notice", "Redis is away", 100, 5, []string{"Redis is away", strings.Repeat("x", 99) + "…", "字字字字", "third", "fourth"}},
	} {
		want := screenHome + strings.Join(c.want, lineRest+"\r\n") + lineRest + screenRest
		if got := drawn(text, c.notice, c.columns, c.rows); got != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}
