// Package redistest starts a private redis-server for one test. It can also start several that form a Cluster, or
// that Sentinels watch.
//
// It runs the real server, found on the PATH or named by REDIS_SERVER, on a socket in its own directory. Tests share
// nothing and run in parallel. The package does not install Redis; `make test` does.
package redistest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Silence go-redis. Its log lines about servers that a test killed would hide the test's failure, and commands return
// the same errors.
func init() { redis.SetLogger(discard{}) }

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

// Dialler is a function whose goroutine a test may leave behind for a second. After a server was killed, go-redis
// tries once a second to reconnect. Only then does it notice that its pool is closed.
const Dialler = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// Server is a running redis-server.
type Server struct {
	t      testing.TB
	dir    string
	args   []string
	socket string
	port   int
	tls    bool
	env    []string // in addition to this process's environment
	clock  string   // file with the offset of its clock; empty: it has the machine's clock
	copies int      // number of copies made
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
}

// New starts a server without persistence, reachable over a Unix socket. The server ends with the test. args are
// further redis-server options, such as "--appendonly", "yes".
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, 0, args)
}

// NewTCP starts a server as New does, with a loopback port in addition, for programs that take a URL.
func NewTCP(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, freePort(t), args)
}

// Program returns the name or path of the redis-server that tests start: the value of REDIS_SERVER, by default
// redis-server on the PATH.
func Program() string { return cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server") }

func start(t testing.TB, port int, args []string) *Server {
	t.Helper()
	s := prepare(t, port, args)
	s.begin()
	return s
}

// prepare creates the folder of a server, which begin starts.
func prepare(t testing.TB, port int, args []string) *Server {
	t.Helper()
	if _, err := exec.LookPath(Program()); err != nil {
		t.Fatalf(
			"%s is not a program: `make redis` installs redis-server; by hand: apt-get install redis-server, or brew install redis",
			Program(),
		)
	}
	// Not t.TempDir: its path can be too long for a socket.
	dir, err := os.MkdirTemp("", "ef")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: dir, args: args, socket: filepath.Join(dir, "s"), port: port, tls: slices.Contains(args, "--tls-cert-file")}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	return s
}

// begin starts the server for the first time.
func (s *Server) begin() {
	s.t.Helper()
	s.Start()
	s.remember()
}

// look connects to the server, with the timeouts of Patient.
func (s *Server) look() *redis.Client {
	return redis.NewClient(Patient(&redis.Options{Network: "unix", Addr: s.socket}))
}

// remember makes the server look as if it had been running for a long time. Otherwise the limiter's grace period
// after a start (ratelimit, memory.go) holds back all calls until earlier leases must have expired. The grace period
// applies after FlushAll, and after Kill and Start.
func (s *Server) remember() {
	s.t.Helper()
	client := s.look()
	defer client.Close()
	ctx := context.Background()
	info, err := client.InfoMap(ctx, "server").Result()
	if err == nil {
		err = client.HSet(ctx, "{ef}:limits", "epoch", "long", "run", info["Server"]["run_id"], "since", 0, "blind", 0).Err()
	}
	// These errors are expected of servers that have not formed a Cluster yet, of replicas, and of Sentinels.
	if err != nil && !redis.HasErrorPrefix(err, "CLUSTERDOWN") && !redis.IsReadOnlyError(err) && !slices.Contains(s.args, "--sentinel") {
		s.t.Fatalf("prepare redis-server: %v", err)
	}
}

// Start starts the server again after Kill or Shutdown, on the same socket and port. It returns once the server
// answers.
func (s *Server) Start() {
	s.t.Helper()
	plain, secure := s.port, 0
	if s.tls {
		plain, secure = 0, s.port
	}
	args := []string{
		"--port", strconv.Itoa(plain), "--bind", "127.0.0.1", "--unixsocket", s.socket,
		"--dir", s.dir, "--save", "", "--loglevel", "warning", "--tls-port", strconv.Itoa(secure),
	}

	if len(s.args) > 0 && !strings.HasPrefix(s.args[0], "--") { // a configuration file must come first
		args = append(s.args[:1:1], append(args, s.args[1:]...)...)
	} else {
		args = append(args, s.args...)
	}

	s.cmd = exec.Command(Program(), args...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = append(os.Environ(), s.env...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	release := s.watch()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
	defer client.Close()
	cmd, ended := s.cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		release()
		close(ended)
	}()
	s.ended = ended
	testrun.EventuallyGot(s.t, "redis-server answers", func() (string, bool) {
		err := client.Ping(context.Background()).Err()
		select {
		case <-ended:
			s.t.Fatalf("redis-server ended while starting: %s", s.log())
		default:
		}
		return fmt.Sprintf("%v; it logged: %s", err, s.log()), err == nil
	})
}

// watch starts a shell that ends the server if this process ends without doing so, for example because it is killed.
// release ends the shell.
func (s *Server) watch() (release func()) {
	s.t.Helper()
	shell := exec.Command("sh", "-c", `read -r word || kill -9 "$0"`, strconv.Itoa(s.cmd.Process.Pid))
	input, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		_ = s.cmd.Process.Kill()
		s.t.Fatalf("watch redis-server: %v", err)
	}
	return func() {
		_, _ = io.WriteString(input, "released\n")
		_ = input.Close()
		_ = shell.Wait()
	}
}

// log returns the server's log.
func (s *Server) log() []byte {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return text
}

// Kill ends the server immediately, as kill -9 does. It can be started again.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// patience is the timeout of a client for one answer. The default of go-redis is 3 s, which a script can take on a
// busy machine; go-redis then sends the command again.
const patience = 2 * time.Minute

// Patient sets the timeouts of a client that a test creates itself, and returns its options.
func Patient(options *redis.Options) *redis.Options {
	options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = patience, patience, patience
	return options
}

// PatientCluster sets the same timeouts as Patient, for a client of a Cluster.
func PatientCluster(options *redis.ClusterOptions) *redis.ClusterOptions {
	options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = patience, patience, patience
	return options
}

// Client connects to the server. The client is closed when the test ends. The functions in change modify its options.
func (s *Server) Client(change ...func(*redis.Options)) *redis.Client {
	s.t.Helper()
	options := Patient(&redis.Options{Network: "unix", Addr: s.socket})
	for _, f := range change {
		f(options)
	}
	client := redis.NewClient(options)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// URL returns the server's address for programs. The server must have been started with a port, as by NewTCP.
func (s *Server) URL() string {
	if s.port == 0 {
		s.t.Fatal("redistest: this server has no port; use NewTCP")
	}
	if s.tls {
		return "rediss://" + s.Address()
	}
	return "redis://" + s.Address()
}

// Address returns the server's host and port.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

func freePort(t testing.TB) int {
	t.Helper()
	_, port, err := net.SplitHostPort(testrun.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
