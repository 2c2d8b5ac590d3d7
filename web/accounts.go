package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// knownFor is how long a login that was right is not computed again: bcrypt
	// takes tens of milliseconds, and a page asks for several files.
	knownFor  = 5 * time.Minute
	mostKnown = 1000
	// mostChecks are computed at once, so that guessing takes no more of the
	// machine.
	mostChecks = 2
	// lookEvery is how often it is seen whether the file has changed.
	lookEvery = time.Second
)

// Accounts are the names and passwords of an htpasswd file, by which the pages
// can be reached. What the file says holds a second after it was changed; while
// it cannot be read, nobody is let in. Safe for concurrent use.
type Accounts struct {
	path   string
	secret [32]byte      // of the keys of known
	checks chan struct{} // holds those that are computed now

	mu     sync.Mutex // guards all below
	looked time.Time
	seen   os.FileInfo
	hashes map[string][]byte // by name
	dear   []byte            // the one that takes longest
	err    error             // what is wrong with the file
	told   error             // of that, what was logged
	known  map[[sha256.Size]byte]time.Time
}

// OpenAccounts reads a file of lines NAME:HASH, the hashes by bcrypt, as
// `htpasswd -B` makes them. Empty lines and those that begin with # say nothing.
func OpenAccounts(path string) (*Accounts, error) {
	a := &Accounts{path: path, checks: make(chan struct{}, mostChecks), known: map[[sha256.Size]byte]time.Time{}}
	_, _ = rand.Read(a.secret[:]) // never fails
	a.look(time.Now())
	return a, a.err
}

// look reads the file where it has changed. The caller holds mu, or is alone.
func (a *Accounts) look(now time.Time) {
	if now.Sub(a.looked) < lookEvery {
		return
	}
	a.looked = now
	info, err := os.Stat(a.path)
	if err == nil && a.seen != nil && os.SameFile(info, a.seen) && info.ModTime().Equal(a.seen.ModTime()) && info.Size() == a.seen.Size() {
		return
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(a.path)
	}
	a.hashes, a.dear, a.seen, a.err = nil, nil, info, err
	if err == nil {
		a.hashes, a.dear, a.err = parseAccounts(a.path, raw)
	}
}

func parseAccounts(path string, raw []byte) (hashes map[string][]byte, dear []byte, err error) {
	hashes = map[string][]byte{}
	most := 0
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		cost, err := bcrypt.Cost([]byte(hash))
		switch _, twice := hashes[name]; {
		case name == "" || hash == "":
			return nil, nil, fmt.Errorf("%s:%d: a line is NAME:HASH, as `htpasswd -B %s NAME` writes it", path, n, path)
		case err != nil:
			return nil, nil, fmt.Errorf("%s:%d: the password of %s is not hashed by bcrypt; `htpasswd -B %s %s` does", path, n, visible(name), path, visible(name))
		case twice:
			return nil, nil, fmt.Errorf("%s:%d: %s stands there twice", path, n, visible(name))
		}
		hashes[name] = []byte(hash)
		if cost > most {
			most, dear = cost, []byte(hash)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(hashes) == 0 {
		return nil, nil, fmt.Errorf("%s names nobody: `htpasswd -B %s NAME` adds a line", path, path)
	}
	return hashes, dear, nil
}

// hash is what a password is compared with: of a name that there is not, another
// that takes as long, and real is false.
func (a *Accounts) hash(name string) (hash []byte, real bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(time.Now())
	if a.err != nil {
		return nil, false, a.err
	}
	if hash, real = a.hashes[name]; real {
		return hash, true, nil
	}
	return a.dear, false, nil
}

// right reports whether a name has the password. An error says that this cannot
// be told now.
func (a *Accounts) right(ctx context.Context, name, password string) (bool, error) {
	hash, real, err := a.hash(name)
	if err != nil {
		return false, err
	}
	key := a.key(hash, password)
	if real && a.knows(key) {
		return true, nil
	}
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !real {
		return false, nil
	}
	a.remember(key)
	return true, nil
}

// key stands for a password that was compared with a hash; from it, nobody can
// try passwords faster.
func (a *Accounts) key(hash []byte, password string) (key [sha256.Size]byte) {
	mac := hmac.New(sha256.New, a.secret[:])
	mac.Write(hash)
	mac.Write([]byte{0}) // which no hash has
	mac.Write([]byte(password))
	mac.Sum(key[:0])
	return key
}

func (a *Accounts) knows(key [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.known[key])
}

func (a *Accounts) remember(key [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= mostKnown {
		clear(a.known)
	}
	a.known[key] = time.Now().Add(knownFor)
}

// news reports whether an error has not been logged yet.
func (a *Accounts) news(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, context.Canceled) || errors.Is(err, a.told) {
		return false
	}
	a.told = err
	return true
}

// user is the context's name of whoever asks.
type user struct{}

// login lets only those through who have an account.
func (s *Server) login(next http.Handler) http.Handler {
	if s.cfg.Accounts == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, given := r.BasicAuth()
		right := false
		if given {
			var err error
			if right, err = s.cfg.Accounts.right(r.Context(), name, password); err != nil {
				if s.cfg.Accounts.news(err) {
					s.cfg.Log.Error().Err(err).Msg("nobody can log in to the pages")
				}
				http.Error(w, "logins cannot be checked now", http.StatusServiceUnavailable)
				return
			}
		}
		if !right {
			w.Header().Set("WWW-Authenticate", `Basic realm="evalfleet", charset="UTF-8"`)
			http.Error(w, "these pages need a login", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), user{}, name)))
	})
}
