package transport

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Keys provides the key of an endpoint that may change while a process runs. It is safe for concurrent use.
type Keys interface {
	// Key returns the key for a request that is sent now.
	Key() string
	// Renew is called when the endpoint has refused a key. It reports whether there is another one now.
	Renew(ctx context.Context, refused string) bool
}

// ErrKey is the error for a key that cannot be sent in a header.
var ErrKey = errors.New("the key contains a line break or another control character")

// CheckKey returns ErrKey if a key cannot be sent in a header.
func CheckKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ErrKey
	}
	return nil
}

// setKey adds the header of a key, if there is one. name is the header; empty: Authorization, where the key follows
// "Bearer". The error is a *providers.Error.
func setKey(h http.Header, name, key string) error {
	const authorization = "Authorization"
	if key == "" {
		return nil
	}
	if err := CheckKey(key); err != nil {
		return &providers.Error{Class: providers.Auth, Message: err.Error(), Err: err}
	}

	name = cmp.Or(name, authorization)
	if name == authorization {
		key = "Bearer " + key
	}
	h.Set(name, key)
	return nil
}

// key returns the key for a request: its own, or that of the endpoint's Keys.
func (c *Client) key(own string) string {
	if c.keys == nil {
		return own
	}
	return c.keys.Key()
}

// renewed reports whether a request was refused because of its key, and there is another key now.
func (c *Client) renewed(ctx context.Context, status int, key string) bool {
	return status == http.StatusUnauthorized && c.keys != nil && c.keys.Renew(ctx, key)
}
