package web

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
)

// backLink leads from asynqmon, which knows no other pages, to ours. Its own style keeps it above
// asynqmon's bar, whatever theme that has.
const backLink = `<a href="/queues" style="position:fixed;top:16px;right:16px;z-index:2000;padding:6px 12px;border-radius:6px;` +
	`background:#fff;color:#1f2328;border:1px solid #8c959f;font:14px system-ui,sans-serif;text-decoration:none">Back to evalfleet</a>`

// tellsRefusals is our script on asynqmon's pages.
const tellsRefusals = `<script src="/assets/monitor.js"></script>`

// foreignStyles are the fonts that asynqmon's page asks another site for. Our policy refuses them.
var foreignStyles = regexp.MustCompile(`<link rel="stylesheet" href="https://[^"]*"/>`)

// linked adds to asynqmon's pages a link to ours and the script that tells refusals, and has them
// ask no other site.
func linked(monitor http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, MonitorPath+"/api/") || strings.HasPrefix(r.URL.Path, MonitorPath+"/static/") {
			monitor.ServeHTTP(w, r)
			return
		}
		page := &heldPage{ResponseWriter: w}
		monitor.ServeHTTP(page, r)
		text := page.text.Bytes()
		if bytes.HasPrefix(text, []byte("<!doctype html>")) { // else an icon
			text = foreignStyles.ReplaceAll(text, nil)
			text = bytes.Replace(text, []byte("<body>"), []byte("<body>"+backLink+tellsRefusals), 1)
		}
		_, _ = w.Write(text)
	})
}

// heldPage holds back what is written, but for its headers.
type heldPage struct {
	http.ResponseWriter
	text bytes.Buffer
}

func (p *heldPage) Write(b []byte) (int, error) { return p.text.Write(b) }
