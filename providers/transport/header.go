package transport

import (
	"net/http"
	"strings"
)

// requestIDs are the headers in which endpoints name a request, the plainest
// first.
var requestIDs = []string{"X-Request-Id", "Request-Id", "Apim-Request-Id"}

func requestID(h http.Header) string {
	for _, name := range requestIDs {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// keep is what is worth keeping of a response's headers: everything about limits
// (X-Ratelimit-…, Anthropic-Ratelimit-…, Ratelimit-…, Retry-After…) and the
// request's id.
func keep(h http.Header) http.Header {
	kept := http.Header{}
	for name, values := range h {
		if strings.Contains(name, "Ratelimit") || strings.HasPrefix(name, "Retry-After") {
			kept[name] = values
		}
	}
	for _, name := range requestIDs {
		if values, ok := h[name]; ok {
			kept[name] = values
		}
	}
	return kept
}
