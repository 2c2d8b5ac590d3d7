package simulator

import (
	"net/http"
	"slices"
)

// KeyCounts are how requests proved who asks, by Config.Keys.
type KeyCounts struct {
	Right   int64 `json:"right"`
	Wrong   int64 `json:"wrong"`
	Missing int64 `json:"missing"` // also where none is needed
}

// lastKey is what the latest request had for a key.
type lastKey struct{ header, key string }

// LastKey is the header of the latest request that had a key, and the key without
// the scheme before it. Nothing that the simulator serves tells it.
func (s *Simulator) LastKey() (header, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastKey.header, s.lastKey.key
}

// checkKey counts a request's key and returns its error; empty: none.
func (s *Simulator) checkKey(d dialect, h http.Header) Failure {
	name, key := d.key(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != "" {
		s.lastKey = lastKey{name, key}
	}
	switch {
	case key == "":
		s.keys.Missing++
		if len(s.config.Keys) > 0 {
			return keyMissing
		}
	case len(s.config.Keys) > 0 && !slices.Contains(s.config.Keys, key):
		s.keys.Wrong++
		return Auth
	default:
		s.keys.Right++
	}
	return ""
}
