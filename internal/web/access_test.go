package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"github.com/evalfleet/evalfleet/eval"
)

// acts are actions that only say what they were asked.
type acts struct{ asked []string }

func (a *acts) note(what string, id eval.ID) (string, error) {
	a.asked = append(a.asked, what)
	return what + " " + string(id) + hostile, nil
}

func (a *acts) Pause(_ context.Context, id eval.ID) (string, error)  { return a.note("pause", id) }
func (a *acts) Resume(_ context.Context, id eval.ID) (string, error) { return a.note("resume", id) }
func (a *acts) Cancel(context.Context, eval.ID) (string, error) {
	a.asked = append(a.asked, "cancel")
	return "", errors.New("it is done already")
}

func (a *acts) Retry(_ context.Context, id eval.ID, classes []string) (string, error) {
	return a.note(fmt.Sprintf("retry %q", classes), id)
}

func TestOnlyThisMachineAndItsOwnPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(cfg *Config) { cfg.Actions, cfg.Hosts = &acts{}, []string{"evals.example"} })
	for host, want := range map[string]int{
		"localhost:1": 200, "127.0.0.1": 200, "[::1]:8080": 200, "10.0.0.5:8080": 200, "evals.example:8080": 200, "EVALS.example": 200, "evil.example": 403, "127.0.0.1.evil.example": 403, "": 200,
	} {
		if got, _ := s.ask(http.MethodGet, "/", "Host", host); got.code != want {
			t.Errorf("Host %q answers %d, want %d", host, got.code, want)
		}
	}
	if got, _ := s.ask(http.MethodPost, "/asynqmon/api/queues/p:pause", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); got.code != http.StatusForbidden {
		t.Errorf("another site's POST answers %d, want 403", got.code)
	}
}

// accountsFile writes an htpasswd file with a login each of name and password.
func accountsFile(t *testing.T, logins ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	writeAccounts(t, path, logins...)
	return path
}

func writeAccounts(t *testing.T, path string, logins ...string) {
	t.Helper()
	text := "# who may\n\n"
	for i := 0; i < len(logins); i += 2 {
		hash, err := bcrypt.GenerateFromPassword([]byte(logins[i+1]), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += logins[i] + ":" + strings.Replace(string(hash), "$2a$", "$2y$", 1) + "\n" // as htpasswd writes it
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	path := accountsFile(t, "ann", "secret", "bob", "other")
	a, err := OpenAccounts(path)
	if err != nil {
		t.Fatal(err)
	}
	from := 0 // each from another machine, so that none is delayed
	right := func(name, password string) bool {
		t.Helper()
		a.looked = time.Time{} // as a second later
		from++
		_, ok, err := a.right(t.Context(), fmt.Sprintf("10.0.0.%d", from), name, password)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return ok
	}
	for range 2 { // the second time from memory
		for login, want := range map[[2]string]bool{
			{"ann", "secret"}: true, {"bob", "other"}: true, {"ann", "other"}: false, {"ann", ""}: false, {"", ""}: false,
			{"eve", "secret"}: false, {"eve", "other"}: false, // whose hash a name that there is not is compared with
		} {
			if got := right(login[0], login[1]); got != want {
				t.Errorf("%q: let in %t, want %t", login, got, want)
			}
		}
	}
	if len(a.known) != 2 {
		t.Errorf("%d logins are remembered, want the 2 that were right", len(a.known))
	}
	writeAccounts(t, path, "ann", "changed", "carol", "new")
	for login, want := range map[[2]string]bool{{"ann", "secret"}: false, {"bob", "other"}: false, {"ann", "changed"}: true, {"carol", "new"}: true} {
		if got := right(login[0], login[1]); got != want {
			t.Errorf("%q: let in %t after the file was changed, want %t", login, got, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.looked = time.Time{}
	if _, ok, err := a.right(t.Context(), "10.0.0.1", "carol", "new"); ok || err == nil {
		t.Errorf("let in %t, %v, from a file that has gone", ok, err)
	}
}

func TestAccountsRefuse(t *testing.T) {
	t.Parallel()
	path := accountsFile(t, "ann", "x")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{
		"": "contains no users",
		"ann:$apr1$3mYQ4dQj$AkAEc9bQ4Km0Dl6iB0EFT/": ":1: the password of ann is not hashed with bcrypt: use `htpasswd -B ",
		string(whole) + "bob:plain":                 "the password of bob is not hashed",
		string(whole) + "bob":                       "want NAME:HASH",
		string(whole) + string(whole):               "ann appears twice",
		strings.TrimSpace(string(whole)) + ":admin": `the role of ann is "admin"; want one of viewer, operator, voter`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenAccounts(path)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "$apr1") {
			t.Errorf("%q: %v, want %q and no hash", text, err, says)
		}
	}
}

// With accounts, nothing is shown and nothing done without a login, and nothing
// is done for another site's page even with one.
func TestLoginAndOrigin(t *testing.T) {
	t.Parallel()
	accounts, err := OpenAccounts(accountsFile(t, "ann", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	done := &acts{}
	s := newSite(t, func(cfg *Config) { cfg.Actions, cfg.Accounts = done, accounts })
	const login, wrong, foreign, own = "Basic YW5uOnNlY3JldA==", "Basic YW5uOm90aGVy", "cross-site", "same-origin" // ann:secret, ann:other
	pause := "/evaluations/" + string(s.idle) + "/pause"
	for _, c := range []struct {
		method, path, login, site string
		want                      int
	}{
		{http.MethodGet, "/", "", own, 401},
		{http.MethodGet, "/", wrong, own, 401},
		{http.MethodGet, "/", login, own, 200},
		{http.MethodGet, "/", login, foreign, 200}, // a link
		{http.MethodGet, "/healthz", "", own, 401},
		{http.MethodGet, "/assets/live.js", "", own, 401},
		{http.MethodGet, "/api/evaluations", "", own, 401},
		{http.MethodGet, "/asynqmon/api/queues", "", own, 401},
		{http.MethodGet, "/asynqmon/api/queues", login, own, 200},
		{http.MethodPost, pause, "", own, 401},
		{http.MethodPost, pause, "", foreign, 401},
		{http.MethodPost, pause, login, foreign, 403},
		{http.MethodPost, "/asynqmon/api/queues/p:pause", "", own, 401},
		{http.MethodPost, "/asynqmon/api/queues/p:pause", login, foreign, 403},
		{http.MethodDelete, "/asynqmon/api/queues/p", login, foreign, 403},
	} {
		got, _ := s.ask(c.method, c.path, "Authorization", c.login, "Sec-Fetch-Site", c.site, "Host", "fleet.example")
		if got.code != c.want || (c.want == 401) != (got.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s with %q from %s answers %d, %q; want %d", c.method, c.path, c.login, c.site, got.code, got.header.Get("WWW-Authenticate"), c.want)
		}
	}
	if got, _ := s.ask(http.MethodPost, pause, "Authorization", login, "Origin", "https://evil.example"); got.code != http.StatusForbidden {
		t.Errorf("a browser that says nothing but the origin is answered %d, want 403", got.code)
	}
	if len(done.asked) != 0 {
		t.Errorf("done all the same: %q", done.asked)
	}
}

// Actions get the name of the user who performs them, and the page that follows shows the result as text.
func TestActions(t *testing.T) {
	t.Parallel()
	done := &acts{}
	s := newSite(t, func(cfg *Config) { cfg.Actions = done })
	idle, ended := "/evaluations/"+string(s.idle), "/evaluations/"+string(s.done)
	for path, want := range map[string][]string{
		idle:             {`action="` + idle + `/pause"`, "Cancel…"},
		idle + "/cancel": {"0 of its 6 runs have ended", `<form method="post" action="` + idle + `/cancel">`},
		ended:            {`action="` + ended + `/retry"`, `<option value="">all classes`},
	} {
		_, text := s.ask(http.MethodGet, path)
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q:\n%s", path, words, text)
			}
		}
	}
	if _, text := s.ask(http.MethodGet, ended); strings.Contains(text, "Pause") || strings.Contains(text, "Cancel…") {
		t.Error("what has ended can be paused or cancelled")
	}
	for path, says := range map[string]string{
		idle + "/pause":   `<p class="note" role="status" tabindex="-1" autofocus>pause ` + string(s.idle) + "&lt;script&gt;",
		idle + "/resume":  ">resume " + string(s.idle),
		ended + "/cancel": `<p class="note bad" role="status" tabindex="-1" autofocus>it is done already</p>`,
		ended + "/retry":  ">retry [&#34;timeout&#34; &#34;malformed&#34;] " + string(s.done),
	} {
		answer, err := s.server.Client().PostForm(s.server.URL+path, url.Values{"class": {"timeout", "malformed"}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		page := answer.Request.URL // where it led to
		if _, text := s.ask(http.MethodGet, page.RequestURI()); !strings.Contains(text, says) || strings.Contains(text, "<script>alert") {
			t.Errorf("after %s, %s does not say %q:\n%s", path, page, says, text)
		}
	}
	if got, _ := s.ask(http.MethodPost, idle+"/explode"); got.code != http.StatusNotFound {
		t.Errorf("an action that there is not answers %d, want 404", got.code)
	}
	if _, text := s.ask(http.MethodGet, idle+"?said=done+by+a+link"); strings.Contains(text, "done by a link") {
		t.Error("a link puts words onto the page")
	}
	if len(done.asked) != 4 {
		t.Errorf("asked for %q, want four actions", done.asked)
	}
}

func TestActionsAreRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	idle := "/evaluations/" + string(s.idle)
	for path, want := range map[string]int{idle + "/pause": 403, idle + "/retry": 403} {
		if got, text := s.ask(http.MethodPost, path); got.code != want || !strings.Contains(text, "--allow-actions") {
			t.Errorf("POST %s answers %d, %q; want %d and why", path, got.code, text, want)
		}
	}
	if got, _ := s.ask(http.MethodGet, idle+"/cancel"); got.code != http.StatusNotFound {
		t.Errorf("the page that confirms answers %d, want 404", got.code)
	}
	_, text := s.ask(http.MethodGet, idle)
	if diff := cmp.Diff(0, strings.Count(text, "<form")); diff != "" {
		t.Errorf("a page that only shows has forms: %s", diff)
	}
}
