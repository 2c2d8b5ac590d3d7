package config

import (
	"math"
	"path/filepath"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// finish assigns the prompts to queues, and makes the submission.
func (x *experiment) finish() (*Submission, error) {
	x.saySkipped()
	if len(x.prompts.List) == 0 && len(x.problems) == 0 {
		x.refuse(
			x.top, `write one JSON object per line: {"id": 0, "api": "openai", "model_name": "gpt-4o", "prompt": "…"}`,
			"the file has no prompts",
		)
	}
	x.nameRuns()
	x.asked.Prompts = &x.prompts
	x.checkSenders()
	if !x.fleet.attemptsSet {
		x.settings.Retry.MaxAttempts = prompto.DefaultMaxAttempts
	}
	queues, limits := x.queues()
	x.own.limits = append(x.own.limits, limits...)
	s, err := x.draft.finish()
	if err != nil {
		return nil, err
	}

	s.Queues = queues
	if x.judging {
		return s, nil
	}
	if s.File, err = filepath.Abs(x.top.file); err != nil {
		return nil, err
	}
	return s, nil
}

// nameRuns names the run of every prompt, and sorts the prompts for Ollama.
func (x *experiment) nameRuns() {
	names, unnamed, repeated := prompto.NameRuns(x.written)
	for i, name := range names {
		x.prompts.List[i].ID = name
	}
	if unnamed.Lines > 0 {
		x.warn(
			x.lineOf(unnamed), "add one, so that answers can refer to it",
			"%s no id that can name a run; the first run is called %q", wording.Either(unnamed.Lines, "line has", "lines have"),
			unnamed.Name,
		)
	}
	if repeated.Lines > 0 {
		x.warn(x.lineOf(repeated), "", "%s the id of a line before; the first, %q of line %d again, is run as %q",
			wording.Either(repeated.Lines, "line has", "lines have"), printable(repeated.ID), repeated.Taken, printable(repeated.Name))
	}
	prompto.SortForOllama(x.prompts.List, func(model int) prompto.Sender { return x.senders[model].Sender })
}

func (x *experiment) lineOf(r prompto.Renamed) place { return place{file: x.top.file, line: r.Line} }

// askable reports whether the provider of a line can be asked. A provider that cannot is reported
// at its first line.
func (x *experiment) askable(l experimentLine, who prompto.Sender) bool {
	provider := x.provider(who)
	if unasked, met := x.unasked[provider]; met {
		return !unasked
	}
	before, at := len(x.problems), l.values["api"].at
	if _, known := x.known[provider]; !known && unaddressed[provider] != "" {
		x.refuse(at, "write in --config: "+unaddressed[provider], "no address for %s", provider)
	} else {
		x.reachable(at, eval.Judge{Provider: provider, Model: who.Model})
	}
	x.unasked[provider] = len(x.problems) > before
	return !x.unasked[provider]
}

// checkSenders requires one api in all lines of a group that names a provider.
func (x *experiment) checkSenders() {
	apis := map[string]string{}
	for _, who := range x.senders {
		named := x.fleet.groups[who.Group]
		if named.provider == "" {
			continue
		}
		if before, ok := apis[who.Group]; ok && before != who.API {
			x.refuse(who.at, "use another group, or name its provider as api in each line",
				"group %s also has lines of api %s, but %s sends the whole group to %s", who.Group, before, named.at, named.provider)
		}
		apis[who.Group] = who.API
	}
}

// unaddressed maps each api without a well-known address to the setting that gives it one.
var unaddressed = map[string]string{
	"vertexai":        `providers: {vertexai: {dialect: generate, base_url: "https://…", api_key_env: VERTEXAI_API_KEY}}`,
	"huggingface-tgi": `providers: {huggingface-tgi: {dialect: chat, base_url: "http://…/v1"}}`,
	"quart":           `providers: {quart: {dialect: chat, base_url: "http://…/v1"}}`,
}

// queues assigns the prompts to queues, and limits the pace of each queue: one call at a time, at
// even intervals.
func (x *experiment) queues() ([]prompto.Queue, []limit) {
	o, most := x.options.Experiment, prompto.DefaultMaxQueries
	if o.MaxQueries != nil {
		if most = *o.MaxQueries; most < 1 || most > math.MaxInt32 {
			x.refuse(place{path: maxQueriesFlag}, "want a whole number of prompts per minute, at least 1", "got %d", most)
		}
	}

	only := x.asked.Name
	var rates []ownRate
	switch {
	case o.Parallel && o.MaxQueriesFile != "":
		only, rates = "", x.ownRates(o.MaxQueriesFile)
	case o.Parallel:
		only = ""
	case o.MaxQueriesFile != "":
		x.warn(place{path: maxQueriesJSONFlag}, "add "+parallelFlag, "ignored: without %s all prompts go through one queue", parallelFlag)
	}

	layout := prompto.NewQueues(most, only, ratesOf(rates))
	for _, who := range x.senders {
		x.settings.Groups = append(x.settings.Groups, layout.Add(who.Sender, who.prompts))
	}
	if !x.judging {
		x.unused(rates, x.senders)
	}
	var limits []limit
	for _, q := range layout.All() {
		if q.Prompts > 0 {
			limits = append(limits, limit{Limit: ratelimit.Limit{
				Scope: ratelimit.Scope{Group: q.Name}, Kind: ratelimit.Requests,
				Max: int64(q.PerMinute), Period: time.Minute, Burst: 1,
			}, at: place{path: maxQueriesFlag}})
		}
	}

	return layout.All(), limits
}
