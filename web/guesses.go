package web

import (
	"net"
	"sync"
	"time"
)

const (
	// freeGuesses may fail before the next one has to wait: of one name from one
	// address, and of all names from one address, behind which there may be many people.
	freeGuesses        = 3
	freeGuessesAddress = 30
	firstDelay         = time.Second
	longestDelay       = time.Minute
	// forgetAfter is how long after the last failure the next counts as the first.
	forgetAfter = 15 * time.Minute
	mostGuesses = 10_000
)

// guesses delays logins after failures, by address and name, so that an attacker cannot lock
// out another user. Safe for concurrent use.
type guesses struct {
	mu sync.Mutex
	of map[guess]failures
}

// guess is who tries; without a name, all names from the address.
type guess struct{ address, name string }

type failures struct {
	n    int
	last time.Time
}

// addressOf is where a connection comes from, without its port.
func addressOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// wait is how long the next try has to wait; 0: not at all.
func (g *guesses) wait(address, name string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.of[guess{address, name}].delay(freeGuesses, now), g.of[guess{address, ""}].delay(freeGuessesAddress, now))
}

func (f failures) delay(free int, now time.Time) time.Duration {
	if f.n < free {
		return 0
	}
	delay := min(firstDelay<<min(f.n-free, 10), longestDelay)
	return max(f.last.Add(delay).Sub(now), 0)
}

// failed counts a try that was wrong.
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
