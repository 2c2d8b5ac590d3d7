package check

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unit is a file of systemd: the values of each key.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u := unit{}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u
}

func units(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "deploy/systemd/*.service"))
	if err != nil || len(found) != 2 {
		t.Fatalf("units %v, %v, want those of worker and controller", found, err)
	}
	return found
}

// The units are valid, start commands that the program knows, end only after calls in flight, and may do little. They
// promise systemd no messages that the program does not send.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, path := range units(t) {
		u, name := readUnit(t, path), filepath.Base(path)
		args := strings.Fields(u["ExecStart"][0])
		if args[0] != "/usr/local/bin/evalfleet" {
			t.Errorf("%s starts %s", name, args[0])
		}
		environment := map[string]string{}
		for _, line := range u["Environment"] {
			for pair := range strings.FieldsSeq(line) {
				variable, value, _ := strings.Cut(pair, "=")
				environment[variable] = value
			}
		}
		wantCommand(t, args[1:], environment)
		if u["Type"][0] != "exec" || u["WatchdogSec"] != nil {
			t.Errorf("%s: Type=%s, WatchdogSec=%v; the program sends systemd nothing", name, u["Type"], u["WatchdogSec"])
		}
		if u["Restart"][0] != "on-failure" || u["RestartPreventExitStatus"][0] != "2" || u["StartLimitIntervalSec"][0] != "0" {
			t.Errorf("%s is not restarted after every failure but that of a wrong setting", name)
		}

		var limit, heap int64
		_, err := fmt.Sscanf(u["MemoryMax"][0], "%dM", &limit)
		if _, other := fmt.Sscanf(environment["GOMEMLIMIT"], "%dMiB", &heap); err != nil || other != nil || heap > limit*9/10 || heap < limit*8/10 {
			t.Errorf("%s: GOMEMLIMIT=%s of MemoryMax=%s, want nine tenths", name, environment["GOMEMLIMIT"], u["MemoryMax"])
		}
		if args[1] == "worker" {
			seconds, err := strconv.Atoi(u["TimeoutStopSec"][0])
			if err != nil {
				t.Error(err)
			}
			wantGrace(t, blockOf(t, read(t, "docs/machines.md"), "fleet.yaml"), args, time.Duration(seconds)*time.Second)
		}
	}
}

// systemd itself reads the units, and rates what they may do.
func TestUnitsBySystemd(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT TESTED: there is no systemd-analyze")
	}
	dir := t.TempDir()
	for _, path := range units(t) {
		name := filepath.Base(path)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// It wants a program that is there.
		text := strings.Replace(string(raw), "/usr/local/bin/evalfleet", program(t), 1)
		copied := filepath.Join(dir, name)
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput(); err != nil || strings.Contains(string(out), name) {
			t.Errorf("systemd-analyze verify: %v: %s", err, out)
		}
		out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", copied).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security rates %s above 2.0: %v: %s", name, err, out)
		}
	}
}

// Redis of the machines keeps what it is told, as that of docker-compose.yml does.
func TestRedisOfMachines(t *testing.T) {
	t.Parallel()
	var args []string
	for line := range strings.Lines(read(t, "deploy/systemd/redis.conf")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key != "#" {
			args = append(args, "--"+key, value)
		}
	}
	wantKept(t, args, 2<<30)
}

// A release has the units, at the place that the page names.
func TestReleaseHasUnits(t *testing.T) {
	t.Parallel()
	for _, f := range parsed[release](t, ".goreleaser.yaml").Archives[0].Files {
		if f.Src == "deploy/systemd/*" && f.Dst == "systemd" {
			return
		}
	}
	t.Error("the archives have no folder systemd")
}

// blockOf returns the block of a page that shows a file.
func blockOf(t *testing.T, page, file string) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```\\w+\n(# " + regexp.QuoteMeta(file) + "\n.*?)^```$").FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page shows no %s", file)
	}
	return m[1]
}

// machine is a machine of docs/machines.md: a folder with its /etc and /usr/local/bin, and one in which its reader works.
type machine struct {
	t       *testing.T
	dir     string
	first   *machine // nil: this is the first machine
	redis   string   // the address of Redis on the first machine
	replace *strings.Replacer
}

// shims are programs that a test cannot run: what they are told is done here, or noted for systemctl.
var shims = map[string]string{
	"sudo":      `exec "$@"`,
	"apt-get":   `exit 0`,
	"systemctl": `echo "$@" >>"$MACHINE/systemctl"`,
	"scp":       `for file; do case $file in root@*:*) cp "$FIRST${file#root@*:}" .;; esac; done`,
}

func newMachine(t *testing.T, first *machine, redis, archive string, replace *strings.Replacer) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), first: first, redis: redis, replace: replace}
	for _, folder := range []string{"etc/systemd/system", "etc/redis", "usr/local/bin", "home/drafts", "shims", "redis", "credentials"} {
		if err := os.MkdirAll(filepath.Join(m.dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range shims {
		m.write("shims/"+name, "#!/bin/sh\n"+text+"\n", 0o755)
	}
	for i := range 4 {
		m.write(fmt.Sprintf("home/drafts/%d.md", i), strings.Repeat("The tide turns. ", i+1), 0o644)
	}
	if out, err := exec.Command("cp", archive, filepath.Join(m.dir, "home")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return m
}

func (m *machine) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	m.t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(raw)
}

// do runs the shell blocks of a section of the page, with its files beside them, and starts the services that they ask
// for. It returns what they print.
func (m *machine) do(section string) string {
	m.t.Helper()
	var printed strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		text := m.replace.Replace(block[2])
		if name := regexp.MustCompile(`^# (\S+)\n`).FindStringSubmatch(text); block[1] != "bash" && name != nil {
			m.write("home/"+name[1], text, 0o644)
			continue
		}
		// The shim of scp adds the folder of the first machine.
		text = strings.NewReplacer(":/etc/", ":/etc/", "/etc/", m.dir+"/etc/", "/usr/local/bin/", m.dir+"/usr/local/bin/").Replace(text)
		command := exec.CommandContext(m.t.Context(), "bash", "-e", "-u", "-o", "pipefail", "-c", text)
		command.Dir = filepath.Join(m.dir, "home")
		command.Env = append(os.Environ(), "MACHINE="+m.dir, "PATH="+m.dir+"/shims:"+m.dir+"/usr/local/bin:"+os.Getenv("PATH"))
		if m.first != nil {
			command.Env = append(command.Env, "FIRST="+m.first.dir)
		}
		out, err := command.CombinedOutput()
		if err != nil {
			m.t.Fatalf("%v:\n%s\n%s", err, text, out)
		}
		printed.Write(out)
		m.obey()
	}
	return printed.String()
}

// obey starts what systemctl was told to start.
func (m *machine) obey() {
	m.t.Helper()
	path := filepath.Join(m.dir, "systemctl")
	told, err := os.ReadFile(path)
	if err != nil {
		return // nothing
	}
	if err := os.Remove(path); err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(told)) {
		switch words := strings.Fields(line); words[len(words)-1] {
		case "daemon-reload":
		case "redis-server":
			m.start(exec.Command(cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"), filepath.Join(m.dir, "etc/redis/redis.conf"), "--bind", "127.0.0.1"))
			eventually(m.t, "redis-server answers", func() error {
				connection, err := net.Dial("tcp", m.redis)
				if err == nil {
					_ = connection.Close()
				}
				return err
			})
		default:
			m.startUnit(words[len(words)-1])
		}
	}
}

// startUnit starts a service as systemd does: with its files' copies, and no other environment than its own.
func (m *machine) startUnit(name string) {
	m.t.Helper()
	u := readUnit(m.t, filepath.Join(m.dir, "etc/systemd/system", name+".service"))
	credentials, state := filepath.Join(m.dir, "credentials"), filepath.Join(m.dir, "var/lib")
	for _, credential := range u["LoadCredential"] {
		id, path, _ := strings.Cut(credential, ":")
		raw, err := os.ReadFile(filepath.Join(m.dir, path))
		if err != nil {
			m.t.Fatalf("%s: %v", name, err)
		}
		m.write("credentials/"+id, string(raw), 0o400)
	}
	var environment []string
	for _, line := range u["Environment"] {
		environment = append(environment, strings.Fields(strings.ReplaceAll(line, "%d", credentials))...)
	}
	for _, file := range u["EnvironmentFile"] {
		raw, err := os.ReadFile(filepath.Join(m.dir, file))
		if err != nil {
			m.t.Fatalf("%s: %v", name, err)
		}
		environment = append(environment, strings.Fields(string(raw))...)
	}

	args := strings.Fields(m.replace.Replace(u["ExecStart"][0]))
	command := exec.Command(filepath.Join(m.dir, args[0]), args[1:]...)
	command.Env = append(environment, "EVALFLEET_METRICS_ADDR=off") // machines of their own have a port each
	for _, folder := range u["StateDirectory"] {
		if err := os.MkdirAll(filepath.Join(state, folder), 0o700); err != nil {
			m.t.Fatal(err)
		}
	}
	for _, folder := range u["WorkingDirectory"] {
		command.Dir = strings.ReplaceAll(folder, "%S", state)
	}
	m.start(command)
}

// start runs a service until the test ends, and shows its log if the test fails.
func (m *machine) start(command *exec.Cmd) {
	m.t.Helper()
	var log strings.Builder
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			m.t.Errorf("%v ended with %v", command.Args, err)
		}
		if m.t.Failed() {
			m.t.Logf("%v:\n%s", command.Args, log.String())
		}
	})
}

// The commands of docs/machines.md lead from empty machines to a report. The machines are folders, and their network is
// loopback.
func TestThreeMachines(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/machines.md")
	sections := map[string]string{}
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}

	// The archive has what .goreleaser.yaml puts there: the program, and the units in systemd.
	name := regexp.MustCompile(`evalfleet_\S+_linux_amd64\.tar\.gz`).FindString(page)
	packed := t.TempDir()
	folder := filepath.Join(packed, strings.TrimSuffix(name, ".tar.gz"))
	for _, line := range []string{
		"mkdir -p " + folder, "cp " + program(t) + " " + folder, "cp -r " + root + "/deploy/systemd " + folder,
		"tar -C " + packed + " -czf " + packed + "/" + name + " " + filepath.Base(folder),
	} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}

	settings := filepath.Join(packed, "simulator.json")
	if err := os.WriteFile(settings, []byte(`{"models": {"gpt-4.1-mini": {}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	simulator := exec.Command(program(t), "simulate", "--listen", "127.0.0.1:0", "--settings", settings)
	stdout, err := simulator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := simulator.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = simulator.Process.Kill()
		_ = simulator.Wait()
	})
	provider, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	redis := freeAddress(t)
	replace := strings.NewReplacer("10.0.0.1:6379", redis, "127.0.0.1:8080", freeAddress(t), "OPENAI_API_KEY=…", "OPENAI_API_KEY=test",
		"# fleet.yaml\n", "# fleet.yaml\nproviders: {openai-chat: {base_url: \""+strings.TrimSpace(provider)+"/v1\"}}\n")

	first := newMachine(t, nil, redis, filepath.Join(packed, name), replace)
	first.write("etc/redis/redis.conf", "bind 127.0.0.1 -::1\nport "+redis[strings.LastIndex(redis, ":")+1:]+"\ndir "+first.dir+"/redis\n", 0o644)
	all := []*machine{first}
	for range 2 {
		all = append(all, newMachine(t, first, redis, filepath.Join(packed, name), replace))
	}
	for _, m := range all {
		m.do(sections["On every machine"])
	}
	first.do(sections["On the first machine"])
	for _, m := range all[1:] {
		m.do(sections["On each of the other machines"])
	}
	printed := first.do(sections["The first report"])

	if !exists(first.dir, "home/report/report.html") || !strings.Contains(printed, "12 of 12 succeeded") {
		t.Errorf("there is no report: %s", printed)
	}
	if out, err := status(t, "redis://"+redis, strings.TrimSpace(first.read("etc/evalfleet/redis-password"))); err != nil || !strings.Contains(out, "workers alive: 2") {
		t.Errorf("status: %v: %s, want 2 workers", err, out)
	}
	for _, m := range all[1:] {
		if exists(m.dir, "home/keys.env") || exists(m.dir, "home/redis-password") {
			t.Error("keys are left in the folder of the person who installed them")
		}
	}
	if titles := slices.Sorted(maps.Keys(sections)); len(titles) != 5 {
		t.Errorf("sections %q: the test does not know all", titles)
	}
}
