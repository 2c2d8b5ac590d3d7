//go:build unix

// Package pgtest gives tests databases of a private PostgreSQL server.
//
// It runs the real server, found on the PATH or where Debian and Homebrew install it, on a socket in its own
// directory. The tests of a package share one server, which the first of them starts, and each test has its own
// database. The package does not install PostgreSQL; `make test` does.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the first role of the cluster. Every role except Locked can connect without a password.
const superuser = "postgres"

// Locked is the name of a role that needs its password. A test that uses it creates it.
const Locked = "locked"

// Server is a running PostgreSQL.
type Server struct {
	dir   string // holds the socket, the data and the log
	bin   string
	as    *syscall.Credential // user that runs the server; nil: the one of this process
	cmd   *exec.Cmd
	alive *os.File // the server ends when this is closed, even if this process is killed
}

// shared starts the package's server once, and returns it.
var shared = sync.OnceValues(start)

// databases counts the databases created on all servers.
var databases atomic.Int64

// New creates an empty database on the package's server and returns its URL. The database is removed when the server
// ends. options are added to CREATE DATABASE.
func New(t testing.TB, options ...string) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.database(t, options)
}

// Own starts a server for one test, which may call Kill and Start.
func Own(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(s.dir)
	})
	return s
}

// Kill ends the server immediately, with all connections.
func (s *Server) Kill() {
	if s.alive == nil {
		return
	}
	_ = os.WriteFile(filepath.Join(s.dir, "kept"), nil, 0o644)
	_ = s.alive.Close()
	s.alive = nil
	_ = s.cmd.Wait()
}

// Start starts the server again after Kill, and returns once it accepts connections.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// New creates an empty database on this server and returns its URL.
func (s *Server) New(t testing.TB) string {
	t.Helper()
	return s.database(t, nil)
}

func (s *Server) database(t testing.TB, options []string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	statement := "CREATE DATABASE " + name
	for _, option := range options {
		statement += " " + option
	}
	Exec(t, s.url(superuser, "postgres"), statement)
	return s.url(superuser, name)
}

func (s *Server) url(role, database string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User(role), Path: "/" + database,
		RawQuery: url.Values{"host": {s.dir}, "connect_timeout": {"120"}}.Encode(), // a busy machine is slow
	}).String()
}

// As returns the URL of the same database for another role.
func As(t testing.TB, database, role string) string {
	t.Helper()
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.User(role)
	return parsed.String()
}

// Exec executes statements in a database.
func Exec(t testing.TB, database, statements string) {
	t.Helper()
	ctx := context.Background() // also valid when the test ends
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// start initialises a cluster and starts its server.
func start() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}

	// Not t.TempDir: its path can be too long for a socket, and other users cannot enter it.
	dir, err := os.MkdirTemp(inMemory(), "ef")
	if err != nil {
		return nil, err
	}

	s := &Server{dir: dir, bin: bin}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if s.as, err = otherUser(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}

	initialize := s.command(filepath.Join(bin, "initdb"), "--pgdata", s.data(), "--no-sync", "--no-instructions",
		"--username", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
	if out, err := initialize.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	access := "local all " + Locked + " scram-sha-256\nlocal all all trust\n"
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(access), 0o644); err != nil {
		return nil, err
	}
	return s, s.start()
}

// inMemory returns a folder in memory with room for the databases of a package, or "" if there is none. A database
// has 300 files. Creating and deleting many of them within seconds slows down every later file on ext4, which then
// skips recently deleted inodes one by one.
func inMemory() string {
	const shared, enough = "/dev/shm", 2 << 30 // the default size in a container is 64 MB
	var room syscall.Statfs_t
	if syscall.Statfs(shared, &room) != nil || float64(room.Bavail)*float64(room.Bsize) < enough {
		return ""
	}
	return shared
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) log() string  { return filepath.Join(s.dir, "log") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// watch starts the server, waits until its input ends, and stops the server. It also removes the files, unless the
// server is to be started again.
const watch = `"$@" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server; [ -e kept ] || rm -rf "$PWD"`

// start starts the server and returns once it accepts connections. The server's shell reads from a pipe whose other
// end this process holds. The server therefore ends with this process, even if that is killed.
func (s *Server) start() error {
	log, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer log.Close()

	input, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	cmd := s.command("sh", "-c", watch, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=32MB",
		// Commits do not wait for the disk. A commit that does not request more may be lost if the server is killed.
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "autovacuum=off",
		"-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "log_min_messages=fatal")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.alive = cmd, alive
	deadline := time.Now().Add(10 * time.Minute)
	for {
		conn, err := pgx.Connect(context.Background(), s.url(superuser, "postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(s.log())
			return fmt.Errorf("postgres does not answer: %w\n%s", err, bytes.TrimSpace(said))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// binaries returns the directory of initdb and postgres.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if _, err := exec.LookPath(filepath.Join(filepath.Dir(path), "postgres")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"} {
		for _, name := range []string{"1?", "2?"} { // version numbers
			newest, _ := filepath.Glob(strings.Replace(pattern, "*", name, 1))
			found = append(found, newest...)
		}
	}
	for _, dir := range slices.Backward(found) {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: `make test` installs it; by hand: apt-get install postgresql, or " +
		"brew install postgresql@17")
}

// otherUser returns a user other than root.
func otherUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user called postgres or nobody")
}
