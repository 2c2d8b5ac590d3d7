package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Workers is the page of all live workers.
type Workers struct {
	Workers []Worker `json:"workers"`
	Slots   int      `json:"slots"` // of all workers together
	Flying  int      `json:"in_flight"`
	Waiting int      `json:"waiting"`
	Live    bool     `json:"live"`
}

// Worker is one worker. If it has reported nothing yet, as in its first moment, only its ID and heartbeat are known.
type Worker struct {
	ID      string    `json:"worker"`
	Known   bool      `json:"known"`
	Host    string    `json:"host"`
	Process int       `json:"process"`
	Version string    `json:"version"`
	Slots   int       `json:"slots"`
	Flying  int       `json:"in_flight"`
	Waiting int       `json:"waiting"`
	Queues  []string  `json:"queues"`
	Serves  string    `json:"serves"` // the same in words
	Since   time.Time `json:"since"`
	Beat    string    `json:"last_heartbeat"` // ago, in words
	State   string    `json:"state"`
	Share   int       `json:"share"` // of the slots in flight, in percent
}

func (s *Server) workers(r *http.Request) (*Workers, error) {
	if s.fleet == nil {
		return nil, fmt.Errorf("%w: a folder has no workers", errNotFound)
	}
	return s.fleet.allWorkers(r.Context())
}

// allWorkers lists the workers with a valid heartbeat, by host.
func (f *fleet) allWorkers(ctx context.Context) (*Workers, error) {
	beats, err := f.Limits.Beats(ctx)
	if err != nil {
		return nil, err
	}
	all := &Workers{Workers: []Worker{}, Live: true}
	var ids []string
	for id, left := range beats {
		if left > 0 {
			ids = append(ids, id)
		}
	}

	told, err := f.Store.Told(ctx, ids)
	if err != nil {
		return nil, err
	}

	for _, id := range ids {
		w := Worker{ID: id, Queues: []string{}}
		if of, known := told[id]; known {
			w = Worker{
				ID: id, Known: true, Host: of.Host, Process: of.Process, Version: of.Version, Slots: of.Slots, Flying: of.Flying,
				Waiting: of.Waiting, Queues: append(w.Queues, of.Queues...), Serves: strings.Join(of.Queues, " "), Since: of.Since,
				Beat: fmt.Sprintf("%.0f s ago", max(0, of.Lease-beats[id]).Seconds()), State: "working",
				Share: min(100, 100*of.Flying/max(1, of.Slots)),
			}
			if of.Stopping {
				w.State = "stopping"
			}
		}
		all.Slots, all.Flying, all.Waiting = all.Slots+w.Slots, all.Flying+w.Flying, all.Waiting+w.Waiting
		all.Workers = append(all.Workers, w)
	}

	slices.SortFunc(all.Workers, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}
