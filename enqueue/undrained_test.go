package enqueue

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/eval"
)

// wait puts entries into an evaluation's results.
func (b *bench) wait(id eval.ID, entries, bytes int) {
	b.t.Helper()
	const many = `for i = 1, ARGV[1] do redis.call("XADD", KEYS[1], "*", "run", string.rep("x", ARGV[2])) end`
	err := b.store.Client().Eval(b.t.Context(), many, []string{b.store.Keys().Results(id)}, entries, bytes).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		b.t.Fatal(err)
	}
}

// While results that wait take more than the bound no more runs are pushed, however few
// entries they are; that is said once, and runs are pushed again when they have been
// collected.
func TestResultsThatWaitStopTheTopUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("uncollected", 60)) // 3,540 runs
	said := &strings.Builder{}
	topUp := b.topUp(b.store)
	topUp.waits.bound = 4 << 20
	topUp.log = zerolog.New(said)
	b.pull("p", 450)
	pushed := func() int { return b.pushedAfter(topUp, receipt.ID) }
	b.wait(receipt.ID, 80, 60_000) // few and long
	if got := pushed(); got != firstWindow {
		t.Errorf("%d runs pushed while the bound is passed, want no more than the %d of before", got, firstWindow)
	}
	if n := strings.Count(said.String(), "evalfleet collect"); n != 1 {
		t.Errorf("said %d times that results are to be collected, want once:\n%s", n, said)
	}
	if err := b.store.Client().XTrimMaxLen(t.Context(), b.store.Keys().Results(receipt.ID), 0).Err(); err != nil {
		t.Fatal(err)
	}
	b.wait(receipt.ID, 2000, 100) // many and short
	if got := pushed(); got <= firstWindow {
		t.Errorf("%d runs pushed when 0.3 MB of results wait, want more", got)
	}
}

// pushedAfter is how many runs of an evaluation are pushed after two measuring looks.
func (b *bench) pushedAfter(topUp *TopUp, id eval.ID) int {
	b.t.Helper()
	for range 2 {
		topUp.waits.measured = topUp.waits.measured.Add(-measureEvery)
		if err := topUp.Tick(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	return b.standing(id).Pushed(0, "p", true)
}

// The bound is one for all evaluations. One that uses little of it continues.
func TestTheBoundOnWaitingResultsIsTheFleets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	large, other, small := b.submit(submission("large", 60)), b.submit(submission("other", 60)), b.submit(submission("small", 60))
	topUp := b.topUp(b.store)
	topUp.waits.bound = 4 << 20
	b.pull("p", 3*firstWindow-50)
	b.wait(large.ID, 40, 60_000) // 2.4 MB and 2.4 MB: neither passes the bound alone
	b.wait(other.ID, 40, 60_000)
	b.wait(small.ID, 5, 1000)
	for id, more := range map[eval.ID]bool{large.ID: false, other.ID: false, small.ID: true} {
		if got := b.pushedAfter(topUp, id); got > firstWindow != more {
			t.Errorf("%d runs of %s pushed; more than %d: want %t", got, id, firstWindow, more)
		}
	}
}

// Redis fills up by other things than results, too. Nothing more is enqueued long before
// it refuses what is under way.
func TestNothingIsPushedIntoARedisThatIsNearlyFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := b.submit(submission("short of memory", 60)) // 3,540 runs
	said := &strings.Builder{}
	topUp := b.topUp(b.store)
	topUp.log = zerolog.New(said)
	b.pull("p", 450)
	client := b.store.Client()
	if err := client.SetRange(t.Context(), "another program's", 25<<20, "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "32mb").Err(); err != nil {
		t.Fatal(err)
	}
	if got := b.pushedAfter(topUp, receipt.ID); got != firstWindow {
		t.Errorf("%d runs pushed into a Redis that is nearly full, want no more than the %d of before", got, firstWindow)
	}
	if err := client.Del(t.Context(), "another program's").Err(); err != nil {
		t.Fatal(err)
	}
	if got := b.pushedAfter(topUp, receipt.ID); got <= firstWindow {
		t.Errorf("%d runs pushed when Redis has memory, want more", got)
	}
	for _, want := range []string{"low on memory", "has memory again"} {
		if n := strings.Count(said.String(), want); n != 1 {
			t.Errorf("said %d times %q, want once:\n%s", n, want, said)
		}
	}
}
