package web

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// What a browser may load and run. Our own pages need nothing but themselves;
// the report carries its style within; asynqmon's pages have scripts and styles
// inside them and would load fonts from elsewhere, which they can do without.
const (
	pagePolicy    = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	reportPolicy  = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	monitorPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)

// guard wraps all handlers: it sets the headers that all answers have, and refuses requests
// that a foreign page has caused under a name of its own for this machine.
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
		if known && !knownName(r.Host, hosts) {
			http.Error(w, "these pages are not served under this host name: open them as localhost or by IP address, or add the name to --allowed-hosts", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseForeign refuses what another site's page has sent that is not only read: a
// browser says so in Sec-Fetch-Site or Origin, also where it sends a login along.
func refuseForeign(next http.Handler) http.Handler {
	return http.NewCrossOriginProtection().Handler(next)
}

// knownName reports whether a request's Host is a name of ours. An address is: a browser sends
// a foreign page's name, not the address it resolves to.
func knownName(host string, hosts []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") {
		return true
	}
	return slices.ContainsFunc(hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

func monitorHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", monitorPolicy)
		next.ServeHTTP(w, r)
	})
}

// onlyQueueNames refuses names of queues that asynqmon would put into a PromQL query as
// they are, if they contain more than names of ours do.
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
