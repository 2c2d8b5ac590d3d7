package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
)

// Answers looks up earlier answers; a results.Reader is one. It must be safe for concurrent use.
type Answers interface {
	// Answered returns the call with that record.Call.Key whose answer was usable.
	Answered(ctx context.Context, key string) (call record.Call, found bool, err error)
}

// cacheVersion is the version of keyed. It is part of every key.
const cacheVersion = 1

// keyed holds everything that makes two calls the same. Trials, and an evaluation that is asked again, exist to ask
// once more, so their calls differ.
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

// key returns the record.Call.Key of a step's call, or "" if the evaluation does not use earlier answers, or asks for log
// probabilities, which are not recorded with answers.
func (c *Calls) key(s Step) (string, error) {
	if !c.run.Settings().Cache || s.Request.LogProbs {
		return "", nil
	}
	request := s.Request
	encoded, err := json.Marshal(keyed{
		Version: cacheVersion, Provider: s.Target.Provider, Model: request.Model, Stage: s.Stage,
		Trial: c.run.Place.Trial, Again: c.run.Evaluation.Asked.Again,
		Messages: request.Messages, Schema: request.Schema, MaxOutputTokens: request.MaxOutputTokens,
		Temperature: request.Temperature, ReasoningEffort: request.ReasoningEffort,
		Search: request.Search, Reason: request.Reason, Complete: request.Complete,
		BoundSearches: request.Search && request.BoundSearches, Extra: request.Extra,
	})
	if err != nil {
		return "", fmt.Errorf("encode a call of %s for its cache key: %w", c.run.Task.RunID(), err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// fromCache returns an earlier answer to the call and keeps a record of it; nil: the call must be made. Runs retried
// after a failure are always asked.
func (c *Calls) fromCache(ctx context.Context, s Step, key string) *providers.Result {
	if key == "" || c.run.Task.Generation > 0 || !c.by.Cache.has(c) {
		return nil
	}

	asked := c.run.Now().UTC()
	before, found, err := c.by.Cache.answers.Answered(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			c.by.Cache.failed(c, err)
		}
		return nil
	}
	if !found {
		return nil
	}
	call := c.newCall(s, key)
	call.Cached, call.Asked, call.Ended = true, asked, c.run.Now().UTC()
	call.Status, call.RequestID, call.Text, call.Finish = before.Status, before.RequestID, before.Text, before.Finish
	call.Grounding, call.Reasoning, call.Dropped = before.Grounding, before.Reasoning, before.Dropped
	call.Usage = providers.Usage{Reported: true, CostUSD: dollars(0)}
	c.keep(*call)
	result := &providers.Result{
		Text: before.Text, Finish: providers.Finish(before.Finish), Reasoning: before.Reasoning, Usage: before.Usage, RequestID: before.RequestID,
	}
	if before.Grounding != nil {
		result.Grounding = *before.Grounding
	}
	if s.Request.Schema != nil && json.Valid([]byte(before.Text)) {
		result.JSON = json.RawMessage(before.Text)
	}
	return result
}

// Known reports whether the step's call would be answered from the cache.
func (c *Calls) Known(ctx context.Context, s Step) bool {
	key, err := c.key(s)
	if err != nil || key == "" || c.run.Task.Generation > 0 || !c.by.Cache.has(c) {
		return false
	}
	_, found, err := c.by.Cache.answers.Answered(ctx, key)
	return err == nil && found
}

// Cache looks up earlier answers for all calls of a process. Its warnings concern all calls, so each is logged once.
type Cache struct {
	answers      Answers // nil: there are none
	none, cannot sync.Once
}

// NewCache returns a Cache that looks up earlier answers in answers; nil: there are none.
func NewCache(answers Answers) *Cache { return &Cache{answers: answers} }

func (c *Cache) has(of *Calls) bool {
	if c.answers != nil {
		return true
	}
	c.none.Do(func() {
		of.by.Worker.Log.Warn().Str("evaluation", string(of.run.Task.Evaluation)).
			Msg("without --cache, this worker finds no earlier answers to identical calls, and makes them; what `enqueue --wait` found " +
				"recorded is not asked again")
	})
	return false
}

func (c *Cache) failed(of *Calls, err error) {
	c.cannot.Do(func() {
		of.by.Worker.Log.Warn().Err(err).Msg("cannot read cached answers from the results store; making the call")
	})
}
