package check

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// root of the repository.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// built is the folder of binary, once a test has asked for it.
var built string

// binary is the program as the Dockerfile builds it for this machine: with the Dockerfile's own line, from the
// files that .dockerignore lets into the build.
var binary = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	if err != nil {
		return "", err
	}
	line, err := buildLine(string(text))
	if err != nil {
		return "", err
	}
	// Not t.TempDir, into which another user cannot look.
	dir, err := os.MkdirTemp("", "evalfleet-image-")
	if err != nil {
		return "", err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}

	source := filepath.Join(dir, "src")
	if err := copyContext(source); err != nil {
		return "", err
	}
	line = strings.ReplaceAll(line, "/out/", dir+"/")
	command := exec.Command("sh", "-c", line)
	command.Dir = source
	command.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION="+stamped)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return filepath.Join(dir, "evalfleet"), nil
})

// stamped is the version that the program is built with, in the form of git describe.
const stamped = "v1.0.0-7-g0123456"

var (
	building = regexp.MustCompile(`(?m)^RUN ((?:.*\\\n)*.*\bgo build\b.*)$`)
	mounts   = regexp.MustCompile(`--mount=\S+\s+(\\\n\s*)?`)
)

// buildLine returns the command of a Dockerfile that builds the program, without the mounts of its RUN.
func buildLine(dockerfile string) (string, error) {
	build := building.FindAllStringSubmatch(dockerfile, -1)
	if len(build) != 1 {
		return "", fmt.Errorf("deploy/Dockerfile has %d lines that build, want 1", len(build))
	}
	return mounts.ReplaceAllString(build[0][1], ""), nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// passwords are variables without a flag, which other users of a machine could read.
var passwords = map[string]bool{"EVALFLEET_REDIS_PASSWORD": true, "EVALFLEET_REDIS_SENTINEL_PASSWORD": true}

// wantCommand puts a command line to the program, which refuses what it does
// not know before it prints help, and looks for the flag of every EVALFLEET_
// variable.
func wantCommand(t *testing.T, args []string, env map[string]string) {
	t.Helper()
	if len(args) == 0 {
		t.Error("no command")
		return
	}
	help, err := exec.Command(program(t), append(append([]string{}, args...), "--help-all")...).CombinedOutput()
	if err != nil {
		t.Errorf("evalfleet %s: %v: %s", strings.Join(args, " "), err, help)
	}
	for name := range env {
		if flag, ours := strings.CutPrefix(name, "EVALFLEET_"); ours && !passwords[name] {
			flag = "--" + strings.ReplaceAll(strings.ToLower(flag), "_", "-")
			if !strings.Contains(string(help), "\n  "+flag+" ") {
				t.Errorf("%s: evalfleet %s has no flag %s", name, args[0], flag)
			}
		}
	}
}

// wantGrace: the longest call fits into --grace, and that into the time until
// the container is killed.
func wantGrace(t *testing.T, fleet string, args []string, killed time.Duration) {
	t.Helper()
	longest := longestCall(t, fleet)
	grace, err := time.ParseDuration(flagOf(args, "grace"))
	if err != nil {
		t.Error(err)
	}
	if longest >= grace || grace >= killed {
		t.Errorf("the longest call takes %s, --grace is %s, and then %s until the kill: want each above the one before", longest, grace, killed)
	}
}

// smallest is an evaluation as files.
var smallest = map[string]string{
	"evaluation.yaml": "name: x\ndocuments: [\"*.md\"]\njudges: [\"simulator:careful\"]\npairwise: {}\n",
	"a.md":            "A.", "b.md": "B.",
}

var timeout = regexp.MustCompile(`(?m)^[^#\n]*\btimeout_seconds: *([0-9.]+)`)

// longestCall is the longest timeout_seconds of a fleet's settings, which the
// program must accept.
func longestCall(t *testing.T, fleet string) time.Duration {
	t.Helper()
	files := maps.Clone(smallest)
	files["fleet.yaml"] = fleet
	wantValid(t, files)
	all := timeout.FindAllStringSubmatch(fleet, -1)
	if len(all) == 0 {
		t.Error("no timeout_seconds: the longest call is not written down")
	}
	var longest time.Duration
	for _, m := range all {
		d, err := time.ParseDuration(m[1] + "s")
		if err != nil {
			t.Error(err)
		}
		longest = max(longest, d)
	}
	return longest
}

// wantValid lays files out as a ConfigMap's volume does, each a link into a
// folder that can be exchanged, and lets the program validate evaluation.yaml.
func wantValid(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "..data", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(program(t), "validate", filepath.Join(dir, "evaluation.yaml"), "--config", filepath.Join(dir, "fleet.yaml")).CombinedOutput()
	if err != nil {
		t.Errorf("validate: %v: %s", err, out)
	}
}

// flagOf is the value of a flag in a command line: --name value or --name=value.
func flagOf(args []string, name string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
		if arg == "--"+name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// wantKept: a Redis with these arguments writes down what it is told, and throws
// nothing away. When it is full it says so, before the memory of its container ends.
func wantKept(t *testing.T, args []string, limit int64) {
	t.Helper()
	var most int64
	if _, err := fmt.Sscanf(flagOf(args, "maxmemory"), "%dmb", &most); err != nil || most<<20 < 512<<20 || most<<20 > limit*3/4 {
		t.Errorf("redis has maxmemory %d MB, %v, want at least 512 and at most three quarters of %d MB", most, err, limit>>20)
	}
	redis := strings.Join(args, " ")
	for _, option := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(redis, option) {
			t.Errorf("redis runs without %s: %s", option, redis)
		}
	}
}

// privateRedis starts a redis-server with the options of docker-compose.yml and these,
// and returns its URL.
func privateRedis(t *testing.T, more ...string) string {
	t.Helper()
	address := freeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(secret, []byte(`requirepass "`+redisPassword+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := slices.Clone(project(t).Services["redis"].Command[1:])
	options[slices.Index(options, "/run/secrets/redis.conf")] = secret
	options = append(options, "--bind", host, "--port", port, "--dir", t.TempDir())
	options = append(options, more...)
	server := exec.Command(cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"), options...)
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server: %v; `make redis` installs it", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	eventually(t, "redis-server answers", func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err
	})
	return "redis://:" + redisPassword + "@" + address
}

// redisPassword is the password of a privateRedis.
const redisPassword = "password-of-redis"

// eventually calls reached until it returns no error, and fails the test with the
// last one a little before the test binary's deadline.
func eventually(t *testing.T, what string, reached func() error) {
	t.Helper()
	for {
		err := reached()
		if err == nil {
			return
		}
		if !time.Now().Before(lastMoment(t)) {
			t.Fatalf("waited for: %s\nlast seen: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// lastMoment is when a test must stop waiting, so that it can still say for what.
func lastMoment(t *testing.T) time.Time {
	t.Helper()
	if end, bounded := t.Deadline(); bounded {
		return end.Add(-30 * time.Second)
	}
	return time.Now().Add(time.Hour)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
