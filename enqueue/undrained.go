package enqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
)

const (
	// undrainedBound is how much memory the undrained results of all evaluations may take. Beyond
	// it, evaluations with more than an equal share of it get no more runs. If Redis has a
	// maxmemory, the bound is at most a quarter of that.
	undrainedBound = 256 << 20
	// memoryShare of maxmemory is the level above which no evaluation gets more runs, whatever uses
	// the memory: the rest is for runs in progress.
	memoryShare = 0.75
	// measureEvery is how often memory is measured. Redis walks the whole stream, which takes a few
	// milliseconds for 100 MB.
	measureEvery = time.Second
	// measureTimeEach makes measureEvery longer with each evaluation whose results wait.
	measureTimeEach = 5 * time.Millisecond
	// measuredAtOnce bounds the number of keys that Redis is asked about in one command.
	measuredAtOnce = 100
)

// undrained measures the memory that results take in Redis until a collector drains them, and
// decides which evaluations get no more runs.
type undrained struct {
	store *store.Store
	bound int64

	measured time.Time
	sizes    map[eval.ID]size
	used     float64 // the largest share of its maxmemory that a server uses
	most     int64   // the least maxmemory; 0: none
}

// size is the size of a stream when it was measured.
type size struct{ bytes, entries int64 }

// verdict says which evaluations get no more runs, and why.
type verdict struct {
	memory bool             // Redis is nearly full: no evaluation gets more
	held   map[eval.ID]bool // evaluations with too many uncollected results
}

func newUndrained(s *store.Store) *undrained {
	return &undrained{store: s, bound: undrainedBound, sizes: map[eval.ID]size{}}
}

// decide measures the memory, if that is due, and decides by how many entries wait now.
func (u *undrained) decide(ctx context.Context, standings map[eval.ID]store.Standing) (verdict, error) {
	if time.Since(u.measured) >= max(measureEvery, time.Duration(len(u.sizes))*measureTimeEach) {
		if err := u.measure(ctx, standings); err != nil {
			return verdict{}, err
		}
		u.measured = time.Now()
	}

	var total int64
	now := map[eval.ID]int64{}
	for id, standing := range standings {
		if standing.Waiting == 0 {
			continue
		}
		now[id] = standing.Waiting // assume at least one byte each
		if s := u.sizes[id]; s.entries > 0 {
			now[id] = int64(float64(s.bytes) / float64(s.entries) * float64(standing.Waiting))
		}
		total += now[id]
	}

	bound := u.bound
	if u.most > 0 {
		bound = min(bound, u.most/4)
	}
	v := verdict{memory: u.used > memoryShare, held: map[eval.ID]bool{}}
	for id, bytes := range now {
		v.held[id] = total > bound && bytes*int64(len(now)) >= bound
	}
	return v, nil
}

// measure reads the memory of every stream that has entries, and of each server. A server that does
// not report its memory, like the embedded one, counts as having enough.
func (u *undrained) measure(ctx context.Context, standings map[eval.ID]store.Standing) error {
	var waiting []eval.ID
	for id, standing := range standings {
		if standing.Waiting > 0 {
			waiting = append(waiting, id)
		}
	}

	client := u.store.Client()
	clear(u.sizes)
	for part := range slices.Chunk(waiting, measuredAtOnce) {
		asked := make([]*redis.IntCmd, len(part))
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range part {
				asked[i] = p.MemoryUsage(ctx, u.store.Keys().Results(id), 0) // 0: sample all its nodes
			}
			return nil
		})
		if err != nil && !answered(err) {
			return fmt.Errorf("measure undrained results of %d evaluations: %w", len(part), err)
		}
		for i, id := range part {
			if bytes, err := asked[i].Result(); err == nil {
				u.sizes[id] = size{bytes, standings[id].Waiting}
			}
		}
	}

	used, most := 0.0, int64(0)
	err := gate.Info(ctx, client, "memory", func(fields map[string]string) {
		limit, _ := strconv.ParseInt(fields["maxmemory"], 10, 64)
		taken, _ := strconv.ParseInt(fields["used_memory"], 10, 64)
		if limit > 0 {
			used = max(used, float64(taken)/float64(limit))
			if most == 0 || limit < most {
				most = limit
			}
		}
	})
	u.used, u.most = used, most
	if err != nil {
		return fmt.Errorf("measure memory: %w", err)
	}
	return nil
}

// answered reports whether err is a server's reply, and not that it is unreachable.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}
