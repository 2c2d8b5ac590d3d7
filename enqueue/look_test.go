package enqueue

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
)

// commands counts the commands that the bench's Redis has run, those of scripts
// included.
func (b *bench) commands() (sum int) {
	b.t.Helper()
	info, err := b.store.Client().Info(b.t.Context(), "commandstats").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		_, calls, found := strings.Cut(line, ":calls=")
		calls, _, _ = strings.Cut(calls, ",")
		if n, err := strconv.Atoi(calls); found && err == nil {
			sum += n
		}
	}
	return sum
}

// However many evaluations are active, looking at them while nothing happens costs
// Redis no more than 1,000 commands a second, and the queue of one that is busy is
// filled meanwhile as if it were alone.
func TestManyIdleEvaluationsCostLittle(t *testing.T) {
	t.Parallel()
	const evaluations, seconds = 400, 30
	b := setup(t)
	for i := range evaluations {
		b.submit(submission(fmt.Sprint("idle ", i), 2))
	}
	topUp, now := b.topUp(b.store), time.Now()
	step := func() {
		t.Helper()
		next, err := topUp.step(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(next)
	}
	for end := now.Add(20 * time.Second); now.Before(end); { // plans are read, and looks become rare
		step()
	}
	before, end := b.commands(), now.Add(seconds*time.Second)
	for now.Before(end) {
		step()
	}
	if n := (b.commands() - before) / seconds; n > 1000 {
		t.Errorf("%d commands a second for %d idle evaluations, want 1,000 at most", n, evaluations)
	}

	s := submission("busy", 20) // 380 runs
	s.Evaluation.Judges[0] = eval.Judge{Name: "busy:m", Provider: "busy", Model: "m"}
	s.Evaluation.Normalize()
	receipt, ended := b.submit(s), 0
	began := now
	for ended < receipt.Runs && now.Sub(began) < time.Hour {
		ended += len(b.pull("busy", smallWindow))
		step()
	}
	if took := now.Sub(began); took > 20*slowTick {
		t.Errorf("a queue that is used up at once was filled for %s until %d runs had ended, want a look at least every %s", took, ended, slowTick)
	}
}

// What a process remembers of evaluations and their queues goes once they have ended.
func TestTopUpForgetsWhatHasEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	topUp := b.topUp(b.store)
	ids := []eval.ID{b.submit(submission("done", 3)).ID, b.submit(submission("deleted", 4)).ID}
	b.tick(topUp)
	if len(topUp.known) != 2 || len(topUp.stalled) != 2 || len(topUp.pace) != 1 {
		t.Fatalf("%d evaluations, %d shares and %d queues are known; want 2, 2 and 1", len(topUp.known), len(topUp.stalled), len(topUp.pace))
	}
	if err := b.enqueuer(b.store).Delete(t.Context(), ids[1], false); err != nil {
		t.Fatal(err)
	}
	b.pull("p", 100)
	b.tick(b.topUp(b.store)) // another process ends the first
	for _, p := range topUp.pace {
		p.at = p.at.Add(-paceKept)
	}
	b.tick(topUp)
	if n := len(topUp.looks) + len(topUp.known) + len(topUp.full) + len(topUp.stalled) + len(topUp.pace) + len(topUp.dropped); n != 0 {
		t.Errorf("%d facts are remembered of nothing: %v %v %v", n, topUp.stalled, topUp.pace, topUp.full)
	}
}
