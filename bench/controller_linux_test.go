package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/controller"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// BenchmarkController is what a controller does to Redis and to its machine without workers:
// beside evaluations that have ended, some are active, with runs that wait for an unserved
// provider.
func BenchmarkController(b *testing.B) {
	program := build(b)
	for _, active := range sized([]int{10, 100}, []int{10, 100, 1000}) {
		b.Run(fmt.Sprint(active, "-active"), func(b *testing.B) {
			for b.Loop() {
				i := idleController(b, program, active, sized(100, 1000))
				b.ReportMetric(i.commands, "commands/s")
				b.ReportMetric(100*i.redis, "redis-%cpu")
				b.ReportMetric(100*i.own, "controller-%cpu")
				b.ReportMetric(i.scale, "scale-ms")
			}
		})
	}
}

// idling is what a controller costs.
type idling struct {
	commands   float64 // a second
	redis, own float64 // CPUs
	scale      float64 // ms that GET /scale takes
}

func idleController(b *testing.B, program string, active, ended int) idling {
	f := newFleet(b, program)
	for i := range ended {
		if id := f.submit(fmt.Sprint("ended ", i), "nobody", 2, "", 1); i == 0 && f.standing(id).Status != record.StatusDone {
			b.Fatalf("%+v, want one that is done", f.standing(id))
		}
	}
	for i := range active {
		f.submit(fmt.Sprint("active ", i), "nobody", 20, "", 0)
	}
	address := testrun.FreeAddress(b)
	process := f.startController(address)
	var scale controller.Scale
	testrun.EventuallyGot(b, "all evaluations are followed, and /scale answers", func() (string, bool) {
		followed, err := f.drained(), ask(address, &scale)
		return fmt.Sprintf("%d of %d followed, scale: %v", followed, active, err), followed >= active && err == nil
	})
	before, used, busy, began := allCommands(b, f.client), cpu(b, f.client), processCPU(b, process.Process.Pid), time.Now()
	time.Sleep(sized(time.Second, 35*time.Second))
	took := time.Since(began).Seconds()
	i := idling{
		commands: (allCommands(b, f.client) - before) / took,
		redis:    (cpu(b, f.client) - used).Seconds() / took,
		own:      (processCPU(b, process.Process.Pid) - busy).Seconds() / took,
	}
	began = time.Now()
	if err := ask(address, &scale); err != nil || scale.Desired != active*20*19 {
		b.Fatalf("%+v, %v; want %d calls at once", scale, err, active*20*19)
	}
	i.scale = float64(time.Since(began).Microseconds()) / 1000
	_ = process.Process.Kill() // beside the next it would count as busy
	_ = process.Wait()
	return i
}

// BenchmarkBusyController is what a controller asks of Redis while a worker works on all active
// evaluations at once, and how many of these had results in that time.
func BenchmarkBusyController(b *testing.B) {
	program := build(b)
	evaluations, latency := sized(10, 1000), sized(100*time.Millisecond, 3*time.Second)
	provider, address := simulated(b, latency)
	for b.Loop() {
		f := newFleet(b, program)
		f.askAt(address, "p")
		sink := "sqlite:" + filepath.Join(f.dir, "results.db")
		for i := range evaluations {
			f.submit(fmt.Sprint("busy ", i), "p", 20, sink, 0)
		}
		server := f.redis
		f.redis = f.redisAs("controller")
		controller := f.startController("off").Process.Pid
		f.redis = server
		answered := provider.Stats().All.Answered
		testrun.EventuallyGot(b, "all evaluations are followed", func() (string, bool) {
			followed := f.drained()
			return fmt.Sprintf("%d of %d followed", followed, evaluations), followed >= evaluations
		})
		f.startWorker("--slots", strconv.Itoa(evaluations))
		testrun.EventuallyGot(b, "each has an answer on average", func() (string, bool) {
			answers := provider.Stats().All.Answered - answered
			return fmt.Sprintf("%d answers", answers), answers > int64(evaluations)
		})
		answered = provider.Stats().All.Answered
		used, busy, began := cpu(b, f.client), processCPU(b, controller), time.Now()
		m := f.monitor("controller", sized(2*time.Second, 30*time.Second))
		took := time.Since(began).Seconds()
		b.ReportMetric(float64(m.sent+m.nested)/took, "commands/s")
		b.ReportMetric(float64(m.sent)/took, "sent/s")
		b.ReportMetric(float64(m.all)/took, "all-commands/s")
		b.ReportMetric(float64(provider.Stats().All.Answered-answered)/took, "runs/s")
		b.ReportMetric(float64(len(m.recorded)), "evaluations")
		b.ReportMetric(100*(cpu(b, f.client)-used).Seconds()/took, "redis-%cpu")
		b.ReportMetric(100*(processCPU(b, controller)-busy).Seconds()/took, "controller-%cpu")
		b.ReportMetric(resident(b, controller), "controller-MB")
	}
	b.Logf("%d evaluations, calls of %s", evaluations, latency)
}

// monitored is what Redis executed in a while.
type monitored struct {
	all, sent, nested int             // commands: of all users, of one, and those that its scripts made
	recorded          map[string]bool // streams of results that grew
}

// monitor watches all commands for a while. A script's own commands follow it, and count as its
// client's.
func (f *fleet) monitor(user string, while time.Duration) monitored {
	f.b.Helper()
	ctx, cancel := context.WithTimeout(f.b.Context(), while)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(f.redis, "redis://"))
	if err != nil {
		f.b.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if _, err := fmt.Fprint(connection, "MONITOR\r\n"); err != nil {
		f.b.Fatal(err)
	}
	m := monitored{recorded: map[string]bool{}}
	sent, nested, client := map[string]int{}, map[string]int{}, "" // by client
	lines := bufio.NewScanner(connection)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		from, command, ok := strings.Cut(lines.Text(), `] "`)
		if !ok {
			continue
		}
		_, from, _ = strings.Cut(from, "[0 ")
		if m.all++; from == "lua" {
			nested[client]++
			if rest, ok := strings.CutPrefix(command, `XADD" "`); ok {
				stream, _, _ := strings.Cut(rest, `"`)
				m.recorded[stream] = true
			}
		} else {
			client = from
			sent[client]++
		}
	}
	for line := range strings.Lines(f.client.ClientList(f.b.Context()).Val()) {
		fields := strings.Fields(line)
		if slices.Contains(fields, "user="+user) {
			address := strings.TrimPrefix(fields[1], "addr=")
			m.sent += sent[address]
			m.nested += nested[address]
		}
	}
	return m
}

// redisAs adds a user to Redis, and returns the address with it.
func (f *fleet) redisAs(user string) string {
	f.b.Helper()
	if err := f.client.Do(f.b.Context(), "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all").Err(); err != nil {
		f.b.Fatal(err)
	}
	return strings.Replace(f.redis, "redis://", "redis://"+user+":secret@", 1)
}
