package store

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// What was paid for is recorded although Redis has no memory left for anything else.
func TestAFullRedisTakesWhatWasPaidFor(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client()
	s := New(client, "")
	r := create(t, s)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), "other", "x", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	task := record.Task{Evaluation: r.ID, Phase: 0, Index: 1, Kind: eval.KindPairwise, Model: "p:m"}
	calls := []record.Call{{ID: "paid"}}
	if _, err := s.SaveProgress(t.Context(), task, Progress{Writer: "w-1", Attempts: 1}, calls); err != nil {
		t.Errorf("save progress: %v", err)
	}
	if _, err := s.AppendCalls(t.Context(), r.ID, calls); err != nil {
		t.Errorf("append calls: %v", err)
	}
	run := record.Run{Index: 1, Kind: eval.KindPairwise, Queue: "openai"}
	if once, err := s.Record(t.Context(), r.ID, eval.StateSucceeded, run, calls); err != nil || !once {
		t.Errorf("record: got %t, %v, want true", once, err)
	}
	if got := len(s.entries(t, r.ID)); got != 3 {
		t.Errorf("%d entries are in the results, want 3", got)
	}
}

// What a server acknowledges names its memory. It is another one after a restart, at a replica
// that takes over, and at an earlier master that takes over again: each may lack the last writes.
func TestMemoryOfAServer(t *testing.T) {
	t.Parallel()
	args := []string{"--appendonly", "yes", "--appendfsync", "always"}
	first, second := redistest.NewTCP(t, args...), redistest.NewTCP(t, args...)
	r := create(t, New(first.Client(), ""))
	seen := map[Memory]string{}
	memory := func(when string, of *redistest.Server) {
		t.Helper()
		s := New(of.Client(), "")
		entry, err := s.AppendCalls(t.Context(), r.ID, []record.Call{{ID: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		held, err := s.Held(t.Context(), r.ID)
		if err != nil || entry.Memory == "" || held.Oldest.Memory != entry.Memory {
			t.Errorf("%s: an entry was acknowledged in memory %q, and is held in %q, %v", when, entry.Memory, held.Oldest.Memory, err)
		}
		if before, known := seen[entry.Memory]; known {
			t.Errorf("%s: the memory is the same as %s", when, before)
		}
		seen[entry.Memory] = when
	}
	follow := func(replica, master *redistest.Server) {
		t.Helper()
		host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(master.URL(), "redis://"), "/0"), ":")
		if err := replica.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
		testrun.Eventually(t, "the replica follows", func() bool {
			return strings.Contains(replica.Client().Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
	promote := func(replica *redistest.Server) {
		t.Helper()
		if err := replica.Client().ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
			t.Fatal(err)
		}
	}

	memory("at first", first)
	first.Kill()
	first.Start()
	testrun.Eventually(t, "it is back", func() bool { return first.Client().Ping(t.Context()).Err() == nil })
	memory("after a restart", first)
	follow(second, first)
	memory("with a replica", first)
	promote(second)
	memory("after a failover", second)
	follow(first, second)
	promote(first)
	memory("after a failover back", first)
}
