package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// Cache returns earlier answers; a results.Reader is one. It is used by many goroutines at
// once.
type Cache interface {
	// Answered returns the call with that record.Call.Key whose answer was usable.
	Answered(ctx context.Context, key string) (call record.Call, found bool, err error)
}

// cacheVersion is that of keyed, and part of every key.
const cacheVersion = 1

// keyed holds everything that makes two calls the same. Trials, and an evaluation that is asked
// again, exist to ask once more, so their calls differ.
type keyed struct {
	Version         int                 `json:"v"`
	Provider        string              `json:"provider"`
	Model           string              `json:"model"`
	Stage           string              `json:"stage"`
	Trial           int                 `json:"trial"`
	Again           string              `json:"again"`
	Messages        []providers.Message `json:"messages"`
	Schema          *providers.Schema   `json:"schema"`
	MaxOutputTokens int                 `json:"max_output_tokens"`
	Temperature     *float64            `json:"temperature"`
	ReasoningEffort string              `json:"reasoning_effort"`
	Search          bool                `json:"search"`
	Reason          bool                `json:"reason"`
	Complete        bool                `json:"complete,omitempty"`
	BoundSearches   bool                `json:"bound_searches,omitempty"`
	Extra           map[string]any      `json:"extra"` // encoded with its keys sorted
}

// key is the call's record.Call.Key, empty where answers are not to be used again.
func (r *run) key(s step) (string, error) {
	if !r.evaluation.record.Settings.Cache {
		return "", nil
	}
	request := s.request
	encoded, err := json.Marshal(keyed{
		Version: cacheVersion, Provider: s.target.Provider, Model: request.Model, Stage: s.stage,
		Trial: r.place.Trial, Again: r.evaluation.asked.Again,
		Messages: request.Messages, Schema: request.Schema, MaxOutputTokens: request.MaxOutputTokens,
		Temperature: request.Temperature, ReasoningEffort: request.ReasoningEffort,
		Search: request.Search, Reason: request.Reason, Complete: request.Complete, BoundSearches: request.Search && request.BoundSearches, Extra: request.Extra,
	})
	if err != nil {
		return "", fmt.Errorf("encode a call of %s for its key: %w", r.task.RunID(), err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// fromCache answers a call with an earlier answer and keeps its record; nil: the call must be
// made. Runs retried after a failure are always asked.
func (r *run) fromCache(ctx context.Context, s step, key string) *providers.Result {
	if key == "" || r.task.Generation > 0 || !r.life.cacheSays.has(r) {
		return nil
	}
	asked := time.Now().UTC()
	before, found, err := r.cfg.Cache.Answered(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			r.life.cacheSays.failed(r, err)
		}
		return nil
	}
	if !found {
		return nil
	}
	call := r.newCall(s, key)
	call.Cached, call.Asked, call.Ended = true, asked, time.Now().UTC()
	call.Status, call.RequestID, call.Text, call.Finish = before.Status, before.RequestID, before.Text, before.Finish
	call.Grounding, call.Reasoning, call.Dropped = before.Grounding, before.Reasoning, before.Dropped
	call.Usage = providers.Usage{Reported: true, CostUSD: dollars(0)}
	r.keep(*call)
	result := &providers.Result{
		Text: before.Text, Finish: providers.Finish(before.Finish), Reasoning: before.Reasoning, Usage: before.Usage, RequestID: before.RequestID,
	}
	if before.Grounding != nil {
		result.Grounding = *before.Grounding
	}
	if s.request.Schema != nil && json.Valid([]byte(before.Text)) {
		result.JSON = json.RawMessage(before.Text)
	}
	return result
}

// cacheSays limits a warning that applies to all calls to one per process.
type cacheSays struct{ none, cannot sync.Once }

// has reports whether the worker has a cache at all.
func (c *cacheSays) has(r *run) bool {
	if r.cfg.Cache != nil {
		return true
	}
	c.none.Do(func() {
		r.log.Warn().Str("evaluation", string(r.task.Evaluation)).
			Msg("the evaluation uses cached answers, but this worker has no results store for them (--cache): making the calls")
	})
	return false
}

func (c *cacheSays) failed(r *run, err error) {
	c.cannot.Do(func() {
		r.log.Warn().Err(err).Msg("cannot read cached answers from the results store: making the call")
	})
}
