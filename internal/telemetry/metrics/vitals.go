package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evalfleet/evalfleet/worker"
)

// vitals is a collector that reads a probe at each scrape. It never asks Redis.
type vitals struct{ probe *worker.Probe }

var (
	waitingDesc = prometheus.NewDesc("evalfleet_calls_waiting",
		"Calls of this process that wait for admission.", nil, nil)
	lostDesc = prometheus.NewDesc("evalfleet_leases_lost_total",
		"Leases that ended before their calls did.", nil, nil)
	restartsDesc = prometheus.NewDesc("evalfleet_worker_session_restarts_total",
		"How often this process could not renew its leases in time and continued under another worker id.", nil, nil)
	outagesDesc = prometheus.NewDesc("evalfleet_redis_outages_total",
		"How often Redis stopped answering.", nil, nil)
	upDesc = prometheus.NewDesc("evalfleet_redis_up",
		"1 if Redis answered the last command.", nil, nil)
	readyDesc = prometheus.NewDesc("evalfleet_worker_ready",
		"1 if this process is registered with the fleet and accepts runs.", nil, nil)
	troubleDesc = prometheus.NewDesc("evalfleet_worker_provider_trouble",
		"1 if this process cannot call the provider, though others can.", []string{"provider"}, nil)
)

// Describe implements prometheus.Collector.
func (v vitals) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, lostDesc, restartsDesc, outagesDesc, upDesc, readyDesc, troubleDesc} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (v vitals) Collect(metrics chan<- prometheus.Metric) {
	now := v.probe.Vitals()
	for _, m := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{waitingDesc, prometheus.GaugeValue, float64(now.Waiting)},
		{lostDesc, prometheus.CounterValue, float64(now.LeasesLost)},
		{restartsDesc, prometheus.CounterValue, float64(max(0, now.Sessions-1))},
		{outagesDesc, prometheus.CounterValue, float64(now.Outages)},
		{upDesc, prometheus.GaugeValue, oneIf(!now.RedisAway)},
		{readyDesc, prometheus.GaugeValue, oneIf(now.Ready)},
	} {
		metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value)
	}
	for _, provider := range now.Providers {
		_, troubled := now.Troubles[provider]
		metrics <- prometheus.MustNewConstMetric(troubleDesc, prometheus.GaugeValue, oneIf(troubled), provider)
	}
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
