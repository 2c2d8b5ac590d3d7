// Package pulse detects handlers that make no progress. A handler announces how long its next step may take, or that it
// waits for others; a watchdog counts the time.
//
// The watchdog counts its own beats instead of reading a clock. A process that was frozen, or gets little processor
// time, beats less often, and finds nothing late when it continues.
package pulse

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// Step is how long a step that is not a call may take: a few Redis commands, or a request about a job, with all
	// their timeouts.
	Step = 3 * time.Minute
	// Grace is how much longer than its timeout a call may take until it counts as stuck.
	Grace = time.Minute
)

// Pulse is the pulse of one handler. A nil Pulse is not watched.
type Pulse struct {
	left      atomic.Int64 // nanoseconds until the handler is late
	goroutine string       // the handler's goroutine as named in a stack dump
}

// New returns the pulse of the handler that runs in this goroutine, at its first step.
func New() *Pulse {
	var head [40]byte
	name, _, _ := strings.Cut(strings.TrimPrefix(string(head[:runtime.Stack(head[:], false)]), "goroutine "), " ")
	p := &Pulse{goroutine: name}
	p.Expect(Step)
	return p
}

// Expect announces that the handler makes its next step within d.
func (p *Pulse) Expect(d time.Duration) {
	if p != nil {
		p.left.Store(int64(d))
	}
}

// Waits announces that the handler waits for something without a bound, such as room under a limit.
func (p *Pulse) Waits() { p.Expect(math.MaxInt64) }

// Beat records that so much time has passed, and reports whether the handler is late.
func (p *Pulse) Beat(passed time.Duration) (late bool) { return p.left.Add(-int64(passed)) < 0 }

type key struct{}

// With returns a context with a pulse, for the handler's parts.
func With(ctx context.Context, p *Pulse) context.Context { return context.WithValue(ctx, key{}, p) }

// Of returns the pulse of a context; nil if it has none.
func Of(ctx context.Context) *Pulse {
	p, _ := ctx.Value(key{}).(*Pulse)
	return p
}

// How much of the stacks of all goroutines is searched, how much of one is logged, and of how many.
const (
	mostStacks = 8 << 20
	mostStack  = 4 << 10
	mostTold   = 3
)

// Stacks returns the stacks of the handlers with these pulses, for a log: of the first few.
func Stacks(of []*Pulse) string {
	all := make([]byte, 64<<10)
	for n := runtime.Stack(all, true); n == len(all) && n < mostStacks; n = runtime.Stack(all, true) {
		all = make([]byte, 2*len(all))
	}
	all = bytes.TrimRight(all, "\x00")

	var told strings.Builder
	for _, p := range of[:min(len(of), mostTold)] {
		_, rest, found := bytes.Cut(append([]byte("\n\n"), all...), []byte("\n\ngoroutine "+p.goroutine+" "))
		if !found { // it has ended, or is beyond the searched part
			continue
		}
		stack, _, _ := bytes.Cut(rest, []byte("\n\n"))
		fmt.Fprintf(&told, "goroutine %s %s\n", p.goroutine, stack[:min(len(stack), mostStack)])
	}
	if more := len(of) - mostTold; more > 0 {
		fmt.Fprintf(&told, "and %d more\n", more)
	}
	return told.String()
}
