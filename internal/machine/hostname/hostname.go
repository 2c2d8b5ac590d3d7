// Package hostname recognises the names under which requests reach this machine. A foreign page
// must not read ours through a name of its own (DNS rebinding).
package hostname

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// Known reports whether a request's Host is localhost, an address or one of the names. Addresses
// are safe: a browser sends a foreign page's name, not the address to which it resolves.
func Known(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// Guard refuses requests to unknown names if a handler listens on loopback. Other addresses may
// have names that only their network knows.
func Guard(address net.Addr, next http.Handler) http.Handler {
	if at, ok := address.(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Known(r.Host, nil) {
			http.Error(w, "not served under this host name: use localhost or an IP address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
