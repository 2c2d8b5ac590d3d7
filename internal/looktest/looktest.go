//go:build look

// Package looktest has a browser show pages, and axe-core judge them. It is for
// tests that `make look` alone runs.
package looktest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	lookInto = flag.String("look", "", "folder that TestLook fills with pages, and with what Chromium shows and prints of them")
	axe      = flag.String("axe", "", "axe.min.js of axe-core, which TestLook has judge the pages")
)

// Folder is where pictures go.
func Folder(t *testing.T) string {
	t.Helper()
	if *lookInto == "" {
		t.Fatal("-look names no folder: `make look` does")
	}
	dir, err := filepath.Abs(*lookInto)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// looked is what a browser says of a page.
type looked struct {
	LoadedMS      float64 `json:"loaded_ms"`
	Wide          bool    `json:"wide"` // the page itself scrolls sideways
	Errors        []string
	Violations    []violation
	Dark          bool
	Width, Height float64
}

type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// Judge has axe-core look at a page that may run scripts, in a frame of the width,
// since no window is as narrow as a telephone, and takes its picture into the folder.
func Judge(t *testing.T, dir, name, page string, width int, dark bool) {
	script, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatal(err)
	}
	probe := fmt.Sprintf(`<script>%s</script><script>
addEventListener("load", async () => {
  const loaded = performance.now(), d = document.documentElement, errors = [];
  const found = await axe.run(document, {resultTypes: ["violations"]}).catch(e => (errors.push(String(e)), {violations: []}));
  parent.postMessage(JSON.stringify({loaded_ms: loaded, wide: d.scrollWidth > d.clientWidth, errors: errors, width: innerWidth, height: d.scrollHeight,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    violations: found.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => ({html: n.html}))}))}), "*");
});</script></body>`, script)
	judged := strings.Replace(page, "</body>", probe, 1)
	frame := func(of string, height int, more string) string {
		return fmt.Sprintf(`<!doctype html><body style="margin:0"><iframe style="border:0;width:%dpx;height:%dpx" srcdoc="%s"></iframe>%s`,
			width, height, html.EscapeString(of), more)
	}
	at := filepath.Join(t.TempDir(), "frame.html")
	write := func(text string) {
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(frame(judged, 900, `<pre id="said"></pre><script>addEventListener("message", e => { said.textContent = e.data })</script>`))
	dom := Chromium(t, dark, "--window-size=1500,1000", "--virtual-time-budget=100000", "--dump-dom", "file://"+at)
	_, after, _ := strings.Cut(dom, `<pre id="said">`)
	said, _, ok := strings.Cut(after, "</pre>")
	var got looked
	if err := json.Unmarshal([]byte(html.UnescapeString(said)), &got); err != nil || !ok {
		t.Fatalf("the browser says %q: %v", said, err)
	}
	if got.Width != float64(width) || got.Dark != dark {
		t.Errorf("shown at %g, dark %t", got.Width, got.Dark)
	}
	if got.Wide {
		t.Errorf("the page scrolls sideways")
	}
	for _, err := range got.Errors {
		t.Error(err)
	}
	tell(t, got.Violations)
	theme := map[bool]string{false: "light", true: "dark"}[dark]
	height := min(int(got.Height), 16000)
	write(frame(page, height, ""))
	began := time.Now()
	Chromium(t, dark, fmt.Sprintf("--window-size=%d,%d", max(width, 500), height), "--hide-scrollbars",
		"--screenshot="+filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), "file://"+at)
	t.Logf("%d bytes, loaded in %.0f ms with axe-core, shown in %v with the browser's start", len(page), got.LoadedMS, time.Since(began).Round(time.Millisecond))
}

// tell says what axe-core found; only what is serious fails a test.
func tell(t *testing.T, found []violation) {
	t.Helper()
	for _, v := range found {
		text := fmt.Sprintf("%s (%s): %s, %d times, such as %.300s", v.ID, v.Impact, v.Help, len(v.Nodes), v.Nodes[0].HTML)
		if v.Impact == "serious" || v.Impact == "critical" {
			t.Error(text)
		} else {
			t.Log(text)
		}
	}
}

// Chromium runs one with arguments and returns what it writes.
func Chromium(t *testing.T, dark bool, args ...string) string {
	t.Helper()
	scheme := "--blink-settings=preferredColorScheme=1"
	if dark {
		scheme = "--blink-settings=preferredColorScheme=0"
	}
	command := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("CHROMIUM"), "chromium"),
		append([]string{"--headless", "--no-sandbox", "--disable-gpu", scheme}, args...)...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, problems.String())
	}
	return out.String()
}
