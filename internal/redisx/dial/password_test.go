package dial

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// A password file is read for each connection, so that a password can be changed under a running
// process; while the file is missing, its last password is used.
func TestPasswordFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	server := redistest.NewTCP(t)
	admin := server.Client()
	path := filepath.Join(t.TempDir(), "password")
	change := func(password string) {
		t.Helper()
		if err := errors.Join(admin.ConfigSet(t.Context(), "requirepass", password).Err(), os.WriteFile(path, []byte(password+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	drop := func() {
		t.Helper()
		if err := admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	change("first")
	address, err := Parse(Settings{URL: server.URL(), Password: "wrong", PasswordFile: path})
	if err != nil {
		t.Fatal(err)
	}
	client := address.Open("evalfleet", 0)
	t.Cleanup(func() { client.Close() })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	change("second")
	drop()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the password has changed: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	drop()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("while the file is missing: %v", err)
	}
}

// Every form of an address reads the file, unless its URL has a password.
func TestPasswordFilesOfAllForms(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("secret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"redis://me@h", "redis+sentinel://me@h/m", "redis+cluster://me@h", "redis://me:own@h", "redis+sentinel://me:own@h/m", "redis+cluster://me:own@h"} {
		a, err := Parse(Settings{URL: url + "\n", PasswordFile: path})
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		var read func(context.Context) (string, string, error)
		switch {
		case a.watched != nil:
			read = a.watched.CredentialsProviderContext
		case a.cluster != nil:
			read = a.cluster.CredentialsProviderContext
		default:
			read = a.one.CredentialsProviderContext
		}
		if strings.Contains(url, "own") {
			if read != nil {
				t.Errorf("%s: the file replaces the URL's password", url)
			}
			continue
		}
		if user, password, err := read(t.Context()); user != "me" || password != "secret" || err != nil {
			t.Errorf("%s: logs in as %q with %q, %v", url, user, password, err)
		}
	}
	a, err := Parse(Settings{URL: "redis://h", PasswordFile: path + "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.one.CredentialsProviderContext(t.Context()); err == nil || !strings.Contains(err.Error(), path+"x") {
		t.Errorf("a missing file: %v, want its path", err)
	}
}

// Failures of a first connection say what to do.
func TestExplain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ERR max number of clients reached":                             "maxclients",
		"MISCONF Errors writing to the AOF file: No space left":         "make room",
		"ERR unsupported command 'INFO'":                                "connect to Redis itself",
		"WRONGPASS invalid username-password pair or user is disabled.": "refuses the password",
	} {
		if got := explain(answer(text)); !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), text) {
			t.Errorf("%s: %v, want %q", text, got, want)
		}
	}
}

// answer is an error that Redis has answered.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ redis.Error = answer("")
