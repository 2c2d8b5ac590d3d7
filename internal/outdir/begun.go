package outdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// CallLog stores in an output folder which calls a run with its own Redis has begun. It writes each
// call before that is sent: calls in flight when a run is killed count under rates and daily
// quotas, and are in no results store.
//
// Its first line is the time of the last call. If daily quotas apply, a line for each call follows.
// The next run that opens the file removes the lines of earlier days, and those of calls that the
// results store has.
type CallLog struct {
	mu    sync.Mutex // guards the rest
	file  *os.File
	each  bool
	size  int64
	last  time.Time
	calls []observe.Begun // of earlier runs, which the results store lacks
	err   error           // the first failure
}

// begunFor is how long a line is needed: no day is longer.
const begunFor = 49 * time.Hour

// OpenBegun opens the file at path. each says whether it has a line for each call. recorded returns
// which of some calls of an evaluation, by their IDs, are in the results store.
func OpenBegun(
	ctx context.Context, path string, each bool, recorded func(context.Context, eval.ID, []string) ([]string, error),
) (*CallLog, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open calls begun: %w", err)
	}
	b := &CallLog{file: file, each: each}
	text, err := io.ReadAll(file)
	if err == nil {
		b.parse(text)
		err = b.forget(ctx, recorded)
	}
	if err == nil {
		err = b.rewrite()
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read calls begun: %w", err)
	}
	return b, nil
}

// parse reads the lines. The last one may be incomplete: its call was not sent.
func (b *CallLog) parse(text []byte) {
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		var millis int64
		var call observe.Begun
		if n, _ := fmt.Sscanf(string(line), "last %d\n", &millis); n == 1 && millis > 0 {
			b.last = time.UnixMilli(millis)
			continue
		}
		n, err := fmt.Sscanf(string(line), "%d %s %s\n", &millis, &call.Call, &call.Target)
		if call.At = time.UnixMilli(millis); n == 3 && err == nil && !seen[call.Call] && time.Since(call.At) < begunFor {
			seen[call.Call] = true
			b.calls = append(b.calls, call)
		}
	}
}

// forget drops the calls that the results store has.
func (b *CallLog) forget(ctx context.Context, recorded func(context.Context, eval.ID, []string) ([]string, error)) error {
	byEvaluation := map[eval.ID][]string{}
	for _, call := range b.calls {
		id, name, _ := strings.Cut(call.Call, ".")
		byEvaluation[eval.ID(id)] = append(byEvaluation[eval.ID(id)], name)
	}
	known := map[string]bool{}
	for id, names := range byEvaluation {
		found, err := recorded(ctx, id, names)
		if err != nil {
			return err
		}
		for _, name := range found {
			known[string(id)+"."+name] = true
		}
	}
	b.calls = slices.DeleteFunc(b.calls, func(call observe.Begun) bool { return known[call.Call] })
	return nil
}

// rewrite replaces the file's contents. A process that is killed meanwhile leaves some lines twice,
// and loses none: rewrite writes the shorter text over the longer one before it cuts off the rest.
func (b *CallLog) rewrite() error {
	text := lastLine(b.last)
	for _, call := range b.calls {
		text = append(text, callLine(call)...)
	}
	b.size = int64(len(text))
	_, err := b.file.WriteAt(text, 0)
	return errors.Join(err, b.file.Truncate(b.size))
}

func lastLine(at time.Time) []byte {
	millis := int64(0)
	if !at.IsZero() {
		millis = at.UnixMilli()
	}
	return fmt.Appendf(nil, "last %020d\n", millis)
}

func callLine(call observe.Begun) []byte {
	return fmt.Appendf(nil, "%d %s %s\n", call.At.UnixMilli(), call.Call, call.Target)
}

// Note writes that a call begins. The line survives the process.
func (b *CallLog) Note(call observe.Begun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.each {
		line := callLine(call)
		_, err = b.file.WriteAt(line, b.size)
		b.size += int64(len(line))
	}
	if call.At.After(b.last) {
		b.last = call.At
		_, lastErr := b.file.WriteAt(lastLine(b.last), 0)
		err = errors.Join(err, lastErr)
	}
	if b.err == nil {
		b.err = err
	}
}

// Last returns when the last call began; the zero time if unknown.
func (b *CallLog) Last() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Between counts the calls of earlier runs that the results store lacks and that began at or after
// from and before to, by "provider:model". It leaves out the calls in without, which are named
// "evaluation.call".
func (b *CallLog) Between(from, to time.Time, without []string) map[string]int64 {
	begun := map[string]int64{}
	for _, call := range b.calls {
		if !call.At.Before(from) && call.At.Before(to) && !slices.Contains(without, call.Call) {
			begun[call.Target]++
		}
	}
	return begun
}

// Close closes the file and returns the first error of writing.
func (b *CallLog) Close() error { return errors.Join(b.err, b.file.Close()) }
