//go:build look

package looktest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Browser is a Chromium that shows pages as they are served, even if they never stop loading. It is controlled
// through a pipe with its DevTools protocol: JSON messages, each ended by a zero byte.
type Browser struct {
	t       *testing.T
	to      *os.File
	session string

	mu       sync.Mutex // guards all below
	last     int
	waiting  map[int]chan reply
	problems []string // from the pages' scripts and security policies
	loaded   chan struct{}
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// NewBrowser starts a browser that ends with the test.
func NewBrowser(t *testing.T) *Browser {
	t.Helper()
	theirIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program(), "--headless", "--no-sandbox", "--disable-gpu",
		"--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	command.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &Browser{t: t, to: to, waiting: map[int]chan reply{}, loaded: make(chan struct{}, 8)}
	go b.listen(from)
	t.Cleanup(func() {
		// Closing the pipe ends Chromium and its helpers. If Chromium were killed, its helpers would still write to
		// the folder that the test removes.
		to.Close()
		stuck := time.AfterFunc(time.Minute, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		stuck.Stop()
	})

	var target struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.ask(domain+".enable", nil, nil)
	}
	return b
}

// listen passes on answers, and records problems on the pages.
func (b *Browser) listen(from *os.File) {
	defer from.Close()
	messages := bufio.NewReader(from)
	for {
		raw, err := messages.ReadBytes(0)
		if err != nil {
			return
		}

		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m); err != nil {
			continue
		}
		b.mu.Lock()
		switch m.Method {
		case "":
			if to := b.waiting[m.ID]; to != nil {
				to <- m.reply
			}
		case "Page.loadEventFired":
			b.loaded <- struct{}{}
		case "Runtime.exceptionThrown", "Log.entryAdded":
			b.problems = append(b.problems, string(m.Params))
		}
		b.mu.Unlock()
	}
}

func (b *Browser) ask(method string, params, into any) {
	b.t.Helper()
	b.mu.Lock()
	b.last++
	id, answer := b.last, make(chan reply, 1)
	b.waiting[id] = answer
	b.mu.Unlock()
	if params == nil {
		params = struct{}{}
	}
	raw, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if b.session != "" {
		raw, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(raw, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()

	select {
	case got := <-answer:
		if got.Error != nil {
			b.t.Fatalf("%s: %s", method, got.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(got.Result, into); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, got.Result)
			}
		}
	case <-ctx.Done():
		b.t.Fatalf("%s: no answer", method)
	}
}

// Show opens a page at two widths and in both themes. It saves a screenshot of each in the folder, and checks each
// with Judge and Quiet. expected is the argument of Quiet.
func (b *Browser) Show(t *testing.T, dir, name, url, expected string) {
	t.Helper()
	defer b.For(t)
	for _, width := range []int{1400, 400} {
		for _, dark := range []bool{false, true} {
			theme := map[bool]string{false: "light", true: "dark"}[dark]
			t.Run(fmt.Sprintf("%s, %d, %s", name, width, theme), func(t *testing.T) {
				b.For(t)
				b.Open(url, width, dark)
				b.Shoot(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, theme)))
				b.Judge()
				b.Quiet(expected)
			})
		}
	}
}

// Open shows a page at a width and in a theme.
func (b *Browser) Open(url string, width int, dark bool) {
	b.t.Helper()
	theme := map[bool]string{false: "light", true: "dark"}[dark]
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}}, nil)
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
	b.Loaded(url)
}

// Loaded waits until the next page has loaded. what names the cause, for the failure message.
func (b *Browser) Loaded(what string) {
	b.t.Helper()
	select {
	case <-b.loaded:
	case <-time.After(time.Minute):
		b.t.Fatalf("%s led to no page", what)
	}
}

// Enter presses the Enter key in the focused element.
func (b *Browser) Enter() {
	b.t.Helper()
	for _, key := range []map[string]any{{"type": "keyDown", "text": "\r"}, {"type": "keyUp"}} {
		key["key"], key["code"], key["windowsVirtualKeyCode"] = "Enter", "Enter", 13
		b.ask("Input.dispatchKeyEvent", key, nil)
	}
}

// Press presses a key, such as "ArrowLeft" or "n", in the focused element.
func (b *Browser) Press(key string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	if len(key) == 1 {
		down["text"] = key
	}
	b.ask("Input.dispatchKeyEvent", down, nil)
	b.ask("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// For makes the browser report failures to t, a part of the test, from now on.
func (b *Browser) For(t *testing.T) { b.t = t }

// Run evaluates a script and stores its value in into, unless that is nil. If the value is a promise, Run waits for
// it.
func (b *Browser) Run(script string, into any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	b.ask("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%.200s: %s", script, got.ExceptionDetails.Text)
	}
	if into != nil {
		if err := json.Unmarshal(got.Result.Value, into); err != nil {
			b.t.Fatalf("%.200s: %v in %s", script, err, got.Result.Value)
		}
	}
}

// Shoot saves a screenshot of the whole page. It fails the test if the page, or a table's caption, is wider than the
// window.
func (b *Browser) Shoot(path string) {
	b.t.Helper()
	var width, whole, height int
	b.Run("document.documentElement.clientWidth", &width)
	b.Run("document.documentElement.scrollWidth", &whole)
	b.Run("document.documentElement.scrollHeight", &height)
	if whole > width {
		b.t.Error("the page scrolls sideways")
	}
	var cut []string
	b.Run("[...document.querySelectorAll('caption')].filter(c => c.getBoundingClientRect().right > innerWidth).map(c => c.textContent)", &cut)
	if len(cut) > 0 {
		b.t.Errorf("the window cuts %d captions, such as %.100q", len(cut), cut[0])
	}
	var shot struct{ Data string }
	b.ask(
		"Page.captureScreenshot",
		map[string]any{
			"captureBeyondViewport": true,
			"clip":                  map[string]any{"x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1},
		},
		&shot,
	)
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, raw, 0o644)
	}

	if err != nil {
		b.t.Fatal(err)
	}
}

// Judge checks the open page with axe-core.
func (b *Browser) Judge() {
	b.t.Helper()
	script, err := os.ReadFile(*axe)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Run(string(script)+";0", nil)
	var found []violation
	b.Run(
		`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, `+
			`help: v.help, nodes: v.nodes.map(n => ({html: n.html}))})))`,
		&found,
	)
	tell(b.t, found)
}

// Quiet fails the test if the browser has reported a problem since the last call, except those that contain expected.
func (b *Browser) Quiet(expected string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		if expected == "" || !strings.Contains(problem, expected) {
			b.t.Errorf("the browser reports: %.500s", problem)
		}
	}
	b.problems = nil
}
