package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/controller"
	"github.com/evalfleet/evalfleet/internal/testrun"
	"github.com/evalfleet/evalfleet/record"
)

// BenchmarkController is what a controller does to Redis and to its machine without workers:
// beside evaluations that have ended, some are active, with runs that wait for an unserved
// provider.
func BenchmarkController(b *testing.B) {
	program := build(b)
	for _, active := range sized([]int{10, 100}, []int{10, 100, 1000}) {
		b.Run(fmt.Sprint(active, "-active"), func(b *testing.B) { idleController(b, program, active, sized(100, 1000)) })
	}
}

func idleController(b *testing.B, program string, active, ended int) {
	for b.Loop() {
		f := newFleet(b, program)
		for i := range ended {
			if id := f.submit(fmt.Sprint("ended ", i), "nobody", 2, "", 1); i == 0 && f.standing(id).Status != record.StatusDone {
				b.Fatalf("%+v, want one that is done", f.standing(id))
			}
		}
		for i := range active {
			f.submit(fmt.Sprint("active ", i), "nobody", 20, "", 0)
		}
		address := free(b)
		process := f.startController(address)
		var scale controller.Scale
		testrun.EventuallyGot(b, "all evaluations are followed, and the scale is told", func() (string, bool) {
			followed, err := f.drained(), ask(address, &scale)
			return fmt.Sprintf("%d of %d followed, scale: %v", followed, active, err), followed >= active && err == nil
		})
		before, used, busy, began := allCommands(b, f.client), cpu(b, f.client), processCPU(b, process.Process.Pid), time.Now()
		time.Sleep(sized(time.Second, 35*time.Second))
		took := time.Since(began).Seconds()
		b.ReportMetric((allCommands(b, f.client)-before)/took, "commands/s")
		b.ReportMetric(100*(cpu(b, f.client)-used).Seconds()/took, "redis-%cpu")
		b.ReportMetric(100*(processCPU(b, process.Process.Pid)-busy).Seconds()/took, "controller-%cpu")
		began = time.Now()
		if err := ask(address, &scale); err != nil || scale.Desired != active*20*19 {
			b.Fatalf("%+v, %v; want %d calls at once", scale, err, active*20*19)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "scale-ms")
	}
}
