package transport

import (
	"bytes"
	"net/http"
	"strings"
)

// secrets are values that requests contain. They are removed from everything that the other side sends.
type secrets []string

// leastSecret is the minimum length of a secret that is removed from answers. Vendors' keys are much longer. The key of
// a user's own server may be a word ("none", "EMPTY", "lm-studio") that occurs in any answer, which must stay
// unchanged.
const leastSecret = 12

// secretsOf returns the values of a header, and the credential of each that begins with a
// scheme ("Bearer …").
func secretsOf(header http.Header) secrets {
	var s secrets
	for _, values := range header {
		for _, value := range values {
			s = append(s, value)
			if _, credential, ok := strings.Cut(value, " "); ok {
				s = append(s, credential)
			}
		}
	}
	return s
}

// strike removes the secrets from text that the other side wrote.
func (s secrets) strike(text string) string {
	for _, secret := range s {
		if len(secret) >= leastSecret {
			text = strings.ReplaceAll(text, secret, "[key]")
		}
	}
	return text
}

// strikeBytes removes the secrets from a body that the other side wrote. Most bodies have none, and stay as they are.
func (s secrets) strikeBytes(body []byte) []byte {
	for _, secret := range s {
		if len(secret) >= leastSecret && bytes.Contains(body, []byte(secret)) {
			return []byte(s.strike(string(body)))
		}
	}
	return body
}
