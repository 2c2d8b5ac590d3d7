package web

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/evalfleet/evalfleet/internal/machine/hostname"
)

// What a browser may load and run. Our own pages load only their own files. The report adds reportPolicy to its own policy. asynqmon's
// pages create styles as they run and contain scripts of known text.
const (
	pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	reportPolicy  = "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	monitorPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self'%s; img-src 'self' data:; " +
		"base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)

// guard wraps all handlers: it sets the headers that all answers have, and refuses requests that a foreign page has
// caused by giving this machine a name of its own (DNS rebinding).
func guard(known bool, hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if known && !hostname.Known(r.Host, hosts) {
			http.Error(
				w,
				"these pages are not served under this host name: open them as localhost or by IP address, or add the name to --allowed-hosts",
				http.StatusForbidden,
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseForeign refuses requests from another site's page unless they only read. A browser reports the origin in
// Sec-Fetch-Site or Origin, even if it sends a login along.
func refuseForeign(next http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(next)
}

// monitorHeaders sets the policy of asynqmon's pages. It permits the scripts inside them by their
// hashes, so that no other text on the origin of the actions becomes a script.
func monitorHeaders(monitor http.Handler) http.Handler {
	page := &heldPage{ResponseWriter: headersOnly{}}
	monitor.ServeHTTP(page, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: MonitorPath + "/"}, Header: http.Header{}})
	policy := fmt.Sprintf(monitorPolicy, hashesOf(page.text.String()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		monitor.ServeHTTP(w, r)
	})
}

// hashesOf returns a policy's sources for the scripts inside a page, each preceded by a space.
func hashesOf(page string) string {
	var sources strings.Builder
	for _, after := range strings.Split(page, "<script>")[1:] {
		script, _, _ := strings.Cut(after, "</script>")
		sum := sha256.Sum256([]byte(script))
		fmt.Fprintf(&sources, " 'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
	}
	return sources.String()
}

// headersOnly is a ResponseWriter that collects headers and sends nothing.
type headersOnly http.Header

func (h headersOnly) Header() http.Header       { return http.Header(h) }
func (headersOnly) Write(p []byte) (int, error) { return len(p), nil }
func (headersOnly) WriteHeader(int)             {}

// onlyQueueNames refuses names of queues with characters that our names do not contain, because asynqmon would put them
// into a PromQL query unescaped.
func onlyQueueNames(next http.Handler) http.Handler {
	foreign := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:@+=~,", r)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, names := range r.URL.Query()["queues"] {
			if strings.ContainsFunc(names, foreign) {
				http.Error(w, "invalid queue name", http.StatusBadRequest)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
