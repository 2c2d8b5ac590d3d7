// Package metrics turns what a worker tells about itself into Prometheus
// metrics, and serves them with the answers that health checks want.
//
// Everything here is counted by one process about itself, so that sums over a
// fleet's workers are right. How much of a limit is used, and how long queues
// are, is known to Redis only and not told here. No label holds the id of an
// evaluation or a run: their number has no bound.
package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/worker"
)

// Classes of calls that did not fail.
const (
	classOK     = "ok"     // answered
	classCached = "cached" // not made, because the same was answered before
)

// callSeconds are the buckets of calls, which take seconds to half an hour.
var callSeconds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800}

// waitSeconds are the buckets of waits in place, which end at 10 s by
// themselves for rates, and may last longer for leases.
var waitSeconds = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// Worker is one worker's metrics, on a registry of their own. Its methods are
// safe for concurrent use.
type Worker struct {
	registry *prometheus.Registry
	probe    *worker.Probe

	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	retries  *prometheus.CounterVec
	runs     *prometheus.CounterVec
}

// NewWorker makes the metrics of a worker. Give its Event and Call to
// worker.Config, and probe as Config.Probe. version is that of the program,
// slots the worker's.
func NewWorker(probe *worker.Probe, slots int, version string) *Worker {
	byModel := []string{"provider", "model"}
	with := func(label string) []string { return append(byModel[:2:2], label) }
	m := &Worker{
		registry: prometheus.NewRegistry(),
		probe:    probe,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evalfleet_calls_total",
			Help: "Calls that have ended, by class of failure; ok: answered, cached: not made, because the same was answered before. rate_limited should stay at 0, or be few where limits adapt."}, with("class")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "evalfleet_call_duration_seconds",
			Help: "Time from request to end of calls, answered or not.", Buckets: callSeconds}, byModel),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "evalfleet_calls_in_flight",
			Help: "Calls that hold a lease."}, byModel),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evalfleet_tokens_total",
			Help: "Tokens that providers reported. input includes cached, output includes reasoning."}, with("token_type")),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evalfleet_cost_usd_total",
			Help: "Cost of calls where the provider reported it, in US dollars."}, byModel),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "evalfleet_limit_wait_seconds",
			Help: "Time from asking to start of calls that had to wait, by the limit that they waited for last.", Buckets: waitSeconds}, []string{"limit"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evalfleet_retries_total",
			Help: "Calls that failed and lead to another one."}, byModel),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evalfleet_runs_total",
			Help: "Runs that ended with this worker, by state."}, with("state")),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "evalfleet_build_info",
		Help: "1, with the program's version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	capacity := prometheus.NewGauge(prometheus.GaugeOpts{Name: "evalfleet_worker_slots",
		Help: "Calls that this process may have in flight."})
	capacity.Set(float64(slots))
	m.registry.MustRegister(m.calls, m.duration, m.inFlight, m.tokens, m.cost, m.waits, m.retries, m.runs, build, capacity, vitals{probe},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Event counts what became of a run.
func (m *Worker) Event(e worker.Event) {
	switch e.Event {
	case worker.EventAcquired:
		m.inFlight.WithLabelValues(e.Provider, e.Model).Inc()
	case worker.EventReleased:
		m.inFlight.WithLabelValues(e.Provider, e.Model).Dec()
	case worker.EventRetry:
		m.retries.WithLabelValues(e.Provider, e.Model).Inc()
	case worker.EventSucceeded:
		m.runs.WithLabelValues(e.Provider, e.Model, eval.StateSucceeded.String()).Inc()
	case worker.EventFailed:
		m.runs.WithLabelValues(e.Provider, e.Model, eval.StateFailed.String()).Inc()
	}
}

// Call counts a call that has ended.
func (m *Worker) Call(c record.Call) {
	provider, model, _ := strings.Cut(c.Model, ":")
	if c.Cached {
		m.calls.WithLabelValues(provider, model, classCached).Inc()
		return
	}
	class := string(c.Class)
	if class == "" {
		class = classOK
	}
	m.calls.WithLabelValues(provider, model, class).Inc()
	m.duration.WithLabelValues(provider, model).Observe(c.Ended.Sub(c.Started).Seconds())
	if c.BoundBy != "" {
		m.waits.WithLabelValues(limitLabel(c.BoundBy)).Observe(c.Started.Sub(c.Asked).Seconds())
	}
	if c.Usage.Reported {
		for kind, n := range map[string]int64{
			"input": c.Usage.Input, "cached": c.Usage.Cached, "output": c.Usage.Output, "reasoning": c.Usage.Reasoning,
		} {
			m.tokens.WithLabelValues(provider, model, kind).Add(float64(n))
		}
	}
	if c.Usage.CostUSD != nil {
		m.cost.WithLabelValues(provider, model).Add(*c.Usage.CostUSD)
	}
}

// limitLabel is a limit's id without the evaluation's that it belongs to.
func limitLabel(id string) string {
	if rest, ok := strings.CutPrefix(id, "evaluation/"); ok {
		_, rest, _ = strings.Cut(rest, "/")
		return "evaluation/" + rest
	}
	return id
}
