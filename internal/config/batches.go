package config

import (
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
)

// The runs of a batch: if an evaluation sets no number, and at most.
const (
	defaultBatchRuns = 1000
	mostBatchRuns    = 10_000
)

// The ways to use the batch endpoints of providers.
const (
	batchOff    = "off"
	batchPrefer = "prefer"
)

// batch reads how the batch endpoints of providers are used: a word, or a block with it.
func (s *draft) batch(y *yamlFile, v value) {
	use, of := batchPrefer, &record.Batch{Runs: defaultBatchRuns, Deadline: record.DefaultBatchDeadline}
	words := []string{batchPrefer, batchOff}
	if isMapping(v.node) {
		y.mapping(v, keys{
			"use":      func(v value) { use = y.oneOf(v, words) },
			"runs":     func(v value) { of.Runs = y.integer(v, 1, mostBatchRuns) },
			"deadline": func(v value) { of.Deadline = y.duration(v, 0) },
		})
	} else {
		use = y.oneOf(v, words)
	}
	if use == batchPrefer {
		s.settings.Batch, s.batchAt = of, v.key
	}
}

// setBatch names the models that are asked through batch endpoints, and refuses what no batch can ask.
func (s *draft) setBatch() {
	batch := s.settings.Batch
	if batch == nil {
		return
	}
	if s.demands(s.asked.Grounded) {
		s.refuse(s.batchAt, "remove batch, or set grounding: off", "a batch cannot search the web")
		return
	}
	if s.settings.Until != nil {
		s.refuse(s.batchAt, "remove batch, or until", "until ends an evaluation between two verdicts, and a batch asks for many at once")
		return
	}
	if s.asked.Panel != nil {
		s.warn(s.batchAt, "", "the agents of a panel are asked one by one: batches are for judges, models and listed runs")
	}

	var without []string
	for _, asked := range s.settings.Everyone(&s.asked) {
		target := asked.Target()
		switch {
		case asked.Tier() != "":
			s.refuse(s.batchAt, "remove service_tier, or batch", "%s has the service tier %s; a batch has a tier of its own", target, asked.Tier())
		case slices.Contains(batch.Models, target):
		case s.known[asked.Provider].Capabilities(asked.Model).Batch:
			batch.Models = append(batch.Models, target)
		case asked.Name != "": // neither a fallback model nor one that makes JSON
			without = append(without, target)
		}
	}

	slices.Sort(without)
	if len(batch.Models) == 0 && len(without) > 0 {
		s.refuse(s.batchAt, "remove batch, or use a model of a provider that has them",
			"no model of the evaluation has a batch endpoint: %s", strings.Join(slices.Compact(without), ", "))
		return
	}
	if len(without) > 0 {
		s.warn(s.batchAt, "", "these have no batch endpoint, and are asked one by one: %s", strings.Join(slices.Compact(without), ", "))
	}
}
