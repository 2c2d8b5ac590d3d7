package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// mortal is a client's hook: from a moment on it lets so many commands through, and
// none after them.
type mortal struct {
	mu    sync.Mutex
	armed bool
	left  int
	died  chan struct{}
}

var errMortal = errors.New("killed")

func (m *mortal) arm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = true
}

func (m *mortal) lives() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.armed {
		return true
	}
	if m.left == 0 {
		select {
		case <-m.died:
		default:
			close(m.died)
		}
		return false
	}
	m.left--
	return true
}

func (m *mortal) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (m *mortal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !m.lives() {
			cmd.SetErr(errMortal)
			return errMortal
		}
		return next(ctx, cmd)
	}
}

func (m *mortal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !m.lives() {
			for _, cmd := range cmds {
				cmd.SetErr(errMortal)
			}
			return errMortal
		}
		return next(ctx, cmds)
	}
}

// TestKilledWhileAnAnswerToAllDimensionsIsTaken kills workers after their first, second, third … Redis command since a
// call for all dimensions was answered, and lets others continue. Every dimension must be recorded once, and no call
// for all of them repeated after the first answer was recorded.
func TestKilledWhileAnAnswerToAllDimensionsIsTaken(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for name, change := range map[string]func(entries []string) []string{
		"whole":               func(entries []string) []string { return entries },
		"without some":        func(entries []string) []string { return entries[:3] },
		"without the leaders": func(entries []string) []string { return entries[1:4] },
		"nothing of use":      func([]string) []string { return []string{`"none"`} },
	} {
		for commands := range 11 {
			t.Run(fmt.Sprintf("%s, killed after %d", name, commands), func(t *testing.T) {
				t.Parallel()
				k := kill(t, commands, change)
				k.survive()
				k.wait()
				k.stop()
				k.check()
			})
		}
	}
}

// killed is an evaluation whose worker was killed.
type killed struct {
	*bench
	judge *panelist
	death *mortal
	stop  func() // ends what is left of the worker
	taken bool   // the answer to all dimensions was recorded before it was killed
	given string // dimensions in that answer
}

func kill(t *testing.T, commands int, change func(entries []string) []string) *killed {
	t.Helper()
	k := &killed{judge: &panelist{}, death: &mortal{left: commands, died: make(chan struct{})}}
	k.judge.change = func(_, entries []string) []string {
		k.death.arm()
		given := change(entries)
		k.given = strings.Join(given, ",")
		return given
	}
	k.bench = setup(t, &fakeProvider{answer: k.judge.answer})
	k.submit(1, panel(1, 6, true))
	cfg := k.config()
	cfg.Lease, cfg.Grace = time.Second, time.Millisecond
	cfg.Client = k.server.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	cfg.Client.AddHook(k.death)
	cfg.Log = zerolog.Nop()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = Run(ctx, cfg) // its report about its end does not matter
	}()
	k.stop = func() {
		cancel()
		<-ended
	}
	return k
}

// survive starts another worker once the first is dead.
func (k *killed) survive() {
	k.t.Helper()
	select {
	case <-k.death.died:
	case <-testrun.Context(k.t).Done():
		k.t.Fatal("the worker was not killed")
	}
	_, calls := k.outcomes()
	k.taken = len(calls) > 0
	progress := k.store.Keys().Progress(eval.RunID{Evaluation: k.id})
	marked := k.store.Client().HGet(k.t.Context(), progress, record.ProgressTaken).Val() == "1"
	if runs, _ := k.outcomes(); k.taken && len(runs) == 0 && !marked {
		k.t.Error("the answer was recorded, and neither an outcome nor the leader's progress says so")
	}
	first, second := k.stop, k.start(k.config())
	k.stop = func() {
		first()
		second()
	}
}

func (k *killed) check() {
	k.t.Helper()
	k.t.Logf("taken %t, asked %v", k.taken, k.judge.count())
	k.wantEachOnce()
	asked := k.judge.count()
	for ids, n := range asked {
		switch {
		case ids == "together" && n > 1 && k.taken, n > 2: // 2: one in flight when it was killed
			k.t.Errorf("asked %v; the answer of the first call for all dimensions was recorded: %t", asked, k.taken)
		case k.taken && strings.Contains(k.given, `"`+ids+`"`):
			k.t.Errorf("asked %v after an answer was recorded that has %s", asked, k.given)
		}
	}
}
