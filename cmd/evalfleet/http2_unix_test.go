//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// newFleetOverHTTP2 is newFleetWith, with a simulator that speaks HTTPS and HTTP/2.
func newFleetOverHTTP2(t *testing.T, flags ...string) *testFleet {
	t.Helper()
	dir := t.TempDir()
	f := &testFleet{t: t, dir: dir, redis: redistest.NewTCP(t), trusts: filepath.Join(dir, "simulator.pem")}
	f.simulate(append([]string{"--certificate", f.trusts}, flags...)...)
	certificate, err := os.ReadFile(f.trusts)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport}
	return f
}

// TestFleetKeepsTheLimitOverHTTP2: the provider speaks HTTPS and HTTP/2, as the large
// ones do. The workers together keep its limit, and make no call twice.
func TestFleetKeepsTheLimitOverHTTP2(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	f := newFleetOverHTTP2(t, "--max-in-flight", fmt.Sprint(fleetLimit), "--latency", "500ms")
	f.configure(f.provider, calm)
	f.compare(6)
	f.startWorkers(2)
	if code := f.enqueueAndWait().wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	seen := f.stats()
	f.wantNeverOver(seen)
	if seen.All.Arrived != f.runs {
		t.Errorf("the simulator saw %d calls for %d runs", seen.All.Arrived, f.runs)
	}
}

// TestRateLimitAfterAStalledHandshake: the network holds the handshakes of the first
// calls back for longer than their grants are good for, then delivers all at once.
// The calls are granted anew instead of being sent together. The jitter of 3 s is for
// the way from the grant to the write. The time from the write to the simulator's count
// may be as long as its window is shorter than the one that is kept: 2 s at full size, else
// 3 s.
func TestRateLimitAfterAStalledHandshake(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	const stalled, runs = 7, 16
	f := newFleetOverHTTP2(t, "--requests", sizedFleet("10/7s", "10/8s"), "--keep-arrivals", "100")
	network := newWire(t, f.provider)
	f.write("fleet.yaml", fmt.Sprintf(`providers: {simulator: {base_url: "https://%s/v1"}}
concurrency: {per_provider: {simulator: {requests_per_minute: 60, window: sliding:10s, jitter: 3s}}}
`, network.listener.Addr()))
	f.documents(6)
	f.file = f.evaluation("pairs", "simulator:careful", fleetLimit, 1000)

	network.cut()
	f.startWorkers(1)
	enqueue := f.program("enqueue", f.file, "--limit", fmt.Sprint(runs), "--wait", "--out-dir", "out", "--config", "fleet.yaml")
	// No connection is known yet, so each call that is granted opens one.
	testrun.Eventually(t, "the calls wait for their handshakes", func() bool { return network.connections() >= stalled })
	network.mend()
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}

	seen := f.stats()
	seen.wantKept(t)
	if seen.All.Arrived != runs {
		t.Errorf("%d calls arrived for %d runs", seen.All.Arrived, runs)
	}
	for _, a := range f.arrivals() {
		t.Log(a.At.Format("15:04:05.000"), a.RejectedBy)
	}
}
