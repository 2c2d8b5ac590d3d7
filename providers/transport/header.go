package transport

import (
	"net/http"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Header returns a request's headers in every dialect: the name by which both sides' logs identify it.
func Header(req *providers.Request) http.Header {
	h := http.Header{}
	if req.IdempotencyID != "" {
		// OpenAI stores it in its logs. Idempotency-Key is not used: no provider promises to honour it for these
		// requests.
		h.Set("X-Client-Request-Id", req.IdempotencyID)
	}
	return h
}

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

// keep returns the useful headers of a response: everything about limits (ofLimit,
// Retry-After…) and the request's ID.
func keep(h http.Header) http.Header {
	kept := http.Header{}
	for name, values := range h {
		if ofLimit(name) || strings.HasPrefix(name, "Retry-After") {
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
