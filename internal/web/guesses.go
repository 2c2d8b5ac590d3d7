package web

import (
	"net"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/backoff"
)

const (
	// freeGuesses is how many logins may fail before the next one has to wait. It counts one name from one address;
	// freeGuessesAddress counts all names from one address, which many people may share.
	freeGuesses        = 3
	freeGuessesAddress = 30
	// forgetAfter is how long after the last failure the next one counts as the first.
	forgetAfter = 15 * time.Minute
	mostGuesses = 10_000
)

// guessDelays are how long a login has to wait after those that have failed.
var guessDelays = backoff.Waits{First: time.Second, Longest: time.Minute, Factor: 2}

// guesses delays logins after failures, by address and name, so that an attacker cannot lock out another user. It is
// safe for concurrent use.
type guesses struct {
	mu sync.Mutex
	of map[guess]failures
}

// guess identifies a source of logins; without a name, all names from the address.
type guess struct{ address, name string }

type failures struct {
	n    int
	last time.Time
}

// addressOf returns the address of a connection, without its port.
func addressOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// wait returns how long the next login has to wait; 0: not at all.
func (g *guesses) wait(address, name string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.of[guess{address, name}].delay(freeGuesses, now), g.of[guess{address, ""}].delay(freeGuessesAddress, now))
}

func (f failures) delay(free int, now time.Time) time.Duration {
	if f.n < free {
		return 0
	}
	return max(f.last.Add(guessDelays.After(f.n-free)).Sub(now), 0)
}

// failed counts a failed login.
func (g *guesses) failed(address, name string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.of) >= mostGuesses {
		for who, f := range g.of {
			if now.Sub(f.last) > forgetAfter || who.name != "" {
				delete(g.of, who)
			}
		}
		if len(g.of) >= mostGuesses {
			clear(g.of)
		}
	}
	for _, who := range []guess{{address, name}, {address, ""}} {
		f := g.of[who]
		if now.Sub(f.last) > forgetAfter {
			f.n = 0
		}
		g.of[who] = failures{f.n + 1, now}
	}
}

// succeeded forgets the failures of a name from an address.
func (g *guesses) succeeded(address, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, guess{address, name})
}
