// Package metrics turns the events of a worker into Prometheus metrics, and serves them together with health checks.
//
// Every process counts only its own events, so that sums over a fleet's workers are right. How much of a limit is used,
// and how long queues are, is known to Redis only and not exported here. No label holds the ID of an evaluation or a
// run: their number has no bound.
package metrics

import (
	"cmp"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// Classes of calls that did not fail.
const (
	classOK     = "ok"     // answered
	classCached = "cached" // not made: answered from the cache
)

// Sources of the refusal of a call as one too many.
const (
	sourceHTTP429 = "http_429" // the provider, with status 429
	sourceAnswer  = "answer"   // the provider, with another status
	sourceLocal   = "local"    // our own limits, before it was sent
)

// callSeconds are the histogram buckets for calls, which take seconds to half an hour.
var callSeconds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800}

// waitSeconds are the histogram buckets for waits in place. Waits for rates last at most 10 s; waits for leases may
// last longer.
var waitSeconds = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// Worker holds the metrics of one worker, on a registry of their own. Its methods are safe for concurrent use.
type Worker struct {
	registry *prometheus.Registry
	probe    *worker.Probe
	begun    sync.Map // set of [2]string{provider, model} whose counts have begun

	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	// By the prompt caches of providers.
	cacheSaved, cacheExtra *prometheus.CounterVec
	reserved               *prometheus.CounterVec
	waits                  *prometheus.HistogramVec
	limited                *prometheus.CounterVec
	retries                *prometheus.CounterVec
	runs                   *prometheus.CounterVec

	// The counts of record.Tally, and fallbacks for any other reason.
	rateLimitWaits, rateLimitFallbacks, contextFallbacks, errorFallbacks *prometheus.CounterVec
}

// NewWorker returns the metrics of a worker. Pass its Observer to worker.Config, and probe as Config.Probe. version is
// the program's version; slots is the worker's number of slots.
func NewWorker(probe *worker.Probe, slots int, version string) *Worker {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	ofModel := func(name, help string, labels ...string) *prometheus.CounterVec {
		return count(name, help, append([]string{"provider", "model"}, labels...)...)
	}
	m := &Worker{
		registry: prometheus.NewRegistry(),
		probe:    probe,
		calls: ofModel("evalfleet_calls_total",
			"Calls that have ended, by class of failure; ok: answered, cached: not made, because an identical call was "+
				"answered before. rate_limited should stay at 0, or low where limits adapt.", "class"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "evalfleet_call_duration_seconds",
			Help: "Time from request to end of calls, answered or not.", Buckets: callSeconds}, []string{"provider", "model"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "evalfleet_calls_in_flight",
			Help: "Calls that hold a lease."}, []string{"provider", "model"}),
		tokens: ofModel("evalfleet_tokens_total",
			"Tokens that providers reported. input includes cached, which was read from prompt caches, and cache_write; output "+
				"includes reasoning.", "token_type"),
		reserved: ofModel("evalfleet_tokens_reserved_total",
			"Tokens reserved from limits, input or output, for calls whose tokens providers reported.", "token_type"),
		cost: ofModel("evalfleet_cost_usd_total",
			"Cost of calls in US dollars: as the provider reported it, else computed from its price if known."),
		cacheSaved: ofModel("evalfleet_prompt_cache_saved_usd_total",
			"US dollars by which providers' prompt caches made calls cheaper, at known prices."),
		cacheExtra: ofModel("evalfleet_prompt_cache_extra_usd_total",
			"US dollars by which calls were dearer because they wrote to providers' prompt caches, at known prices."),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "evalfleet_limit_wait_seconds",
			Help:    "How long calls that had to wait waited before they started, by the last limit that they waited for.",
			Buckets: waitSeconds}, []string{"limit"}),
		limited: ofModel("evalfleet_rate_limited_total",
			"Calls over a limit, by who refused them: the provider with status 429 (http_429) or in another answer (answer), "+
				"which should stay at 0, or our own limits before the call was sent, which made it wait (local).", "source"),
		retries: ofModel("evalfleet_retries_total", "Failed calls that led to another call."),
		runs:    ofModel("evalfleet_runs_total", "Runs that ended with this worker, by state.", "state"),
		rateLimitWaits: ofModel("evalfleet_rate_limit_waits_total",
			"Waits of runs for limits and after 429s instead of asking another model, by the model that they waited for."),
		rateLimitFallbacks: ofModel("evalfleet_rate_limit_fallbacks_total",
			"Fallbacks to another model because of limits or 429s, by the run's own model."),
		contextFallbacks: ofModel("evalfleet_context_fallbacks_total",
			"Fallbacks to another model because the text was too large, by the run's own model."),
		errorFallbacks: ofModel("evalfleet_error_fallbacks_total",
			"Fallbacks to another model because of any other failure, by the run's own model."),
	}

	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "evalfleet_build_info",
		Help: "Always 1; the labels have the program's version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	capacity := prometheus.NewGauge(prometheus.GaugeOpts{Name: "evalfleet_worker_slots",
		Help: "Calls that this process may have in flight."})
	capacity.Set(float64(slots))
	m.registry.MustRegister(m.calls, m.duration, m.inFlight, m.tokens, m.reserved, m.cost, m.cacheSaved,
		m.cacheExtra, m.waits, m.limited, m.retries, m.runs,
		m.rateLimitWaits, m.rateLimitFallbacks, m.contextFallbacks, m.errorFallbacks, build, capacity, vitals{probe},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observer returns an observer that counts the worker's events.
func (m *Worker) Observer() observe.Observer {
	return observe.Observer{Event: m.Event, Call: m.Call, Wait: m.Wait, Reserved: m.Reserved}
}

// Event counts an event of a run.
func (m *Worker) Event(e observe.Event) {
	switch e.Event {
	case observe.EventStarted:
		m.begin(e.Provider, e.Model)
	case observe.EventAcquired:
		m.begin(e.Provider, e.Model)
		m.inFlight.WithLabelValues(e.Provider, e.Model).Inc()
	case observe.EventReleased:
		m.inFlight.WithLabelValues(e.Provider, e.Model).Dec()
	case observe.EventRetry:
		m.retries.WithLabelValues(e.Provider, e.Model).Inc()
	case record.EventRateLimitFallback:
		kind := m.errorFallbacks
		if e.Class == providers.RateLimited || e.Class == providers.QuotaDaily {
			kind = m.rateLimitFallbacks
		}
		kind.WithLabelValues(e.Provider, e.Model).Inc()

	case record.EventContextLengthFallback:
		m.contextFallbacks.WithLabelValues(e.Provider, e.Model).Inc()
	case observe.EventSucceeded:
		m.runs.WithLabelValues(e.Provider, e.Model, eval.StateSucceeded.String()).Inc()
	case observe.EventFailed:
		m.runs.WithLabelValues(e.Provider, e.Model, eval.StateFailed.String()).Inc()
	}
}

// begin initializes the counts of rare, important events to 0 for a model: Prometheus sees no increase at the first
// sample of a count.
func (m *Worker) begin(provider, model string) {
	if _, begun := m.begun.LoadOrStore([2]string{provider, model}, true); begun {
		return
	}
	for _, count := range []*prometheus.CounterVec{m.retries, m.rateLimitWaits, m.rateLimitFallbacks, m.contextFallbacks, m.errorFallbacks} {
		count.WithLabelValues(provider, model)
	}
	for _, class := range []string{classOK, classCached} {
		m.calls.WithLabelValues(provider, model, class)
	}
	for _, source := range []string{sourceHTTP429, sourceAnswer, sourceLocal} {
		m.limited.WithLabelValues(provider, model, source)
	}
	for _, state := range []eval.State{eval.StateSucceeded, eval.StateFailed} {
		m.runs.WithLabelValues(provider, model, state.String())
	}
}

// Call counts a call that has ended.
func (m *Worker) Call(c record.Call) {
	provider, model, _ := strings.Cut(c.Model, ":")
	provider = cmp.Or(c.Account, provider)
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
	switch {
	case c.Status == http.StatusTooManyRequests:
		m.limited.WithLabelValues(provider, model, sourceHTTP429).Inc()
	case c.Class == providers.RateLimited || c.Class == providers.QuotaDaily:
		m.limited.WithLabelValues(provider, model, sourceAnswer).Inc()
	}

	if c.BoundBy != "" {
		m.limited.WithLabelValues(provider, model, sourceLocal).Inc()
		m.waits.WithLabelValues(limitLabel(c.BoundBy)).Observe(c.Started.Sub(c.Asked).Seconds())
	}

	if c.Usage.Reported {
		for kind, n := range map[string]int64{
			"input": c.Usage.Input, "cached": c.Usage.Cached, "cache_write": c.Usage.Written,
			"output": c.Usage.Output, "reasoning": c.Usage.Reasoning,
		} {
			m.tokens.WithLabelValues(provider, model, kind).Add(float64(n))
		}
	}

	if c.Usage.CostUSD != nil {
		m.cost.WithLabelValues(provider, model).Add(*c.Usage.CostUSD)
	}
	if usd, known := c.Saved(); known { // a count cannot fall
		m.cacheSaved.WithLabelValues(provider, model).Add(max(0, usd))
		m.cacheExtra.WithLabelValues(provider, model).Add(max(0, -usd))
	}
}

// Wait counts a wait of a run for its model that could have gone to another model.
func (m *Worker) Wait(target eval.Judge) {
	m.rateLimitWaits.WithLabelValues(target.Provider, target.Model).Inc()
}

// Reserved counts the reservation of a call.
func (m *Worker) Reserved(r observe.Reserved) {
	m.reserved.WithLabelValues(r.Provider, r.Model, "input").Add(float64(r.Input))
	m.reserved.WithLabelValues(r.Provider, r.Model, "output").Add(float64(r.Output))
}

// limitLabel returns a limit's ID without the ID of the evaluation that it belongs to.
func limitLabel(id string) string {
	if rest, ok := strings.CutPrefix(id, "evaluation/"); ok {
		_, rest, _ = strings.Cut(rest, "/")
		return "evaluation/" + rest
	}
	return id
}
