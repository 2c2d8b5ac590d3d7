package containers

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var image = flag.String("image", "", "start this image of the engine instead of building one")

// ofFaults is the evaluation during which faults strike: 264 runs, for half a minute.
const ofFaults = `name: NAME
documents: ["docs/*.md"]
judges: ["simulator:careful", "simulator:average"]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 8}
`

// mostInFlight is the limit of the simulator's account, in deploy/compose/fleet.yaml and in docker-compose.yml.
const mostInFlight = 8

// fault is what strikes while an evaluation runs. Of the calls in flight, repeats are made again.
type fault struct {
	name    string
	strike  func(p *project)
	repeats int
}

// faults strike one after another. Calls in flight are repeated where their worker is killed, or where it cannot renew
// their leases; and at most all calls in flight, each time that this happens.
var faults = []fault{
	{"none", func(*project) {}, 0},
	{"kill -9 of a worker", func(p *project) { p.kill("worker") }, mostInFlight},
	{"kill -9 of Redis", func(p *project) { p.kill("redis") }, mostInFlight},
	{"kill -9 of the controller", func(p *project) { p.kill("controller") }, 0},
	{"SIGTERM of all workers, up again", func(p *project) {
		p.output("docker compose stop worker")
		p.exited("worker", "0")
		p.output("docker compose up --detach")
	}, 0},
	{"restart of workers and controller", func(p *project) { p.output("docker compose restart worker controller") }, 0},
	{"restart of Redis", func(p *project) { p.output("docker compose restart redis") }, mostInFlight},
	{"down, then up", func(p *project) {
		p.output("docker compose down")
		p.output("docker compose up --detach")
	}, 0},
	{"a worker frozen for 15 s", func(p *project) {
		id := p.container("worker")
		p.output("docker pause " + id)
		time.Sleep(15 * time.Second) // longer than a lease
		p.output("docker unpause " + id)
	}, mostInFlight},
	{"Redis frozen for 15 s", func(p *project) {
		id := p.container("redis")
		p.output("docker pause " + id)
		time.Sleep(15 * time.Second)
		p.output("docker unpause " + id)
	}, mostInFlight},
	{"a worker cut off for 15 s", func(p *project) {
		id, network := p.container("worker"), filepath.Base(p.dir)+"_default"
		p.output("docker network disconnect " + network + " " + id)
		time.Sleep(15 * time.Second)
		p.output("docker network connect " + network + " " + id)
	}, mostInFlight},
	{"a worker out of memory", func(p *project) {
		id := p.container("worker")
		p.output("docker update --memory 6m --memory-swap 6m " + id)
		p.eventually("the worker is killed and started again", func() error {
			if n := p.output("docker inspect --format '{{.RestartCount}}' " + id); n == "0" {
				return errors.New("it was not started again")
			}
			return nil
		})
		p.output("docker update --memory 512m --memory-swap 512m " + id)
	}, mostInFlight},
	{"eight workers, then one", func(p *project) {
		p.output("docker compose up --detach --scale worker=8")
		p.output("docker compose up --detach --scale worker=1")
	}, 0},
	{"only a worker of another user", func(p *project) {
		p.output("docker compose run --detach --user 4711:4711 worker")
		p.output("docker compose up --detach --scale worker=0")
	}, 0},
}

// exited checks the exit code of a service's first container.
func (p *project) exited(service, want string) {
	p.t.Helper()
	if code := p.output("docker inspect --format '{{.State.ExitCode}}' " + p.container(service)); code != want {
		p.t.Errorf("%s ended with %s, want %s", service, code, want)
	}
}

var fenced = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// documented returns the lines of the block of docs/fleet.md that has a line with these words.
func documented(t *testing.T, words string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/fleet.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], words) {
			return strings.Split(strings.TrimSpace(block[1]), "\n")
		}
	}
	t.Fatalf("docs/fleet.md has no block with %q", words)
	return nil
}

// TestContainers starts the fleet of docker-compose.yml as docs/fleet.md says, sees it rank the essays, and lets faults
// strike. Whatever strikes, every planned run is recorded, never more calls are in flight than allowed, and only calls
// that were in flight are repeated: all as counted by the simulator.
func TestContainers(t *testing.T) {
	p := newProject(t)
	for _, line := range documented(t, "--profile simulator up --build") {
		began := time.Now()
		if *image != "" {
			line = strings.Replace(line, " --build", "", 1)
		}
		p.output(line)
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), line)
	}
	p.concludes("essays")
	p.pages()
	for _, line := range documented(t, "docker compose cp controller:") {
		if strings.Contains(line, " status") {
			line = strings.Replace(line, " exec ", " exec --no-TTY ", 1) // a test has no terminal
		}
		if strings.Contains(line, "logs --follow") {
			line = "timeout 5 " + line + " || [ $? = 124 ]"
		}
		p.output(line)
	}
	reports, err := filepath.Glob(filepath.Join(p.dir, "evalfleet-out/essays-*/report.html"))
	if err != nil || len(reports) != 1 {
		t.Errorf("the results that are copied have the reports %v, %v, want one", reports, err)
	}

	p.timed()
	p.struck()
}

// concludes waits until an evaluation has a result.
func (p *project) concludes(name string) evaluation {
	p.t.Helper()
	var e evaluation
	p.eventually(name+" has a result", func() (err error) {
		if e, err = p.status(name); err == nil && e.Result == nil {
			err = fmt.Errorf("%d of %d runs recorded", e.recorded, e.planned)
		}
		return err
	})
	if e.planned == 0 || e.recorded != e.planned {
		p.t.Errorf("%s: %d of %d runs recorded: %s", name, e.recorded, e.planned, e.Result.Headline)
	}
	return e
}

// pages checks that the address of the docs serves the pages.
func (p *project) pages() {
	p.t.Helper()
	p.eventually("http://127.0.0.1:8080 answers", func() error {
		response, err := http.Get("http://127.0.0.1:8080")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// timed prints how long a machine that has the image takes from `up` to the first verdict, with nothing left of an
// earlier fleet but the image.
func (p *project) timed() {
	p.t.Helper()
	p.output("docker compose --profile '*' down --volumes")
	began := time.Now()
	p.output("docker compose --profile simulator up --detach")
	up := time.Since(began)
	p.output("docker compose run --rm enqueue essays/evaluation.yaml")
	submitted := time.Since(began)
	p.eventually("a verdict is recorded", func() error {
		e, err := p.status("essays")
		if err == nil && e.recorded == 0 {
			err = fmt.Errorf("none of %d runs recorded", e.planned)
		}
		return err
	})
	p.t.Logf("up %.1f s, submitted after %.1f s, first verdict after %.1f s", up.Seconds(), submitted.Seconds(), time.Since(began).Seconds())
	p.concludes("essays")
}

// struck runs an evaluation per fault, and prints what the simulator counted.
func (p *project) struck() {
	p.t.Helper()
	for _, essay := range []string{"libraries", "maps", "marsh"} {
		for _, version := range "abcd" {
			name := fmt.Sprintf("docs/%s-%c.md", essay, version)
			p.write("mine/"+name, p.read("examples/essays/"+name))
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-36s %8s %8s %8s %8s %8s\n", "fault", "planned", "recorded", "calls", "repeated", "at most")
	for i, f := range faults {
		name := fmt.Sprintf("fault-%d", i)
		p.write("mine/evaluation.yaml", strings.Replace(ofFaults, "NAME", name, 1))
		if _, err := p.simulator("--post-data= http://simulator:8089/stats/reset"); err != nil {
			p.t.Fatal(err)
		}
		p.output("EVALUATIONS=./mine docker compose run --rm enqueue evaluation.yaml")
		p.eventually("calls are in flight", func() error {
			seen, err := p.witness()
			if err == nil && seen.Answered < mostInFlight {
				err = fmt.Errorf("%+v", seen)
			}
			return err
		})
		began := time.Now()
		f.strike(p)
		e := p.concludes(name)
		seen, err := p.witness()
		if err != nil {
			p.t.Fatal(err)
		}

		line := fmt.Sprintf("%-36s %8d %8d %8d %8d %8d", f.name, e.planned, e.recorded, seen.Arrived-seen.Rejected, seen.PromptsRepeated, seen.MaxInFlight)
		p.t.Logf("%s  (%.0f s)", line, time.Since(began).Seconds())
		fmt.Fprintln(&table, line)
		if seen.MaxInFlight > mostInFlight || seen.Rejected > 0 {
			p.t.Errorf("%s: %d calls in flight and %d refused; the limit is %d", f.name, seen.MaxInFlight, seen.Rejected, mostInFlight)
		}
		if seen.PromptsRepeated > f.repeats {
			p.t.Errorf("%s: %d prompts arrived more than once, want at most %d", f.name, seen.PromptsRepeated, f.repeats)
		}
	}
	p.t.Logf("counted by the simulator:\n%s", table.String())
}
