//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// sickFaults let a worker join the fleet that is sick for a reason of its own, and stop it when
// they end.
var sickFaults = []chaosFault{
	{"a worker joins whose log is not read", joins(func(c *chaos, fleet []string) (*program, func()) {
		p, log := c.muted(append(fleet, "--config", "fleet.yaml")...)
		return p, func() {
			go func() { _, _ = io.Copy(&p.stderr, log) }()
		}
	})},
	{"a worker joins whose proxy is dead", joins(func(c *chaos, fleet []string) (*program, func()) {
		const dead = "http://127.0.0.1:1"
		return c.sick("by-name.yaml", fleet, "HTTP_PROXY="+dead, "http_proxy="+dead), func() {}
	})},
	{"a worker joins that resolves no name", joins(func(c *chaos, fleet []string) (*program, func()) {
		return c.sick("by-name.yaml", fleet, "HTTP_PROXY=", "http_proxy="), func() {}
	})},
	{"a worker joins whose key was revoked", joins(func(c *chaos, fleet []string) (*program, func()) {
		return c.sick("fleet.yaml", fleet, chaosKeyVariable+"=revoked"), func() {}
	})},
}

// Key of the provider that all but sick workers have, and its environment variable.
const (
	chaosKeyVariable = "CHAOS_KEY"
	chaosKey         = "valid"
)

// joins starts a worker with the flags of the fleet, which start adds to those of its own, and
// later lets it log and stops it. That it then ends with 0 is the judge's to check.
func joins(start func(c *chaos, fleet []string) (p *program, log func())) func(*chaos, uint64) (string, func()) {
	return func(c *chaos, _ uint64) (string, func()) {
		if c.redisStruck {
			return "", nil
		}
		w := newWire(c.t, c.redis.URL())
		c.wires = append(c.wires, w)
		p, log := start(c, append([]string{"worker"}, c.connection(w)...))

		return "it", func() {
			log()
			m := &member{program: p, args: []string{"worker"}}
			testrun.Eventually(c.t, "the sick worker serves, or found no Redis", func() bool { return !c.running(m) || !m.starting() })
			if !c.running(m) && m.starting() && p.cmd.ProcessState.ExitCode() == int(exitUnreachable) {
				return
			}
			m.send(syscall.SIGTERM)
			c.replaced = append(c.replaced, p)
		}
	}
}

// sick starts a worker with a configuration and an environment of its own.
func (c *chaos) sick(config string, args []string, env ...string) *program {
	c.t.Helper()
	return launchWith(c.t, c.dir, env, append(args, "--config", config)...)
}

// login is the user of Redis that the fleet's processes log in as, with a password in a file.
// The test itself needs no password.
type login struct {
	password string
	file     string // that the fleet reads
	rules    string // file of the users that Redis reads
}

const chaosUser = "fleet"

func newLogin(t *testing.T, dir string) *login {
	t.Helper()
	l := &login{file: filepath.Join(dir, "password"), rules: filepath.Join(dir, "users.acl")}
	l.change(t, "first")
	l.tell(t)
	return l
}

// change gives the user another password in Redis's file; tell writes it into that of the fleet.
func (l *login) change(t *testing.T, password string) {
	t.Helper()
	l.password = password
	users := "user default on nopass ~* &* +@all\nuser " + chaosUser + " on >" + password + " ~* &* +@all\n"
	l.write(t, l.rules, users)
}

func (l *login) tell(t *testing.T) {
	t.Helper()
	l.write(t, l.file, l.password+"\n")
}

func (l *login) write(t *testing.T, path, text string) {
	t.Helper()
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// connection returns the flags with which a process of the fleet reaches Redis over a wire.
func (c *chaos) connection(w *wire) []string {
	return []string{
		"--redis", strings.Replace(w.url(), "://", "://"+chaosUser+"@", 1),
		"--redis-password-file", c.login.file,
	}
}

// loadRules lets Redis read the file of its users, and cuts the fleet's connections.
func (c *chaos) loadRules() {
	c.t.Helper()
	c.onRedis(func(ctx context.Context, r *redis.Client) error {
		if err := r.Do(ctx, "acl", "load").Err(); err != nil {
			return err
		}
		return r.Do(ctx, "client", "kill", "user", chaosUser).Err()
	})
}

// changePassword changes the fleet's password in Redis; the fleet's file follows when the fault
// ends.
func changePassword(c *chaos) func() {
	c.login.change(c.t, c.login.password+"+")
	c.loadRules()
	return func() { c.login.tell(c.t) }
}

// forbid takes a category of commands from the fleet's processes.
func forbid(category string) func(*chaos) (end func()) {
	return func(c *chaos) func() {
		c.onRedis(func(ctx context.Context, r *redis.Client) error {
			return r.Do(ctx, "acl", "setuser", chaosUser, "-"+category).Err()
		})
		return c.loadRules
	}
}
