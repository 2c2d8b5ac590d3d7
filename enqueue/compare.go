package enqueue

import (
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// New returns an Enqueuer that submits to the fleet in client's Redis, in the default namespace.
func New(client redis.UniversalClient, log zerolog.Logger) *Enqueuer {
	return &Enqueuer{Store: store.New(client, ""), Limits: ratelimit.NewAdmin(client, ratelimit.Config{Log: log}), Log: log}
}

// Compare returns the submission of an evaluation in which judges compare texts in pairs, each pair
// in both orders, without being told the candidates. texts has them by candidate. Settings are the defaults of the program: the caller
// may change them, for example to set limits or a budget.
func Compare(name string, texts map[string]string, judges ...eval.Judge) Submission {
	e := &eval.Evaluation{
		Name: name, Blind: true, Items: []eval.Item{{}}, JSON: eval.JSONAuto,
		Pairwise: &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
	}
	for _, judge := range judges {
		if judge.Name == "" {
			judge.Name = judge.Target()
		}
		e.Judges = append(e.Judges, judge)
	}

	byHash := map[string]string{}
	for _, candidate := range slices.Sorted(maps.Keys(texts)) {
		text := texts[candidate]
		hash := eval.TextHash(text)
		byHash[hash] = text
		e.Documents = append(e.Documents, eval.Document{ID: candidate, Candidate: candidate, Hash: hash, Bytes: len(text)})
	}
	e.Normalize()
	return Submission{
		Evaluation: e, Texts: byHash,
		Settings: record.Settings{Priority: 1, Retry: record.DefaultRetry, Outage: record.DefaultOutage},
	}
}
