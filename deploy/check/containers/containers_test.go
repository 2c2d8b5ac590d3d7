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

var (
	image = flag.String("image", "", "start this image of the engine instead of building one")
	only  = flag.String("faults", "", "let only the faults strike whose names match this regular expression")
)

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

	before, after func(p *project) // or nil: the evaluation
}

// faults strike one after another. Calls in flight are repeated where their worker is killed, or where it cannot renew
// their leases; and at most all calls in flight, each time that this happens.
var faults = []fault{
	{name: "none", strike: func(*project) {}},
	{name: "kill -9 of a worker", strike: func(p *project) { p.kill("worker") }, repeats: mostInFlight},
	{name: "kill -9 of Redis", strike: func(p *project) { p.kill("redis") }, repeats: mostInFlight},
	{name: "kill -9 of the controller", strike: func(p *project) { p.kill("controller") }},
	{name: "kill -9 of all of them", strike: func(p *project) { p.kill("worker", "redis", "controller") }, repeats: mostInFlight},
	{name: "SIGTERM of all workers, up again", strike: func(p *project) {
		p.output("docker compose stop worker")
		p.exited("worker", "0")
		p.output("docker compose up --detach")
	}},
	{name: "restart of workers and controller", strike: func(p *project) { p.output("docker compose restart worker controller") }},
	{name: "restart of Redis", strike: func(p *project) { p.output("docker compose restart redis") }, repeats: mostInFlight},
	{name: "down, then up", strike: func(p *project) {
		p.output("docker compose down")
		p.output("docker compose up --detach")
	}},
	{name: "a worker frozen for 15 s", strike: func(p *project) { p.frozen("worker") }, repeats: mostInFlight},
	{name: "Redis frozen for 15 s", strike: func(p *project) { p.frozen("redis") }, repeats: mostInFlight},
	{name: "a worker cut off for 15 s", strike: func(p *project) {
		id, network := p.containers("worker")[0], p.tag+"_default"
		p.during("docker network disconnect "+network+" "+id, "docker network connect "+network+" "+id)
	}, repeats: mostInFlight},
	{name: "a worker reaches its memory limit", strike: func(p *project) { p.exhaust("worker", "768m") }, repeats: mostInFlight},
	{name: "Redis at maxmemory for 15 s", strike: func(p *project) {
		p.during(toRedis("config set maxmemory 1mb"), toRedis("config set maxmemory 1400mb"))
	}},
	{name: "the results' volume is full for 15 s", before: smallVolumes, strike: func(p *project) { p.fill("results") }, after: ownVolumes},
	{
		name: "Redis' volume is full for 15 s", before: smallVolumes, strike: func(p *project) { p.fill("redis") }, after: ownVolumes,
		repeats: mostInFlight,
	},
	{name: "eight workers, then one", strike: func(p *project) {
		p.output("docker compose up --detach --scale worker=8")
		p.output("docker compose up --detach --scale worker=1")
	}},
	{name: "only a worker of another user", strike: func(p *project) {
		p.output("docker compose run --detach --name " + p.tag + "-other --user 4711:4711 worker")
		p.output("docker compose up --detach --scale worker=0")
	}, after: func(p *project) {
		p.output("docker compose up --detach")
		p.output("docker stop " + p.tag + "-other")
		p.output("docker rm " + p.tag + "-other")
	}},
	// Last: the version stays.
	{name: "update to another version", strike: func(p *project) {
		p.write(".env", strings.Replace(p.read(".env"), "EVALFLEET_TAG="+p.tag, "EVALFLEET_TAG="+p.tag+nextVersion, 1))
		p.output("docker compose up --detach")
		for _, id := range append(p.containers("worker"), p.containers("controller")...) {
			if image := p.output("docker inspect --format '{{.Config.Image}}' " + id); image != "evalfleet:"+p.tag+nextVersion {
				p.t.Errorf("after the update, container %s has the image %s", id, image)
			}
		}
	}},
}

const (
	longerThanALease = 15 * time.Second
	nextVersion      = "-next" // at the end of the image's tag
)

// smallVolumes gives Redis and the controller volumes that can be filled. A container that does nothing keeps them,
// because a volume in memory is gone with its last container.
func smallVolumes(p *project) {
	p.write("docker-compose.override.yml", `services:
  redis: {volumes: ["small-redis:/data"]}
  controller: {volumes: ["small-results:/data"]}
volumes:
  small-redis: {driver_opts: {type: tmpfs, device: tmpfs, o: "size=24m,uid=999,gid=999"}}
  small-results: {driver_opts: {type: tmpfs, device: tmpfs, o: "size=24m,uid=65532,gid=65532"}}
`)
	p.output("docker compose up --detach")
	p.output(fmt.Sprintf("docker run --detach --init --name %[1]s-small --volume %[1]s_small-redis:/redis "+
		"--volume %[1]s_small-results:/results --entrypoint tail %[2]s -f /dev/null", p.tag, p.busybox))
}

func ownVolumes(p *project) {
	p.output("rm docker-compose.override.yml && docker compose up --detach")
	p.output(fmt.Sprintf("docker rm --force %[1]s-small && docker volume rm %[1]s_small-redis %[1]s_small-results", p.tag))
}

// fill fills one of the small volumes, and makes room again.
func (p *project) fill(volume string) {
	p.t.Helper()
	inside := "docker exec " + p.tag + "-small sh -c "
	p.during(inside+"'! dd if=/dev/zero of=/"+volume+"/full bs=4k 2>/dev/null'", inside+"'rm /"+volume+"/full'")
}

// during runs the line of shell that begins a fault, and, longer than a lease later, the line that ends it.
func (p *project) during(begin, end string) {
	p.t.Helper()
	p.output(begin)
	time.Sleep(longerThanALease) // the fault lasts so long, whatever happens meanwhile
	p.output(end)
}

// frozen stops the processes of a service's first container for longer than a lease.
func (p *project) frozen(service string) {
	p.t.Helper()
	id := p.containers(service)[0]
	p.during("docker pause "+id, "docker unpause "+id)
}

// exhaust uses memory in the name of a service's first container until the kernel kills its process: files in memory,
// which belong to whoever writes them, and whose writer is smaller than the process.
func (p *project) exhaust(service, memory string) {
	p.t.Helper()
	id := p.containers(service)[0]
	restarts := "docker inspect --format '{{.RestartCount}}' " + id
	pid, before := p.output("docker inspect --format '{{.State.Pid}}' "+id), p.output(restarts)
	// It ends as the process does, which is no error.
	_, failed := p.run(fmt.Sprintf("docker run --rm --pid host --cgroupns host --security-opt apparmor=unconfined --user 0 "+
		"--volume /sys/fs/cgroup:/sys/fs/cgroup --tmpfs /full:size=%s --entrypoint sh %s -c \"$0\"", memory, p.busybox),
		`path=$(sed -n 's/^[0-9]*:memory://p' /proc/`+pid+`/cgroup)
		folder=/sys/fs/cgroup/memory$path
		[ -n "$path" ] || folder=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/`+pid+`/cgroup)
		echo $$ >"$folder/cgroup.procs"
		exec dd if=/dev/zero of=/full/file bs=1M`)
	p.eventually("the "+service+" is killed and started again", func() error {
		if p.output(restarts) == before {
			return fmt.Errorf("it was not started again: %w", failed)
		}
		return nil
	})
}

// toRedis returns the line of shell that sends a command to Redis.
func toRedis(command string) string {
	return "docker compose exec --no-TTY redis sh -c 'REDISCLI_AUTH=$(cat /run/secrets/redis) redis-cli -e " + command + "'"
}

// exited checks the exit code of a service's containers.
func (p *project) exited(service, want string) {
	p.t.Helper()
	for _, id := range p.containers(service) {
		if code := p.output("docker inspect --format '{{.State.ExitCode}}' " + id); code != want {
			p.t.Errorf("%s ended with %s, want %s", service, code, want)
		}
	}
}

var fenced = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// documented returns the lines of the block of a page that has a line with these words.
func documented(t *testing.T, page, words string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], words) {
			return strings.Split(strings.TrimSpace(block[1]), "\n")
		}
	}
	t.Fatalf("%s has no block with %q", page, words)
	return nil
}

// TestContainers starts the fleet of docker-compose.yml as docs/fleet.md says, sees it rank the essays, and lets faults
// strike. Whatever strikes, every planned run is recorded, never more calls are in flight than allowed, and only calls
// that were in flight are repeated: all as counted by the simulator.
func TestContainers(t *testing.T) {
	p := newCompose(t)
	for _, line := range documented(t, "docs/fleet.md", "--profile simulator up --build") {
		began := time.Now()
		if *image != "" {
			line = strings.Replace(line, " --build", "", 1)
		}
		p.output(line)
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), line)
	}
	p.concludes("essays")
	p.pages()
	for _, service := range []string{"worker", "controller", "redis", "simulator"} {
		for _, id := range p.containers(service) {
			got := p.output("docker inspect --format '{{.HostConfig.ReadonlyRootfs}} {{.Config.User}}' " + id)
			if !regexp.MustCompile(`^true [1-9]`).MatchString(got) {
				t.Errorf("%s has a read-only root and a user as %q, want true and another than root", service, got)
			}
		}
	}
	for _, line := range documented(t, "docs/fleet.md", "docker compose cp controller:") {
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
	p.next()
	p.struck(faults, func(name string) {
		p.write("mine/evaluation.yaml", strings.Replace(ofFaults, "NAME", name, 1))
		p.output("EVALUATIONS=./mine docker compose run --rm enqueue evaluation.yaml")
	})
}

// next makes the image of another version: the same program with another number or, where the image was given, with
// another label.
func (p *project) next() {
	p.t.Helper()
	if *image != "" {
		const build = `printf 'FROM evalfleet:%[1]s\nLABEL version=next\n' | docker build --tag evalfleet:%[1]s%[2]s -`
		p.output(fmt.Sprintf(build, p.tag, nextVersion))
		return
	}
	p.output("EVALFLEET_VERSION=next EVALFLEET_TAG=" + p.tag + nextVersion + " docker compose build")
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

// writeDocuments writes four versions of three essays to mine/docs.
func (p *project) writeDocuments() {
	p.t.Helper()
	for _, essay := range []string{"libraries", "maps", "marsh"} {
		for _, version := range "abcd" {
			name := fmt.Sprintf("docs/%s-%c.md", essay, version)
			p.write("mine/"+name, p.read("examples/essays/"+name))
		}
	}
}

// struck submits an evaluation per fault, and prints what the simulator counted.
func (p *project) struck(faults []fault, submit func(name string)) {
	p.t.Helper()
	p.writeDocuments()
	var table strings.Builder
	fmt.Fprintf(&table, "%-36s %8s %8s %8s %8s %8s\n", "fault", "planned", "recorded", "calls", "repeated", "at most")
	chosen := regexp.MustCompile(*only)
	for i, f := range faults {
		if !chosen.MatchString(f.name) {
			continue
		}
		name := fmt.Sprintf("fault-%d", i)
		p.output(p.toReset)
		if f.before != nil {
			f.before(p)
		}
		submit(name)
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
		if f.after != nil {
			f.after(p)
		}
		if seen.PromptsRepeated > f.repeats {
			p.t.Errorf("%s: %d prompts arrived more than once, want at most %d", f.name, seen.PromptsRepeated, f.repeats)
		}
	}
	p.t.Logf("counted by the simulator:\n%s", table.String())
}
