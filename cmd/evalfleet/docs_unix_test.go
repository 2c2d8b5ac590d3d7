//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// notRun are the commands of the pages that this test leaves out, and why.
var notRun = map[string]string{
	"docker": "deploy/check looks up what it names", "helm": "deploy/check renders what it names", "kubectl": "deploy/check looks up what it names",
	"mkdir": "the folder is for docker", "echo": "it writes the .env of docker compose",
	"EVALUATIONS=./mine": "docker", "EVALFLEET_PROMETHEUS=http://prometheus:9090": "docker",
	"export": "the environment has these variables", "htpasswd": "the page shows the file that it writes",
	"pip": "clients/python/tests installs a wheel", "redis-server": "the test has a Redis of its own", "sh": "deploy/check runs deploy/compose/passwords.sh",
}

// TestCommandsInTheDocs runs every command line of the README, of the pages in docs and of the
// examples, with the files beside them, against a simulated provider and a Redis of its own,
// except notRun. Only addresses, and an id, are replaced. With -short, only the README's are run;
// of the others, command and flags are checked.
func TestCommandsInTheDocs(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*", "README.md"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples: %v, %v", examples, err)
	}
	for _, page := range append(append(pages, examples...), filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := fenced(string(text))
		if len(commandsIn(blocks)) == 0 {
			continue
		}
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name != "README.md" {
				for _, line := range commandsIn(blocks) {
					hasItsFlags(t, line)
				}
				return
			}
			d := newDocsBench(t, root, string(text))
			if strings.HasPrefix(name, "examples") {
				d.beside = filepath.Join(d.dir, filepath.Dir(name))
			}
			if strings.Contains(string(text), docsServer) {
				d.serveFleet()
			}
			for _, b := range blocks {
				if name := b.fileName(); name != "" {
					d.write(name, b.text)
				}
			}
			for _, line := range commandsIn(blocks) {
				d.carryOut(line)
			}
		})
	}
}

// block is a fenced block of a page.
type block struct{ language, info, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w+)([^\n]*)\n(.*?)^```$")

func fenced(page string) []block {
	var blocks []block
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, block{m[1], strings.TrimSpace(m[2]), m[3]})
	}
	return blocks
}

var namedInComment = regexp.MustCompile(`^# ([\w.-]+\.ya?ml)\b`)

// fileName is the name of the file that a block shows: "file=NAME" beside its
// language, or a first line that is a comment with the name.
func (b block) fileName() string {
	if name, ok := strings.CutPrefix(b.info, "file="); ok {
		return name
	}
	if m := namedInComment.FindStringSubmatch(b.text); m != nil {
		return m[1]
	}
	return ""
}

// commandsIn are the lines of shell blocks without their comments.
func commandsIn(blocks []block) []string {
	var lines []string
	for _, b := range blocks {
		if b.language != "sh" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// hasItsFlags checks that evalfleet has the command and the flags of a line: it does so before it
// prints the help that is asked for besides.
func hasItsFlags(t *testing.T, line string) {
	t.Helper()
	arguments, ok := strings.CutPrefix(line, "evalfleet ")
	if !ok {
		return
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	arguments, _, _ = strings.Cut(arguments, " | ")
	command := exec.CommandContext(testrun.Context(t), "sh", "-c", `"$0" `+arguments+" --help", path)
	command.Dir = t.TempDir() // of a redirection
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", line, err, tail(string(said)))
	}
}

// docsBench is a folder like a reader's, with what the pages speak of.
type docsBench struct {
	t       *testing.T
	root    string
	dir     string
	beside  string // where an example's page is, in which its commands run
	address *strings.Replacer
	server  string // in place of docsServer; empty: the page has none
	id      string // of the last evaluation that was submitted to it
	env     []string
}

func newDocsBench(t *testing.T, root, page string) *docsBench {
	t.Helper()
	provider, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: map[string]simulator.Model{
		"my-model": {}, "gpt-4.1-mini": {}, "claude-sonnet-4-5": {},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	addresses := []string{
		"http://127.0.0.1:8000/v1", provider.URL + "/v1", "http://10.0.0.5:8000/v1", provider.URL + "/v1",
		":9090", "127.0.0.1:0", "127.0.0.1:8080", "127.0.0.1:0", "0.0.0.0:8080", "127.0.0.1:0", "127.0.0.1:8089", "127.0.0.1:0", "0.0.0.0:8090", "127.0.0.1:0",
	}
	const database = "postgres://ann@db.example.org/evals"
	if strings.Contains(page, database) {
		addresses = append(addresses, database, pgtest.New(t))
	}
	if strings.Contains(page, "redis://") || strings.Contains(page, docsServer) {
		server := redistest.NewTCP(t)
		(&testFleet{t: t, redis: server}).trustRedis()
		redis := server.URL()
		addresses = append(addresses, "redis://redis:6379", redis, "redis://127.0.0.1:6379", redis, "redis://localhost:6379", redis)
	}
	hosted := fmt.Sprintf("providers: {openai-chat: {base_url: %q}, anthropic: {base_url: %q}}\n", provider.URL+"/v1", provider.URL)
	d := &docsBench{t: t, root: root, dir: t.TempDir(), address: strings.NewReplacer(addresses...)}
	d.write("hosted.yaml", hosted)
	d.env = append(os.Environ(), "OPENAI_API_KEY=test", "ANTHROPIC_API_KEY=test", "LOCAL_KEY=test", "EVALFLEET_NOTIFY_SECRET="+notifySecret,
		"EVALFLEET_CONFIG="+filepath.Join(d.dir, "hosted.yaml"), "EVALFLEET_LOG_LEVEL=warn",
		"EVALFLEET_LISTEN=127.0.0.1:0", "EVALFLEET_METRICS_ADDR=127.0.0.1:0") // others use the ports of their defaults
	for i := range 4 {
		d.write(fmt.Sprintf("drafts/draft%d.md", i), fmt.Sprintf("Draft %d says that the tide turns twice a day, %d times.\n", i, i))
		d.write(fmt.Sprintf("docs/document%d.md", i), fmt.Sprintf("Document %d.\n", i))
	}
	var answers strings.Builder
	for i := range 6 {
		fmt.Fprintf(&answers, `{"question_id": "q%d", "question": "Why?", "model": "m%d", "answer": "Because of %d."}`+"\n", i/3, i%3, i)
	}
	d.write("answers.jsonl", answers.String())
	if err := os.CopyFS(filepath.Join(d.dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *docsBench) write(name, text string) {
	d.t.Helper()
	text = d.address.Replace(text)
	// A fleet's file that keeps to built-in providers must not call them.
	if name != "hosted.yaml" && strings.HasPrefix(text, "concurrency:") {
		hosted, err := os.ReadFile(filepath.Join(d.dir, "hosted.yaml"))
		if err != nil {
			d.t.Fatal(err)
		}
		text += string(hosted)
	}
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// docsServer is the address of a controller in the pages, and docsID the id of an evaluation.
const (
	docsServer = "https://ann@evals.example.org"
	docsID     = "ev-abc234def567"
)

// serveFleet starts a worker, and a controller in place of docsServer; evaluation.yaml is
// one that they can run and have run, and results is its output folder.
func (d *docsBench) serveFleet() {
	d.t.Helper()
	redis := d.address.Replace("redis://redis:6379")
	for _, name := range []string{"evaluation", "english", "french"} {
		d.write(name+".yaml", "name: "+name+"\ndocuments: [\"drafts/*.md\"]\njudges: [\"openai-chat:gpt-4.1-mini\", \"anthropic:claude-sonnet-4-5\"]\npairwise: {}\n")
	}
	start := func(args ...string) *program {
		path, err := binary()
		if err != nil {
			d.t.Fatal(err)
		}
		command := exec.Command(path, append(args, "--redis", redis)...)
		command.Env = d.env
		return start(d.t, d.dir, command)
	}
	start("worker")
	d.server = strings.TrimSuffix(start("controller", "--allow-actions").line(), "/") // or "//" is redirected
	if err := os.CopyFS(filepath.Join(d.dir, "essays"), os.DirFS(filepath.Join(d.root, "examples", "essays"))); err != nil {
		d.t.Fatal(err)
	}
	d.carryOut("evalfleet run evaluation.yaml --out-dir results")
	d.carryOut("evalfleet enqueue evaluation.yaml --server " + docsServer + " --wait --out-dir voted")
}

// requests is a line of another program that asks the controller: it has no password to type,
// and fails if it is refused.
func (d *docsBench) requests(line string) string {
	return strings.NewReplacer("curl ", "curl --fail --silent --show-error ", "--user ann ", "--user ann: ",
		"https://evals.example.org", d.server, "http://127.0.0.1:8080", d.server, docsID, d.id).Replace(line)
}

// submittedID is a line with the id of an evaluation.
var submittedID = regexp.MustCompile(`(?m)^ev-[a-z2-7]+$`)

// serves are the commands that run until they are stopped.
var serves = regexp.MustCompile(`^(worker|ui|vote|simulate|controller)\b|--watch|--follow|--no-buffer`)

// command runs a line's shell where a reader would. What fails before a pipe fails.
func (d *docsBench) command(line, shell string) *exec.Cmd {
	d.t.Helper()
	path, err := binary()
	if err != nil {
		d.t.Fatal(err)
	}
	command := exec.Command("bash", "-o", "pipefail", "-c", shell)
	command.Dir, command.Env = d.dir, append(d.env, "PATH="+filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if d.beside != "" && !strings.Contains(line, "examples/") {
		command.Dir = d.beside
	}
	return command
}

// carryOut runs one line. Of a target of the Makefile it checks that there is one.
func (d *docsBench) carryOut(line string) {
	d.t.Helper()
	shell := d.address.Replace(strings.NewReplacer(docsServer, d.server, docsID, d.id).Replace(line))
	if arguments, ok := strings.CutPrefix(shell, "go run ./cmd/evalfleet "); ok {
		shell = "evalfleet " + arguments
	}
	words := strings.Fields(shell)
	switch words[0] {
	case "evalfleet":
		shell = "exec " + shell // signals reach it
	case "jq":
		if _, err := exec.LookPath("jq"); err != nil {
			d.t.Skipf("NOT TESTED: there is no jq for %q", line)
		}
	case "make":
		makefile, err := os.ReadFile(filepath.Join(d.root, "Makefile"))
		if err != nil || !strings.Contains(string(makefile), "\n"+words[1]+":") {
			d.t.Errorf("%q: no such target, %v", line, err)
		}
		return
	case "curl":
		shell = "exec " + d.requests(line)
	case "tar":
		shell = d.requests(line)
	default:
		if notRun[strings.Fields(line)[0]] == "" {
			d.t.Errorf("%q is not run: teach the test to, or add it to notRun with the reason", line)
		}
		return
	}
	if _, err := exec.LookPath("curl"); err != nil && strings.Contains(shell, "curl ") {
		d.t.Skipf("NOT TESTED: there is no curl for %q", line)
	}
	command := d.command(line, shell)
	var output lockedBuffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		d.t.Fatal(err)
	}
	var failed error // once ended
	ended := make(chan struct{})
	go func() {
		failed = command.Wait()
		close(ended)
	}()
	if serves.MatchString(strings.Join(words[1:], " ")) {
		hasItsFlags(d.t, line) // a wrong flag shows here, however slow the machine is
		select {
		case <-ended:
			d.t.Errorf("%q ended at once, %v:\n%s", line, failed, tail(output.String()))
			return
		case <-time.After(300 * time.Millisecond): // a wrong address mostly shows by then
		}
		late, stop := context.WithDeadline(context.Background(), testrun.Deadline(d.t))
		d.t.Cleanup(func() {
			defer stop()
			_ = command.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-late.Done():
				_ = command.Process.Kill()
				d.t.Errorf("%q does not end when told to:\n%s", line, tail(output.String()))
				return
			}
			if code := command.ProcessState.ExitCode(); code > 0 && code != int(exitInterrupted) {
				d.t.Errorf("%q: %v\n%s", line, failed, tail(output.String()))
			}
		})
		return
	}
	select {
	case <-ended:
		if failed != nil {
			d.t.Errorf("%q: %v\n%s", line, failed, tail(output.String()))
		}
		if id := submittedID.FindString(output.String()); id != "" && strings.Contains(line, "--server") {
			d.id = id
		}
	case <-testrun.Context(d.t).Done():
		_ = command.Process.Kill()
		d.t.Errorf("%q has not ended:\n%s", line, tail(output.String()))
	}
}
