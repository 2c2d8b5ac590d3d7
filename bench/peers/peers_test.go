package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
)

// TestMain makes the test binary serve as the processes that a comparison starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && !strings.HasPrefix(os.Args[1], "-") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := run(ctx, os.Args[1:])
		stop()
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// BenchmarkPeers executes the workloads with few runs, without BullMQ, and checks that every
// run was answered. `make peers` makes the real comparison.
func BenchmarkPeers(b *testing.B) {
	program := filepath.Join(b.TempDir(), "evalfleet")
	build := exec.Command("go", "build", "-o", program, "./cmd/evalfleet")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, w := range workloads() {
		if w.KillAfter > 0 {
			continue // it takes minutes
		}
		for i := range w.Queues {
			w.Queues[i].Runs /= 20
		}
		for _, c := range []contender{bound{self}, asynqPeer{self}, evalfleet{program}} {
			b.Run(w.Name+"/"+strings.ReplaceAll(c.name(), " ", "-"), func(b *testing.B) {
				for b.Loop() {
					f, err := execute(b.Context(), c, w)
					if err != nil {
						b.Fatal(err)
					}
					if f.Lost != 0 {
						b.Errorf("%d runs without an answer, want 0", f.Lost)
					}
					b.ReportMetric(float64(f.Refused), "refused")
					b.ReportMetric(f.PerSecond, "calls/s")
				}
			})
		}
	}
}

// TestMeasure computes every figure from hand-made times.
func TestMeasure(t *testing.T) {
	second := func(times ...float64) (d []time.Duration) {
		for _, s := range times {
			d = append(d, time.Duration(s*float64(time.Second)))
		}
		return d
	}
	t.Run("slots", func(t *testing.T) {
		// Two slots: one is idle from 3 to 4.
		seen := witness.Stats{
			Arrivals: second(0, 0, 2, 2, 4, 4), Ends: second(2, 2, 3, 4, 6, 6),
			Answered: 6, Distinct: 5, Accepted: 6, Refused: 3, Peak: 2,
		}
		f := measure(queue{witness.Model{MaxInFlight: 2}, 6}, seen, 0)
		if f.SlotsUsed != .75 || f.Lost != 1 || f.Repeats != 1 || f.Refused != 3 || f.Done != 6*time.Second || f.PerSecond != 1 {
			t.Errorf("got %+v, want 0.75 of the slots, 1 lost, 1 repeated, 3 refused, 6 s, 1 call/s", f)
		}
	})
	t.Run("window", func(t *testing.T) {
		// Three at once, then one a second, which is half of the rate of 3 in 1.5 s.
		seen := witness.Stats{Arrivals: second(0, 0, 0, 1, 2, 3), Ends: second(0, 0, 0, 1, 2, 3)}
		f := measure(queue{witness.Model{WindowMax: 3, Window: 1500 * time.Millisecond}, 6}, seen, 0)
		if f.RateUsed != .5 {
			t.Errorf("share of the rate %v, want 0.5", f.RateUsed)
		}
	})
	t.Run("kill", func(t *testing.T) {
		// One of two slots is empty from 1 to 3.
		seen := witness.Stats{Arrivals: second(0, 0, 3, 5), Ends: second(1, 5, 6, 6)}
		f := measure(queue{witness.Model{MaxInFlight: 2}, 4}, seen, time.Second)
		if f.SlotsBack < 1400*time.Millisecond || f.SlotsBack > 2*time.Second {
			t.Errorf("slots in use again after %v, want 1.5 to 2 s", f.SlotsBack)
		}
	})
}

// TestReplaceBetweenMarkers keeps everything around the table.
func TestReplaceBetweenMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMarker+"old\n"+endMarker+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceBetweenMarkers(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := "before\n" + beginMarker + "new\n" + endMarker + "\nafter\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if err := os.WriteFile(path, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceBetweenMarkers(path, "new\n"); err == nil {
		t.Error("a page without markers was accepted")
	}
}
