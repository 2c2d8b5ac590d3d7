package containers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// root of the repository.
const root = "../../.."

// project is a copy of the repository's files, from which a test starts a fleet.
type project struct {
	t       *testing.T
	dir     string
	tag     string // of the image that is tested
	busybox string // an image with a shell and its tools
	images  []string

	// Lines of shell, to ask the fleet and its simulator.
	toEvalfleet, toCount, toReset, toDiagnose string
}

// newProject copies the files that git tracks to a new folder. Compose names the containers after it.
func newProject(t *testing.T) *project {
	t.Helper()
	dir, err := os.MkdirTemp("", "evalfleet-containers-")
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, dir: dir, tag: filepath.Base(dir)}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p.output(`git -C "$0" ls-files -z | tar -C "$0" --null -T - -c | tar -C . -x`, absolute(t, root))
	return p
}

// newCompose returns a project that starts docker-compose.yml. Everything that it starts ends with the test.
func newCompose(t *testing.T) *project {
	t.Helper()
	p := newProject(t)
	// Of its own, so that an image evalfleet:local of this engine stays what it is.
	p.write(".env", "EVALFLEET_TAG="+p.tag+"\n")
	t.Cleanup(p.remove)
	p.bases()
	p.images = append(p.images, "evalfleet:"+p.tag, "evalfleet:"+p.tag+nextVersion)
	if *image != "" {
		p.output("docker tag " + *image + " evalfleet:" + p.tag)
	}

	p.toEvalfleet = "docker compose exec --no-TTY controller evalfleet"
	wget := fmt.Sprintf("docker run --rm --network %s_default --entrypoint wget %s -q -O - ", p.tag, p.busybox)
	p.toCount = wget + "http://simulator:8089/stats"
	p.toReset = wget + "--post-data= http://simulator:8089/stats/reset"
	p.toDiagnose = "docker compose --profile '*' ps --all; docker compose --profile '*' logs --tail 5"
	return p
}

// bases sees to the images from which the files start.
func (p *project) bases() {
	p.t.Helper()
	made := strings.Fields(p.output("sh tools/scripts/base-images.sh"))
	for _, image := range made {
		p.t.Logf("%s: no registry has it here: made of this machine's programs", image)
	}
	p.images = append(p.images, made...)
	p.busybox = regexp.MustCompile(`golang:\S+`).FindString(p.read("deploy/Dockerfile"))
}

// remove ends what the test started, and says what is left.
func (p *project) remove() {
	name := p.tag
	_, _ = p.run(fmt.Sprintf("docker rm --force %[1]s-small %[1]s-other", name))
	_, _ = p.run("docker compose --profile '*' down --volumes --remove-orphans --timeout 10")
	for _, image := range p.images {
		_, _ = p.run("docker image rm --force " + image)
	}
	for _, kind := range []string{"container ls --all", "volume ls", "network ls"} {
		if left, _ := p.run("docker " + kind + " --quiet --filter label=com.docker.compose.project=" + name); left != "" {
			p.t.Errorf("docker %s still has %s", kind, left)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func (p *project) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// run runs a line of shell in the project's folder, and returns what it prints. args are $0, $1 and so on.
func (p *project) run(line string, args ...string) (string, error) {
	command := exec.Command("sh", append([]string{"-c", line}, args...)...)
	command.Dir = p.dir
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", line, err, lastLines(problems.String(), 15))
	}
	return strings.TrimSpace(out.String()), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// output returns what a line of shell prints, which must succeed.
func (p *project) output(line string, args ...string) string {
	p.t.Helper()
	out, err := p.run(line, args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// containers returns the ids of a service's containers. It fails the test if there is none.
func (p *project) containers(service string) []string {
	p.t.Helper()
	ids := strings.Fields(p.output("docker compose --profile '*' ps --all --quiet " + service))
	if len(ids) == 0 {
		p.t.Fatalf("no container of %s", service)
	}
	return ids
}

// kill sends SIGKILL to the first process of each service's first container, at once. `docker kill` would not do: what
// it ends is not started again. The processes belong to the engine's machine, which need not be this one.
func (p *project) kill(services ...string) {
	p.t.Helper()
	var pids []string
	for _, service := range services {
		pids = append(pids, p.output("docker inspect --format '{{.State.Pid}}' "+p.containers(service)[0]))
	}
	p.output(fmt.Sprintf("docker run --rm --pid host --security-opt apparmor=unconfined --user 0 --entrypoint sh %s -c 'kill -9 %s'",
		p.busybox, strings.Join(pids, " ")))
}

// counts are what the simulator saw since they were reset.
type counts struct {
	Arrived         int `json:"arrived"`
	Answered        int `json:"answered"`
	Rejected        int `json:"rejected"`
	InFlight        int `json:"in_flight"`
	MaxInFlight     int `json:"max_in_flight"`
	PromptsRepeated int `json:"prompts_repeated"`
}

func (p *project) witness() (counts, error) {
	var stats struct{ All counts }
	text, err := p.run(p.toCount)
	if err == nil {
		err = json.Unmarshal([]byte(text), &stats)
	}
	return stats.All, err
}

// evaluation is the part of `evalfleet status --json` that is looked at.
type evaluation struct {
	Name   string `json:"name"`
	Phases []struct{ Runs, Succeeded, Failed, Cancelled int }
	Result *struct{ Headline string } `json:"result"`

	planned, recorded int
}

// status returns the evaluation of a name, or name (again), as the controller knows it.
func (p *project) status(name string) (evaluation, error) {
	text, err := p.run(p.toEvalfleet + " status --json")
	if err != nil {
		return evaluation{}, err
	}
	var all []evaluation
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return evaluation{}, fmt.Errorf("status --json: %w: %s", err, text)
	}
	for _, e := range all {
		if e.Name != name {
			continue
		}
		for _, phase := range e.Phases {
			e.planned += phase.Runs
			e.recorded += phase.Succeeded
		}
		return e, nil
	}
	return evaluation{}, fmt.Errorf("status has no evaluation %s: %s", name, text)
}

// eventually calls reached until it returns no error. Its only bound is the deadline of the test.
func (p *project) eventually(what string, reached func() error) {
	p.t.Helper()
	for {
		err := reached()
		if err == nil {
			return
		}
		if end, bounded := p.t.Deadline(); bounded && time.Until(end) < time.Minute {
			logs, _ := p.run(p.toDiagnose)
			p.t.Fatalf("waited for: %s\nlast seen: %v\n%s", what, err, logs)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
