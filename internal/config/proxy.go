package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Proxy reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY, also in lower case, as curl and Go programs do.
// The function it returns finds the proxy for a provider's address; nil: none. Loopback addresses
// have none. The error is of type Problems and never quotes a variable, because a proxy's URL may
// contain a password.
func Proxy(env Lookup) (func(target *url.URL) (*url.URL, error), error) {
	var found findings
	read := func(name string) string {
		upper, _ := env(name)
		lower, _ := env(strings.ToLower(name))
		return strings.TrimSpace(cmp.Or(upper, lower))
	}
	address := func(name string) string {
		value := read(name)
		if value != "" && !isProxy(value) { // it would be ignored otherwise
			found.refuse(place{path: name}, `want an address such as "http://proxy.example:3128"`, "not the address of a proxy")
		}
		return value
	}
	proxies := httpproxy.Config{HTTPProxy: address("HTTP_PROXY"), HTTPSProxy: address("HTTPS_PROXY"), NoProxy: read("NO_PROXY")}
	return proxies.ProxyFunc(), found.err()
}

// isProxy reports whether value is a proxy's URL, or HOST:PORT of an HTTP proxy.
func isProxy(value string) bool {
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	return err == nil && u.Hostname() != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme)
}
