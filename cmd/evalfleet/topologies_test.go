package main

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/redisx/dial"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// guarded are the options of servers that speak TLS alone and know the user
// evalfleet, who has the rights of docs/redis.md, no more.
func guarded(certificates redistest.Certificates) []string {
	user := append([]string{"--user", "evalfleet", "on", ">secret"}, strings.Fields(dial.Rights("ef", dial.Controller))...)
	return append(certificates.Args(false), user...)
}

// newFleetAt is a fleet as of newFleet, on guarded servers.
func newFleetAt(t *testing.T, url string, certificates redistest.Certificates, documents int) *testFleet {
	t.Helper()
	f := &testFleet{t: t, dir: t.TempDir()}
	f.access = []string{"--redis", url, "--redis-ca", certificates.CA, "--redis-password-file", f.write("password", "secret\n")}
	f.simulate("--max-in-flight", fmt.Sprint(fleetLimit), "--latency", "500ms")
	f.write("fleet.yaml", fmt.Sprintf("providers: {simulator: {base_url: %q}}\nconcurrency: {lease: 8s}\n", f.provider+"/v1"))
	f.compare(documents)
	return f
}

// TestFleetSurvivesFailover: the master dies in the middle, and its replica takes
// over; at the whole size it lacks what was written in the last second. Nothing is
// recorded twice, the limit is kept, and only what was in flight is called again, or
// was lost.
func TestFleetSurvivesFailover(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	certificates := redistest.NewCertificates(t)
	w := redistest.NewWatched(t, guarded(certificates)...)
	f := newFleetAt(t, w.URL("evalfleet@"), certificates, sizedFleet(8, 12)) // 112 or 264 runs
	f.startWorkers(4)
	enqueue := f.enqueueAndWait()
	cut := f.until("a third has been begun", func(s seen) bool { return s.All.Arrived > f.runs/3 }).All.Arrived
	if *fullFleet { // runs whose end is lost are called again when asynq's lease of them is over, after up to two minutes
		for _, command := range [][]any{{"acl", "setuser", "default", "-psync"}, {"client", "kill", "type", "replica"}} {
			if err := w.Master.Client().Do(t.Context(), command...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f.until("more is written", func(s seen) bool { return s.All.Arrived > cut+fleetLimit })
	}
	offset := func(s *redistest.Server) string {
		info, err := s.Client().InfoMap(t.Context(), "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		return info["Replication"]["master_repl_offset"]
	}
	written, copied := offset(w.Master), offset(w.Replica)
	w.Master.Kill()
	died := f.stats().All.Arrived
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	f.wantNeverOver(end)
	t.Logf("%d calls for %d runs, at most %d in flight; the master died after %d calls, at byte %s of its log; the replica had %s",
		end.All.Arrived, f.runs, end.All.MaxInFlight, died, written, copied)
	if end.All.Arrived > f.runs+fleetLimit+died-cut {
		t.Errorf("%d calls for %d runs: more than those in flight, and those lost, were made again", end.All.Arrived, f.runs)
	}
	f.wantRights(w.Replica)
}

// TestFleetOnACluster: three masters, four workers and a controller, and every
// command; the user's rights are enough, and none is more than what is used.
func TestFleetOnACluster(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	certificates := redistest.NewCertificates(t)
	c := redistest.NewCluster(t, false, guarded(certificates)...)
	f := newFleetAt(t, c.URL("evalfleet@"), certificates, 7) // 84 runs
	for _, s := range c.Masters {
		if err := s.Client().ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	f.startWorkers(4)
	pages := testrun.FreeAddress(t)
	f.program("controller", "--drain=false", "--listen", pages, "--allow-actions")
	enqueue := f.enqueueAndWait()
	f.until("a third has been begun", func(s seen) bool { return s.All.Arrived > f.runs/3 })
	f.looks(pages)
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	end := f.stats()
	f.wantNeverOver(end)
	t.Logf("%d calls for %d runs, at most %d in flight", end.All.Arrived, f.runs, end.All.MaxInFlight)
	if end.All.Arrived != f.runs {
		t.Errorf("%d calls for %d runs", end.All.Arrived, f.runs)
	}
	f.steers(pages)
	f.wantRights(c.Masters...)
	used := usedCommands(t, c.Masters...)
	for _, right := range strings.Fields(dial.Rights("ef", dial.Controller)) {
		if name, ok := strings.CutPrefix(right, "+"); ok && !used[name] {
			t.Errorf("the right to %s is not used", name)
		}
	}
}

// looks has commands and pages read while the fleet works.
func (f *testFleet) looks(pages string) {
	f.t.Helper()
	for _, args := range [][]string{{"status", "--json"}, {"limits", "--json"}} {
		if code := f.program(args...).wait(); code != 0 {
			f.t.Errorf("%v ended with %d", args, code)
		}
	}
	testrun.Eventually(f.t, "the pages are served", func() bool {
		conn, err := net.Dial("tcp", pages)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	for _, path := range []string{"queues", "queues/simulator", "servers", "queues/simulator/active_tasks", "queues/simulator/pending_tasks", "queues/simulator/completed_tasks"} {
		f.askQueues(http.MethodGet, pages, path)
	}
}

// steers has commands change an evaluation that has not ended, and asynqmon its
// queue and tasks.
func (f *testFleet) steers(pages string) {
	f.t.Helper()
	file := f.evaluation("more", "simulator:careful", fleetLimit, 1)
	enqueue := f.program("enqueue", file, "--config", "fleet.yaml")
	if code := enqueue.wait(); code != 0 {
		f.t.Fatalf("enqueue ended with %d", code)
	}
	lines := strings.Fields(enqueue.stdout.String())
	id := lines[len(lines)-1]
	for _, args := range [][]string{{"pause", id}, {"resume", id}, {"show", id + ".0.1"}, {"cancel", id}, {"retry", id}, {"delete", id, "--force"}} {
		f.program(args...).wait()
	}
	queue := "queues/simulator~" + id
	for _, path := range []string{":pause", "/pending_tasks:archive_all", "/archived_tasks:run_all", ":resume"} {
		f.askQueues(http.MethodPost, pages, queue+path)
	}
}

// askQueues sends a request to asynqmon.
func (f *testFleet) askQueues(method, pages, path string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+pages+"/asynqmon/api/"+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	f.t.Logf("%s %s: %s %.200s", method, path, response.Status, raw)
}

// wantRights wants that nothing was refused for want of rights.
func (f *testFleet) wantRights(servers ...*redistest.Server) {
	f.t.Helper()
	for _, s := range servers {
		refused, err := s.Client().ACLLog(f.t.Context(), 10).Result()
		if err != nil {
			f.t.Fatal(err)
		}
		for _, entry := range refused {
			f.t.Errorf("refused %s %s to %s: %s", entry.Reason, entry.Object, entry.Username, entry.ClientInfo.LAddr)
		}
	}
}

var calledInScript = regexp.MustCompile(`call\(\s*['"](\w+)['"]`)

// usedCommands are those that servers have been asked for, or that a script of ours
// may ask for.
func usedCommands(t *testing.T, servers ...*redistest.Server) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for _, s := range servers {
		info, err := s.Client().Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(info) {
			name, calls, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if ok && !strings.HasPrefix(calls, "0,") { // those were refused, as by a server that has not the key
				used[name] = true
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".lua" {
			return err
		}
		source, err := os.ReadFile(path)
		for _, call := range calledInScript.FindAllSubmatch(source, -1) {
			used[strings.ToLower(string(call[1]))] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}
