package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// refusedRuns says why asynqmon cannot run an archived task.
const refusedRuns = "an archived task is the record of a failed run, which has ended: retry its evaluation's failed " +
	"runs on the evaluation's page, or with `evalfleet retry`"

// runsArchived reports whether a request asks asynqmon to run archived tasks: workers would drop
// them, because their runs have ended.
func runsArchived(r *http.Request) bool {
	_, tasks, found := strings.Cut(r.URL.Path, "/archived_tasks")
	return found && r.Method == http.MethodPost &&
		(strings.HasSuffix(tasks, ":run") || strings.HasSuffix(tasks, ":run_all") || strings.HasSuffix(tasks, ":batch_run"))
}

// truthful answers some of asynqmon's requests with what is true of a fleet: archived tasks do not
// run again, a server's queues and slots are those of its worker, and a task's id has dashes.
func (s *Server) truthful(monitor http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var change func(context.Context, []byte) []byte
		switch path := strings.TrimPrefix(r.URL.Path, MonitorPath); {
		case runsArchived(r):
			http.Error(w, refusedRuns, http.StatusConflict)
			return
		case path == "/api/servers":
			change = s.serving
		case strings.HasPrefix(path, "/static/js/main"):
			change = wholeIDs
		default:
			monitor.ServeHTTP(w, r)
			return
		}
		page := &heldPage{ResponseWriter: w}
		monitor.ServeHTTP(page, r)
		_, _ = w.Write(change(r.Context(), page.text.Bytes()))
	})
}

// How asynqmon's script shortens a task's id, which it takes for a UUID, and how it keeps one of
// ours.
const (
	cutID  = `var t=e.indexOf("-");return-1===t?e:e.substr(0,t)`
	keepID = `var t=e.indexOf("-");return-1===t||0===e.indexOf("ev-")?e:e.substr(0,t)`
)

func wholeIDs(_ context.Context, script []byte) []byte {
	return bytes.Replace(script, []byte(cutID), []byte(keepID), 1)
}

// serving gives asynqmon's servers the queues and the slots of their workers. A worker pulls from
// all queues under one name, and pulls more tasks than it has slots: asynq knows no more than that.
func (s *Server) serving(ctx context.Context, answer []byte) []byte {
	var all struct {
		Servers []map[string]any `json:"servers"`
	}
	workers, err := s.fleet.allWorkers(ctx)
	if err != nil || json.Unmarshal(answer, &all) != nil {
		return answer
	}

	for _, server := range all.Servers {
		queues := map[string]int{}
		for _, worker := range workers.Workers {
			if pid, _ := server["pid"].(float64); worker.Host == server["host"] && worker.Process == int(pid) {
				server["concurrency"] = worker.Slots
				for _, queue := range worker.Queues {
					queues[queue] = 1
				}
			}
		}
		server["queue_priorities"] = queues
	}

	changed, err := json.Marshal(all)
	if err != nil {
		return answer
	}
	return changed
}
