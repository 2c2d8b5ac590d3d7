package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

const (
	// knownFor is how long a correct login is remembered instead of computed again: bcrypt takes tens of milliseconds,
	// and a page asks for several files.
	knownFor  = 5 * time.Minute
	mostKnown = 1000
	// mostChecks is how many passwords are compared at once, so that guessing uses no more of the machine.
	mostChecks = 2
	// mostWaiting is how many logins may wait for that; further ones are asked to retry.
	mostWaiting = 20
	// lookEvery is how often the file is checked for changes.
	lookEvery = time.Second
)

// Accounts holds the names and passwords of an htpasswd file that give access to the pages. A change of the file takes
// effect within a second; while it cannot be read, all logins are refused. Accounts is safe for concurrent use.
type Accounts struct {
	path   string
	secret [32]byte      // of the keys of known
	checks chan struct{} // holds the comparisons that are being computed
	queue  chan struct{} // holds these and the ones that wait
	tries  *guesses
	// compare is bcrypt's comparison.
	compare func(hash, password []byte) error
	now     func() time.Time // by which failed logins delay the next

	mu     sync.Mutex // guards all below
	looked time.Time
	seen   os.FileInfo
	people map[string]account // by name
	dear   []byte             // the hash that takes longest
	err    error              // the error of the file
	told   error              // the logged part of it
	known  map[[sha256.Size]byte]time.Time
}

// account is the entry of a name in the file.
type account struct {
	hash []byte
	role string
}

// Roles in the file.
const (
	viewerRole   = "viewer"   // may only look
	operatorRole = "operator" // may do what Config.Actions allow
	voterRole    = "voter"    // may only vote, and sees nothing else
)

var roles = []string{viewerRole, operatorRole, voterRole}

// errCrowded means that too many logins wait for a comparison of their passwords.
var errCrowded = errors.New("too many logins at once")

// OpenAccounts reads a file of lines NAME:HASH or NAME:HASH:ROLE, the hashes by bcrypt, as
// `htpasswd -B` makes them. A viewer may only read; an operator, the default role, may do what
// Config.Actions allow; a voter may only vote. Empty lines and those that begin with # are ignored.
func OpenAccounts(path string) (*Accounts, error) {
	a := &Accounts{
		path:    path,
		checks:  make(chan struct{}, mostChecks),
		queue:   make(chan struct{}, mostChecks+mostWaiting),
		tries:   &guesses{of: map[guess]failures{}},
		compare: bcrypt.CompareHashAndPassword,
		now:     time.Now,
		known:   map[[sha256.Size]byte]time.Time{},
	}
	_, _ = rand.Read(a.secret[:]) // never fails
	a.reload(time.Now())
	return a, a.err
}

// reload reads the file if it has changed. The caller holds mu, or has the only reference.
func (a *Accounts) reload(now time.Time) {
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
	a.people, a.dear, a.seen, a.err = nil, nil, info, err
	if err == nil {
		a.people, a.dear, a.err = parseAccounts(a.path, raw)
	}
}

func parseAccounts(path string, raw []byte) (people map[string]account, dear []byte, err error) {
	people = map[string]account{}
	most := 0
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		hash, role, hasRole := strings.Cut(rest, ":")
		cost, err := bcrypt.Cost([]byte(hash))
		switch _, twice := people[name]; {
		case name == "" || hash == "":
			return nil, nil, fmt.Errorf("%s:%d: want NAME:HASH, as `htpasswd -B %s NAME` writes it", path, n, path)
		case err != nil:
			return nil, nil, fmt.Errorf(
				"%s:%d: the password of %s is not hashed with bcrypt: use `htpasswd -B %s %s`", path, n, harmless.Line(name), path,
				harmless.Line(name),
			)
		case hasRole && !slices.Contains(roles, role):
			return nil, nil, fmt.Errorf(
				"%s:%d: the role of %s is %q; want one of %s", path, n, harmless.Line(name), harmless.Line(role), strings.Join(roles, ", "),
			)
		case twice:
			return nil, nil, fmt.Errorf("%s:%d: %s appears twice", path, n, harmless.Line(name))
		}
		people[name] = account{[]byte(hash), cmp.Or(role, operatorRole)}
		if cost > most {
			most, dear = cost, []byte(hash)
		}
	}

	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(people) == 0 {
		return nil, nil, fmt.Errorf("%s contains no users: add one with `htpasswd -B %s NAME`", path, path)
	}
	return people, dear, nil
}

// find returns the account to compare a password with. For an unknown name, real is false and the account is one whose
// hash takes the longest to compare.
func (a *Accounts) find(name string) (of account, real bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reload(time.Now())
	if a.err != nil {
		return account{}, false, a.err
	}
	if of, real = a.people[name]; real {
		return of, true, nil
	}
	return account{hash: a.dear}, false, nil
}

// right reports whether a password is right for a name, and returns the name's account. An error means that this cannot
// be answered now: errCrowded, a *delayed, or the error of the file.
func (a *Accounts) right(ctx context.Context, address, name, password string) (of account, right bool, err error) {
	of, real, err := a.find(name)
	if err != nil {
		return of, false, err
	}
	key := a.key(of.hash, password)
	if real && a.knows(key) {
		return of, true, nil
	}
	if wait := a.tries.wait(address, name, a.now()); wait > 0 {
		return of, false, &delayed{wait}
	}

	select {
	case a.queue <- struct{}{}:
		defer func() { <-a.queue }()
	default:
		return of, false, errCrowded
	}

	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	case <-ctx.Done():
		return of, false, ctx.Err()
	}

	if wait := a.tries.wait(address, name, a.now()); wait > 0 { // other logins have failed meanwhile
		return of, false, &delayed{wait}
	}

	if a.compare(of.hash, []byte(password)) != nil || !real {
		a.takeAsLong(of.hash, password)
		a.tries.failed(address, name, a.now())
		return of, false, nil
	}

	a.tries.succeeded(address, name)
	a.remember(key)
	return of, true, nil
}

// takeAsLong makes the refusal of a known name take as long as that of an unknown one, which is compared with the most
// expensive hash. Each step of the cost doubles the time: after a comparison of cost c, the costs from c to one below
// the highest add up to the missing time.
func (a *Accounts) takeAsLong(hash []byte, password string) {
	a.mu.Lock()
	dear := a.dear
	a.mu.Unlock()
	own, err := bcrypt.Cost(hash)
	most, dearErr := bcrypt.Cost(dear)
	if err != nil || dearErr != nil {
		return // the file has changed meanwhile
	}
	for cost := own; cost < most; cost++ {
		end := bytes.LastIndexByte(dear, '$')
		other := slices.Concat(dear[:end-2], fmt.Appendf(nil, "%02d", cost), dear[end:])
		_ = a.compare(other, []byte(password))
	}
}

// delayed is the error of a login that must wait because too many have failed.
type delayed struct{ wait time.Duration }

func (d *delayed) Error() string {
	return fmt.Sprintf("too many failed logins: try again in %s", d.wait.Round(time.Second))
}

// key identifies a password that was compared with a hash; it does not help an attacker to try
// passwords faster.
func (a *Accounts) key(hash []byte, password string) (key [sha256.Size]byte) {
	mac := hmac.New(sha256.New, a.secret[:])
	mac.Write(hash)
	mac.Write([]byte{0}) // no hash contains this byte
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

// user is the context key of the logged-in user's name; part is the key of the user's role, empty without logins.
type (
	user struct{}
	part struct{}
)

// roleOf returns the role of the user; empty without logins.
func roleOf(r *http.Request) string {
	role, _ := r.Context().Value(part{}).(string)
	return role
}

// as returns the request of a user with a role.
func as(r *http.Request, name, role string) *http.Request {
	return r.WithContext(context.WithValue(context.WithValue(r.Context(), user{}, name), part{}, role))
}

// mayAct reports whether the user may change anything.
func (s *Server) mayAct(r *http.Request) bool {
	role := roleOf(r)
	return s.cfg.Actions != nil && role != viewerRole && role != voterRole
}

// login passes on only requests with a valid account.
func (s *Server) login(next http.Handler) http.Handler {
	if s.cfg.Accounts == nil {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, given := r.BasicAuth()
		right := false
		var of account
		if given {
			var err error
			address := addressOf(r.RemoteAddr)
			of, right, err = s.cfg.Accounts.right(r.Context(), address, name, password)
			var late *delayed
			switch {
			case errors.Is(err, errCrowded), errors.As(err, &late):
				wait := 1
				if late != nil {
					wait = max(int(math.Ceil(late.wait.Seconds())), 1)
				}
				w.Header().Set("Retry-After", strconv.Itoa(wait))
				http.Error(w, err.Error(), http.StatusTooManyRequests)
				return
			case err != nil:
				if s.cfg.Accounts.news(err) {
					s.cfg.Log.Error().Err(err).Msg("cannot read the login file; refusing all logins")
				}
				http.Error(w, "logins cannot be checked now", http.StatusServiceUnavailable)
				return
			case !right:
				s.cfg.Log.Warn().Str("user", harmless.Line(name)).Str("address", address).Msg("login to the pages failed")
			}
		}
		if !right {
			w.Header().Set("WWW-Authenticate", `Basic realm="evalfleet", charset="UTF-8"`)
			http.Error(w, "these pages require a login", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, as(r, name, of.role))
	})
}
