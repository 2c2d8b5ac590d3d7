// Package web serves pages about a fleet: its evaluations, limits, workers, queues and tasks as they are now, and
// asynqmon beside them. Without a Redis it serves the contents of an output folder.
//
// The server renders the pages, which work without a script; one small script of our own keeps their numbers fresh.
// They change nothing unless they are given Actions, and are open to all unless they are given Accounts. Other packages
// implement actions and decide who may log in.
package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynqmon"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/report"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/internal/web/moment"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// MonitorPath is where asynqmon is mounted.
const MonitorPath = "/asynqmon"

// Config names the pages' sources: a fleet's Redis, a folder, or both, as during a run with an embedded Redis. The
// folder then answers once the Redis has ended.
type Config struct {
	// Store and Limits are the fleet's, both or none.
	Store  *store.Store
	Limits *ratelimit.Admin
	// Folder is the output folder, or nil.
	Folder *Folder
	// Results opens an evaluation's results store for its numbers and its report. nil, or an error: they are not shown.
	Results func(context.Context, eval.ID) (results.Reader, error)
	// Prometheus is the URL of a Prometheus server that scrapes the controller, for asynqmon's charts; asynqmon's page
	// contains it. Empty: there are no charts.
	Prometheus string
	// Actions are what people may do to evaluations. nil: nothing, and asynqmon shows queues and tasks read-only, too.
	Actions Actions
	// Submit stores evaluations that are sent to /api/evaluations by people who may use Actions. nil: submissions are
	// not accepted.
	Submit Submit
	// MaxUpload is the maximum total size of a submission's files, in bytes.
	MaxUpload int64
	// Voting is the page on which people vote. It needs Accounts or Voting.Key, which say who votes.
	Voting Voting
	// Accounts are the users who may log in. nil: the pages need no login.
	Accounts *Accounts
	// Hosts are the host names that requests may use. Without Accounts, requests for other names are refused, except
	// this machine's names and IP addresses. That prevents a foreign page from reading ours through a name of its own
	// (DNS rebinding). With Accounts, an empty Hosts allows all names.
	Hosts []string
	Log   zerolog.Logger
}

// Folder is an output folder, or a folder of output folders.
type Folder struct {
	Open   func(context.Context) (results.Reader, error)
	Status func(results.Listed) record.Status
	// Inside returns the output folders in a folder of folders, whose Open and Status are not used. nil: it is an output
	// folder.
	Inside func() []Folder
}

// Server answers requests. It is safe for concurrent use.
type Server struct {
	cfg     Config
	fleet   *fleet // nil without Redis
	looks   *view.Looks
	streams *streams
	notes   *notes
	uploads *places       // for the submissions being received
	pace    time.Duration // time in which paceBytes of an upload must arrive
	submits chan struct{} // holds the submissions being checked and stored
	reports moment.Cache[reported, *report.Report]
	votes   moment.Cache[voted, votes]
	sizes   moment.Cache[reported, map[string]int64]
	ranked  ranked
	booth   *booth
	handler http.Handler
}

// ranked caches the results of the evaluations in output folders.
type ranked struct {
	mu sync.Mutex // guards of
	of map[eval.ID]rankedOnce
}

// rankedOnce is a result, and the state of the results store that it is the result of.
type rankedOnce struct {
	state  string // as recordedState returns it
	result record.Result
	until  time.Time // until when it is shown while the evaluation is active
}

const (
	// restOfRanking bounds the share of time in which active evaluations are ranked: a result is shown for so many times
	// as long as the ranking took.
	restOfRanking = 20
	leastShown    = 15 * time.Second // at least
)

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, streams: newStreams(), notes: &notes{of: map[string]keptNote{}}, uploads: newPlaces(mostUploads, uploadsEach),
		pace: paceTime, submits: make(chan struct{}, mostSubmits), looks: view.NewLooks(cfg.Log), ranked: ranked{of: map[eval.ID]rankedOnce{}}}
	s.looks.Brief, s.looks.Open = true, s.open
	s.reports = moment.Cache[reported, *report.Report]{Keep: reportKept, AtOnce: mostReports, Waiting: waitingReports, Make: s.build}
	s.sizes = moment.Cache[reported, map[string]int64]{Keep: reportKept, AtOnce: 1, Waiting: waitingReports, Make: s.measure}
	s.votes = moment.Cache[voted, votes]{Keep: reportKept, AtOnce: mostReports, Waiting: waitingReports, Make: s.countVotes}
	s.booth = s.newBooth()
	routes := http.NewServeMux()
	routes.HandleFunc("GET /{$}", page(s, "evaluations", s.overview))
	routes.HandleFunc("GET /compare", s.compare)
	routes.HandleFunc("GET /judges", s.judges)
	routes.HandleFunc("GET /evaluations/{id}", page(s, "evaluation", s.evaluation))
	routes.HandleFunc("GET /evaluations/{id}/report", s.report)
	routes.HandleFunc("GET /evaluations/{id}/answers", s.answers)
	routes.HandleFunc("GET /evaluations/{id}/cancel", still(s, "cancel", s.askCancel))
	routes.HandleFunc("POST /evaluations/{id}/{action}", s.act)
	s.explorer(routes)
	routes.HandleFunc("GET /evaluations/{id}"+imagePath+"{hash}", s.image)
	routes.HandleFunc("GET /evaluations/{id}/vote", s.vote)
	routes.HandleFunc("POST /evaluations/{id}/vote", s.castVote)
	routes.HandleFunc("GET /limits", page(s, "limits", s.limits))
	routes.HandleFunc("GET /queues", page(s, "queues", s.queues))
	routes.Handle("GET /queues/{$}", http.RedirectHandler("/queues", http.StatusMovedPermanently))
	routes.HandleFunc("GET /queues/{queue}/{state}", page(s, "tasks", s.tasks))
	routes.HandleFunc("GET /api/queues", api(s, s.queues))
	routes.HandleFunc("GET /api/queues/{queue}/{state}", api(s, s.tasks))
	routes.HandleFunc("GET /workers", page(s, "workers", s.workers))
	routes.HandleFunc("GET /api/workers", api(s, s.workers))
	routes.HandleFunc("GET /api/evaluations", api(s, s.overview))
	routes.HandleFunc("POST /api/evaluations", s.submit)
	routes.HandleFunc("GET /api/evaluations/{id}", api(s, s.evaluation))
	routes.HandleFunc("GET /evaluations/{id}/files", still(s, "files", s.files))
	routes.HandleFunc("GET /api/evaluations/{id}/files", api(s, s.files))
	routes.HandleFunc("GET /api/evaluations/{id}/files/{name}", s.file)
	routes.HandleFunc("GET /api/limits", api(s, s.limits))
	routes.Handle("GET /assets/", http.FileServerFS(assets))
	routes.HandleFunc("GET /assets/style.css", serveStyle)
	routes.HandleFunc("GET /assets/tables.js", serveTables)
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNotFound) })
	if cfg.Store != nil {
		s.fleet = newFleet(view.Redis{Store: cfg.Store, Limits: cfg.Limits}, s.looks)
		monitor := func(readOnly bool) http.Handler {
			return asynqmon.New(asynqmon.Options{
				RootPath: MonitorPath, RedisConnOpt: shared{cfg.Store}, ReadOnly: readOnly,
				PrometheusAddress: cfg.Prometheus,
				PayloadFormatter:  asynqmon.PayloadFormatterFunc(payload),
				ResultFormatter: asynqmon.ResultFormatterFunc(func(_ string, raw []byte) string {
					return harmless.Line(record.ResultInWords(string(raw)))
				}),
			})
		}
		looks, acts := monitorHeaders(monitor(true)), monitorHeaders(monitor(false))
		routes.Handle(MonitorPath+"/", onlyQueueNames(linked(s.truthful(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.mayAct(r) {
				acts.ServeHTTP(w, r)
			} else {
				looks.ServeHTTP(w, r)
			}
		})))))
	}

	inside := refuseForeign(s.votersOnly(routes))
	if cfg.Voting.Key != nil {
		inside = s.byLink(inside)
	} else {
		inside = s.login(inside)
	}
	s.handler = guard(cfg.Accounts == nil || len(cfg.Hosts) > 0, cfg.Hosts, inside)
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// End ends the streams that keep pages fresh, because they would delay a server's shutdown. Other requests are still
// answered.
func (s *Server) End() { s.streams.end() }

// shared gives asynqmon our Redis client, so that it opens none of its own that would have to be closed.
type shared struct{ store *store.Store }

// MakeRedisClient implements asynq.RedisConnOpt.
func (s shared) MakeRedisClient() any { return s.store.Client() }

// payload formats a task's payload for asynqmon: one short line with the run's number first, because asynqmon's own
// column of IDs shows only the beginning of an ID.
func payload(taskType string, raw []byte) string {
	task, err := record.DecodeTask(raw)
	if err != nil {
		return asynqmon.DefaultPayloadFormatter.FormatPayload(taskType, raw)
	}
	text := fmt.Sprintf("run %s of %s", task.RunID().Short(), task.Evaluation)
	if task.Generation > 0 {
		text += fmt.Sprintf(", retry %d", task.Generation)
	}
	return harmless.Line(text) + "\n" + harmless.Line(task.Model) + "\n" + harmless.Line(strings.Join(task.Documents, " – "))
}

var errNotFound = errors.New("page not found")

// ErrNotHere means that an evaluation's results are in a store that these pages do not read.
var ErrNotHere = errors.New("the results of this evaluation are not here")

// noResults converts an error from opening a results store to one that pages show.
func noResults(err error) error {
	switch {
	case errors.Is(err, store.ErrNoEvaluation):
		return fmt.Errorf("%w: no evaluation has this id", errNotFound)
	case errors.Is(err, ErrNotHere), errors.Is(err, errNotFound):
		return err
	}
	return fmt.Errorf("the results are not readable from here: %w", err)
}

func (s *Server) overview(r *http.Request) (o *Overview, err error) {
	if s.fleet != nil {
		o, err = s.fleet.overview(r.Context())
	}
	if s.cfg.Folder != nil && (s.fleet == nil || err != nil) {
		if o, err = s.cfg.Folder.overview(r.Context(), s.looks); err == nil {
			s.addResults(r.Context(), o.Evaluations)
		}
	}
	return o, err
}

func (s *Server) evaluation(r *http.Request) (detail *Detail, err error) {
	id := eval.ID(r.PathValue("id"))
	if s.fleet != nil {
		detail, err = s.fleet.evaluation(r.Context(), id)
	}
	if s.cfg.Folder != nil && (s.fleet == nil || err != nil) {
		detail, err = s.cfg.Folder.evaluation(r.Context(), s.looks, id)
	}
	if err != nil {
		return nil, err
	}
	detail.Actions = []string{}
	if s.mayAct(r) {
		detail.Actions = append(detail.Actions, detail.can()...)
	}
	if reader, err := s.results(r.Context(), id); err == nil {
		detail.Report, detail.Vote = true, detail.Pairwise() && s.mayVote(r)
		s.addResult(r.Context(), &detail.Evaluation, reader)
		_ = reader.Close()
	}
	return detail, nil
}

// addResults adds to the evaluations of an output folder who won, or who leads so far.
func (s *Server) addResults(ctx context.Context, list []Evaluation) {
	for i := range list {
		if reader, err := s.results(ctx, list[i].ID); err == nil {
			s.addResult(ctx, &list[i], reader)
			_ = reader.Close()
		}
	}
}

// addResult adds who won, or who leads so far, to an evaluation whose record does not contain it. While the evaluation is
// active, the ranking may be a little older.
func (s *Server) addResult(ctx context.Context, e *Evaluation, reader results.Reader) {
	if e.Result != nil || e.All.Done == 0 || e.All.Done > view.MostRanked {
		return
	}
	rests := e.Status == view.StatusStopped || e.Status == view.StatusInterrupted || record.HasEnded(e.Status, "")
	result, err := s.rank(ctx, e.ID, reader, !rests)
	if err != nil {
		s.cfg.Log.Debug().Err(err).Str("evaluation", string(e.ID)).Msg("cannot rank the results for the page")
		return
	}
	e.Result = &result
	e.showResult()
}

// rank ranks what is recorded of an evaluation so far. If the evaluation is active, rank returns the last result for some
// time instead (rankedOnce.until).
func (s *Server) rank(ctx context.Context, id eval.ID, reader results.Reader, active bool) (record.Result, error) {
	s.ranked.mu.Lock()
	known := s.ranked.of[id]
	s.ranked.mu.Unlock()
	if active && time.Now().Before(known.until) {
		return known.result, nil
	}
	e, err := reader.Evaluation(ctx, id)
	if err != nil {
		return record.Result{}, err
	}
	state, err := recordedState(ctx, reader, e)
	if err != nil {
		return record.Result{}, err
	}

	of, began := reported{id, state}, time.Now()
	if known.state == state {
		return known.result, nil
	}
	built, err := s.reports.Get(ctx, of)
	if err != nil {
		return record.Result{}, err
	}

	result := built.Result()
	s.ranked.mu.Lock()
	s.ranked.of[id] = rankedOnce{state, result, time.Now().Add(max(leastShown, restOfRanking*time.Since(began)))}
	s.ranked.mu.Unlock()
	return result, nil
}

// open opens the results store of an evaluation for its numbers; nil: it cannot be read.
func (s *Server) open(ctx context.Context, r record.Evaluation) results.Reader {
	reader, err := s.results(ctx, r.ID)
	if err != nil {
		s.cfg.Log.Debug().Err(err).Str("evaluation", string(r.ID)).Msg("cannot read the results from here")
		return nil
	}
	return reader
}

func (s *Server) limits(r *http.Request) (*Limits, error) {
	if s.fleet == nil {
		return nil, fmt.Errorf("%w: a folder has no limits", errNotFound)
	}
	return s.fleet.allLimits(r.Context())
}

// results opens the results store for an evaluation's report. The error is ErrNotHere if the results are in another
// place.
func (s *Server) results(ctx context.Context, id eval.ID) (results.Reader, error) {
	if s.cfg.Results == nil {
		return nil, errNotFound
	}
	reader, err := s.cfg.Results(ctx, id)
	if errors.Is(err, results.ErrNoStore) || errors.Is(err, results.ErrOtherStore) {
		err = fmt.Errorf("%w: %w", ErrNotHere, err)
	}
	return reader, err
}

// A report of many verdicts takes tens of seconds of a whole core.
const (
	reportKept     = 5 * time.Second // or as long as building it took, if that is longer
	mostReports    = 2               // built at once
	waitingReports = 8
)

// reported identifies the input of a report: an evaluation while its results store was in a state; empty: recently.
type reported struct {
	id    eval.ID
	state string
}

// recordedState returns a text that changes whenever anything is recorded of an evaluation.
func recordedState(ctx context.Context, reader results.Reader, e results.Evaluation) (string, error) {
	counts, err := reader.Counts(ctx, e.ID)
	if err != nil {
		return "", err
	}
	totals, err := reader.CallTotals(ctx, e.ID)
	return fmt.Sprint(counts, totals, e.Finished, e.Cancelled, e.Stopped, e.OnPage.Changes), err
}

// build ranks the results recorded so far.
func (s *Server) build(ctx context.Context, of reported) (*report.Report, error) {
	reader, err := s.results(ctx, of.id)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return report.Build(ctx, reader, of.id, report.Options{})
}

// recent returns the report of an evaluation whose results are here, from results that may be some seconds old.
func (s *Server) recent(ctx context.Context, id eval.ID) (*report.Report, error) {
	reader, err := s.results(ctx, id)
	if err != nil {
		return nil, noResults(err)
	}
	_ = reader.Close()
	return s.reports.Get(ctx, reported{id: id})
}

// servesHTML sets the headers of a page with its own policy.
func servesHTML(w http.ResponseWriter, policy string) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
}

// report answers with the report of an evaluation.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	built, err := s.recent(r.Context(), eval.ID(r.PathValue("id")))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	servesHTML(w, report.Policy()+reportPolicy)
	if err := built.WriteServedHTML(w); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("report not sent")
	}
}
