package config

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/wording"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// finish lays the prompts out, and makes the submission.
func (x *experiment) finish() (*Submission, error) {
	x.saySkipped()
	if len(x.prompts.List) == 0 && len(x.problems) == 0 {
		x.refuse(x.top, `write one JSON object a line: {"id": 0, "api": "openai", "model_name": "gpt-4o", "prompt": "…"}`, "the file has no prompts")
	}
	x.nameRuns()
	x.asked.Prompts = &x.prompts
	x.checkSenders()
	if !x.fleet.attemptsSet {
		x.settings.Retry.MaxAttempts = DefaultMaxAttempts
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

// nameRuns gives every prompt a unique ID: the line's, if no earlier line has it, or else one
// made of the line's number. Prompts for Ollama are then sorted by their models, so that a
// server loads each model once.
func (x *experiment) nameRuns() {
	taken := map[string]place{}
	for i, w := range x.written {
		if _, ok := taken[w.id]; w.id != "" && !ok {
			taken[w.id] = w.at
			x.prompts.List[i].ID = w.id
		}
	}
	unnamed, repeated := idProblem{}, idProblem{}
	for i, w := range x.written {
		if x.prompts.List[i].ID != "" {
			continue
		}
		name := fmt.Sprintf("line %d", w.at.line)
		kind := &unnamed
		if w.id != "" {
			kind, name = &repeated, fmt.Sprintf("%s (%s)", w.id, name)
		}
		for _, ok := taken[name]; ok; _, ok = taken[name] {
			name += "'"
		}
		kind.note(w, name)
		taken[name] = w.at
		x.prompts.List[i].ID = name
	}
	if unnamed.lines > 0 {
		x.warn(unnamed.at, "add one to refer to its answer by", "%s no id that can name a run; the first run is called %q", wording.Either(unnamed.lines, "line has", "lines have"), unnamed.name)
	}
	if repeated.lines > 0 {
		x.warn(repeated.at, "", "%s the id of a line before; the first, %q of line %d again, is run as %q",
			wording.Either(repeated.lines, "line has", "lines have"), printable(repeated.id), taken[repeated.id].line, printable(repeated.name))
	}
	x.byOllamaModel()
}

// idProblem is the first of several lines, and how many there are.
type idProblem struct {
	writtenID
	name  string
	lines int
}

func (p *idProblem) note(w writtenID, name string) {
	if p.lines++; p.lines == 1 {
		p.writtenID, p.name = w, name
	}
}

// byOllamaModel sorts prompts for Ollama by their models, among the places that they
// have.
func (x *experiment) byOllamaModel() {
	var at []int
	var sorted []eval.Prompt
	for i, p := range x.prompts.List {
		if x.senders[p.Model].api == "ollama" {
			at, sorted = append(at, i), append(sorted, p)
		}
	}
	slices.SortStableFunc(sorted, func(a, b eval.Prompt) int {
		return cmp.Compare(x.senders[a.Model].model, x.senders[b.Model].model)
	})
	for i, p := range sorted {
		x.prompts.List[at[i]] = p
	}
}

// checkSenders wants providers that can be asked; each is reported once.
func (x *experiment) checkSenders() {
	told := map[string]bool{}
	apis := map[string]string{} // of groups that name a provider
	for i, m := range x.prompts.Models {
		who := x.senders[i]
		if named := x.fleet.groups[who.group]; named.provider != "" {
			if before, ok := apis[who.group]; ok && before != who.api {
				x.refuse(who.at, "use another group, or name its provider as api in each line",
					"group %s also has lines of api %s, and %s sends all of it to %s", who.group, before, named.at, named.provider)
			}
			apis[who.group] = who.api
		}
		if told[m.Provider] {
			continue
		}
		told[m.Provider] = true
		if _, known := x.known[m.Provider]; !known && unaddressed[m.Provider] != "" {
			x.refuse(who.at, "write in --config: "+unaddressed[m.Provider], "no address for %s", m.Provider)
			continue
		}
		x.reachable(who.at, m)
	}
}

// unaddressed are apis without a well-known address, and the setting that gives one.
var unaddressed = map[string]string{
	"vertexai":        `providers: {vertexai: {dialect: generate, base_url: "https://…", api_key_env: VERTEXAI_API_KEY}}`,
	"huggingface-tgi": `providers: {huggingface-tgi: {dialect: chat, base_url: "http://…/v1"}}`,
	"quart":           `providers: {quart: {dialect: chat, base_url: "http://…/v1"}}`,
}

// queues lays the prompts out, and limits the pace of each queue: one call at a
// time, at even distances.
func (x *experiment) queues() ([]Queue, []limit) {
	o, most := x.options.Experiment, DefaultMaxQueries
	if o.MaxQueries != nil {
		if most = *o.MaxQueries; most < 1 || most > math.MaxInt32 {
			x.refuse(place{path: maxQueriesFlag}, "want a whole number of prompts a minute, at least 1", "got %d", most)
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
	layout := newQueuing(most, only, rates)
	for _, who := range x.senders {
		x.settings.Groups = append(x.settings.Groups, layout.add(who.sender, who.prompts))
	}
	if !x.judging {
		x.unused(rates, x.senders)
	}
	var limits []limit
	for _, q := range layout.queues {
		if q.Prompts > 0 {
			limits = append(limits, limit{Limit: ratelimit.Limit{
				Scope: ratelimit.Scope{Group: q.Name}, Kind: ratelimit.Requests,
				Max: int64(q.PerMinute), Period: time.Minute, Burst: 1,
			}, at: place{path: maxQueriesFlag}})
		}
	}
	return layout.queues, limits
}
