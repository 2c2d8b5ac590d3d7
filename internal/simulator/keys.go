package simulator

import (
	"net/http"
	"slices"
)

// KeyCounts counts requests by whether they had a valid key of Config.Keys.
type KeyCounts struct {
	Right   int64 `json:"right"`
	Wrong   int64 `json:"wrong"`
	Missing int64 `json:"missing"` // also counted if none is needed
}

// lastKey is the key of the latest request that had one.
type lastKey struct{ header, key string }

// LastKey returns the header of the latest request that had a key, and the key without the scheme
// before it. No page of the simulator shows it.
func (s *Simulator) LastKey() (header, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastKey.header, s.lastKey.key
}

// checkKey counts a request's key and returns the failure, or "" if it is accepted.
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
