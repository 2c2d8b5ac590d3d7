package transport

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Header builds a request's headers in every dialect: its key, and the name by which both
// sides' logs identify it. keyHeader is the header of the key, "Authorization" when empty;
// there the key follows "Bearer". The error, for a key that is invalid in a header, is a
// *providers.Error.
func Header(req *providers.Request, keyHeader string) (http.Header, error) {
	const authorization = "Authorization"
	h := http.Header{}
	if req.Key != "" {
		if strings.ContainsFunc(req.Key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			err := errors.New("the key contains a line break or another control character")
			return nil, &providers.Error{Class: providers.Auth, Message: err.Error(), Err: err}
		}
		keyHeader = cmp.Or(keyHeader, authorization)
		value := req.Key
		if keyHeader == authorization {
			value = "Bearer " + value
		}
		h.Set(keyHeader, value)
	}
	if req.IdempotencyID != "" {
		// OpenAI stores it in its logs. Idempotency-Key is not used: no provider promises to honour it for these
		// requests.
		h.Set("X-Client-Request-Id", req.IdempotencyID)
	}
	return h, nil
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
