//go:build look && unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/looktest"
)

// TestLook has Chromium show the pages while a fleet works: at two widths and in
// both themes nothing but tables scrolls sideways, axe-core finds nothing serious and
// no script fails; numbers change by themselves; and a run is paused by the keyboard.
func TestLook(t *testing.T) {
	dir := looktest.Folder(t)
	f := newFleetWith(t, "--max-in-flight", "12", "--latency", "300ms..900ms", "--fail-rate", "0.05", "--fail-status", "400", "--throttle-rate", "0.01")
	f.write("fleet.yaml", fmt.Sprintf(`providers: {simulator: {base_url: %q}}
concurrency: {per_provider: {simulator: {max_concurrency: 12, adaptive: true, requests_per_minute: 900}}}
`, f.provider+"/v1"))
	f.documents(40)
	controller := launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--listen", "127.0.0.1:0", "--metrics-addr", "off", "--allow-actions")
	f.startWorkers(2)
	enqueue := func(name, judges string) string {
		path := f.evaluation(name, judges, 12, 1000)
		p := launch(t, f.dir, "enqueue", path, "--redis", f.redis.URL(), "--config", "fleet.yaml")
		if code := p.wait(); code != 0 {
			t.Fatalf("enqueue ended with %d: %s", code, p.stderr.String())
		}
		return strings.TrimSpace(p.stdout.String())
	}
	id := enqueue("essays", "simulator:careful, simulator:average")
	enqueue("a-very-long-name-that-somebody-gave-to-an-evaluation-because-every-setting-was-to-stand-in-it", "simulator:careless")
	eventuallySays(t, controller, "/evaluations/"+id, " bad_request</span>", "limiting now")
	address := addressOf(controller)

	b := looktest.NewBrowser(t)
	for name, path := range map[string]string{
		"dashboard": "/", "limits": "/limits", "workers": "/workers", "queues": "/queues", "tasks-pending": "/queues/simulator/pending", "tasks-active": "/queues/simulator/active",
		"tasks-archived": "/queues/simulator/archived", "evaluation": "/evaluations/" + id, "cancel": "/evaluations/" + id + "/cancel", "missing": "/evaluations/ev-aaaaaaaaaaaa",
	} {
		b.Show(t, dir, name, address+path, map[string]string{"missing": "404 (Not Found)"}[name])
	}
	b.Open(address+"/evaluations/"+id, 1400, false)
	const done = `document.querySelector('[data-live="all.done"]').textContent`
	var before, after string
	b.Run(done, &before)
	b.Run(fmt.Sprintf(`new Promise(r => { const i = setInterval(() => { const now = %s; if (now !== %q) { clearInterval(i); r(now); } }, 100); })`, done, before), &after)
	b.Run(`document.getElementById("do-pause").focus()`, nil)
	b.Enter()
	b.Loaded("Pause")
	var said, focus string
	b.Run(`document.querySelector(".note").textContent`, &said)
	b.Run(`document.activeElement.className`, &focus)
	if !strings.Contains(said, "is paused") || focus != "note" {
		t.Errorf("after Pause the page says %q, and the focus is on %q", said, focus)
	}
	b.Shoot(filepath.Join(dir, "paused.png"))
	b.Quiet("")
}
