package web

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// Failed logins of a name from an address, and of all names from it, delay the next;
// those of others are not delayed.
func TestFailedLoginsDelayTheNext(t *testing.T) {
	t.Parallel()
	accounts, err := OpenAccounts(accountsFile(t, "ann", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	accounts.now = func() time.Time { return began } // comparing passwords takes long on a busy machine
	try := func(address, name, password string) (right, late bool) {
		t.Helper()
		_, right, err := accounts.right(t.Context(), address, name, password)
		var d *delayed
		if err != nil && !errors.As(err, &d) {
			t.Fatal(err)
		}
		return right, d != nil
	}
	for range freeGuesses {
		if _, late := try("10.0.0.1", "ann", "guess"); late {
			t.Error("one of the first guesses was delayed")
		}
	}
	if right, late := try("10.0.0.1", "ann", "secret"); right || !late {
		t.Errorf("after %d guesses: let in %v, delayed %v; want a delay", freeGuesses, right, late)
	}
	if right, late := try("10.0.0.2", "ann", "secret"); !right || late {
		t.Errorf("from elsewhere: let in %v, delayed %v", right, late)
	}
	if right, late := try("10.0.0.1", "ann", "secret"); !right || late {
		t.Errorf("who is known already: let in %v, delayed %v", right, late)
	}
	for i := range freeGuessesAddress {
		try("10.0.0.3", strings.Repeat("x", i), "guess")
	}
	if _, late := try("10.0.0.3", "new", "guess"); !late {
		t.Error("guesses of ever new names are not delayed")
	}
}

// The delay doubles up to a minute, and failures are forgotten.
func TestDelaysGrowAndEnd(t *testing.T) {
	t.Parallel()
	g, now := &guesses{of: map[guess]failures{}}, time.Unix(1e9, 0)
	for n, want := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second} {
		if got := g.wait("a", "ann", now); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
		g.failed("a", "ann", now)
	}
	for range 20 {
		g.failed("a", "ann", now)
	}
	if got := g.wait("a", "ann", now); got != guessDelays.Longest {
		t.Errorf("after many failures: %s, want %s", got, guessDelays.Longest)
	}
	later := now.Add(forgetAfter + time.Second)
	if g.failed("a", "ann", later); g.wait("a", "ann", later) != 0 {
		t.Error("failures are not forgotten")
	}
	for i := range 3 * mostGuesses {
		g.failed("b", strings.Repeat("x", i%7)+string(rune(i)), now)
		if len(g.of) > mostGuesses+1 {
			t.Fatalf("%d are remembered", len(g.of))
		}
	}
}

// Logins beyond the number that can wait are told to retry, failures are logged, and known
// users get in all the while.
func TestCrowdOfLoginsIsTurnedAway(t *testing.T) {
	t.Parallel()
	accounts, err := OpenAccounts(accountsFile(t, "ann", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log bytes.Buffer
	s := newSite(t, func(cfg *Config) {
		cfg.Accounts = accounts
		cfg.Log = zerolog.New(zerolog.SyncWriter(&locked{mu: &mu, to: &log}))
	})
	const login, wrong = "Basic YW5uOnNlY3JldA==", "Basic YW5uOm90aGVy" // ann:secret, ann:other
	if got, _ := s.ask(http.MethodGet, "/", "Authorization", login); got.code != http.StatusOK {
		t.Fatalf("the login answers %d", got.code)
	}
	for range cap(accounts.queue) { // as while so many are compared
		accounts.queue <- struct{}{}
	}
	got, _ := s.ask(http.MethodGet, "/", "Authorization", wrong)
	if got.code != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("one more answers %d, want %d and when to come again", got.code, http.StatusTooManyRequests)
	}
	if got, _ := s.ask(http.MethodGet, "/", "Authorization", login); got.code != http.StatusOK {
		t.Errorf("who is known is answered %d in a crowd", got.code)
	}
	for range cap(accounts.queue) {
		<-accounts.queue
	}
	if got, _ := s.ask(http.MethodGet, "/", "Authorization", wrong); got.code != http.StatusUnauthorized {
		t.Errorf("a wrong password answers %d", got.code)
	}
	mu.Lock()
	defer mu.Unlock()
	if said := log.String(); !strings.Contains(said, "login to the pages failed") || !strings.Contains(said, `"user":"ann"`) || strings.Contains(said, "other") {
		t.Errorf("the log says %s", said)
	}
}

type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// A viewer sees everything and changes nothing, also in asynqmon; an operator may.
func TestViewersChangeNothing(t *testing.T) {
	t.Parallel()
	path := accountsFile(t, "ann", "secret", "eve", "secret")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	lines[len(lines)-1] += ":viewer"
	lines[len(lines)-2] += ":operator"
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	accounts, err := OpenAccounts(path)
	if err != nil {
		t.Fatal(err)
	}
	done := &acts{}
	s := newSite(t, func(cfg *Config) { cfg.Actions, cfg.Accounts = done, accounts })
	const operator, looker = "Basic YW5uOnNlY3JldA==", "Basic ZXZlOnNlY3JldA=="
	page := "/evaluations/" + string(s.idle)
	for _, c := range []struct {
		login, method, path string
		want                int
	}{
		{looker, http.MethodGet, page, 200}, {looker, http.MethodGet, "/asynqmon/api/queues", 200}, {looker, http.MethodGet, page + "/cancel", 404},
		{looker, http.MethodPost, page + "/pause", 403}, {looker, http.MethodPost, "/asynqmon/api/queues/p:pause", 405},
		{operator, http.MethodPost, "/asynqmon/api/queues/p:pause", 204}, {operator, http.MethodGet, page + "/cancel", 200},
	} {
		if got, text := s.ask(c.method, c.path, "Authorization", c.login, "Sec-Fetch-Site", "same-origin"); got.code != c.want {
			t.Errorf("%s %s of %s answers %d, %.80s; want %d", c.method, c.path, c.login, got.code, text, c.want)
		}
	}
	if len(done.asked) != 0 {
		t.Errorf("a viewer did %q", done.asked)
	}
	for login, want := range map[string]bool{looker: false, operator: true} {
		_, text := s.ask(http.MethodGet, page, "Authorization", login)
		if strings.Contains(text, `id="actions"`) != want {
			t.Errorf("the page offers actions: %v, want %v", !want, want)
		}
	}
}
