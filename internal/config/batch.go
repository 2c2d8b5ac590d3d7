package config

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/openaibatch"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// loadBatch makes an evaluation from the requests of a file in OpenAI's Batch format.
// Options.Provider and Model, if given, replace the models of the file. The evaluation is named
// after the file without its extension. Its error is of type Problems.
func loadBatch(path string, o Options) (*Submission, error) {
	s, err := newDraft(path, filepath.Dir(path), stem(path), o)
	if err != nil {
		return nil, err
	}
	b := &batch{
		draft: s, prompts: eval.Prompts{Format: eval.PromptsBatch}, item: s.emptyItem(),
		ids: map[string]place{}, models: map[string]int{}, dropped: map[string]bool{},
	}
	s.writtenLines(path, b.line)
	if len(b.prompts.List) == 0 && len(s.problems) == 0 {
		s.refuse(
			s.top,
			`write one JSON object per line: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}`,
			"the file has no requests",
		)
	}
	s.asked.Prompts = &b.prompts
	if len(b.prompts.Models) > 0 { // which have one provider
		at := b.urlAt
		if o.Provider != "" {
			at = place{path: "--provider"}
		}
		s.reachable(at, b.prompts.Models[0])
	}

	return s.finish()
}

// batch gathers the lines of a Batch file into prompts.
type batch struct {
	*draft
	prompts eval.Prompts
	item    int
	url     string           // the url of every line
	urlAt   place            // where it occurs first
	ids     map[string]place // by the ids of the lines
	models  map[string]int   // positions in prompts.Models, by name
	dropped map[string]bool  // parameters already warned about
}

// line adds one request.
func (b *batch) line(at place, line []byte) {
	j, members, ok := b.writtenLine(at, line)
	if !ok {
		return
	}

	before, values := len(b.problems), j.values(members, "")
	id := b.text(at, values, "custom_id")
	if method := b.text(at, values, "method"); method != "" && method != "POST" {
		b.refuse(values["method"].at, "want POST", "got %q", printable(method))
	}
	url := b.endpoint(at, values)
	body := b.body(at, values)
	if first, twice := b.ids[id]; twice && id != "" {
		b.refuse(
			values["custom_id"].at, "give each request a unique custom_id", "the custom_id %q is already used in line %d",
			printable(id), first.line,
		)
	}
	if len(b.problems) > before {
		return
	}
	b.ids[id] = at
	if _, err := openaibatch.Read(string(line)); err != nil {
		b.refuse(values["body"].at, "", "%v", err)
		return
	}
	text := string(line)
	hash, row := eval.TextHash(text), fmt.Sprintf("line %d", at.line)
	b.texts[hash] = text
	b.prompts.List = append(b.prompts.List, eval.Prompt{ID: id, Model: b.model(url, body, values["body"].at), Row: len(b.prompts.Rows)})
	b.prompts.Rows = append(b.prompts.Rows, eval.Document{ID: row, Item: b.item, Candidate: row, Hash: hash, Bytes: len(text)})
}

func (b *batch) text(at place, values map[string]placedValue, key string) string {
	v, ok := values[key]
	if !ok || isNull(v.raw) {
		at.path = key
		b.refuse(at, "each line has custom_id, method, url and body", "the line has no %s", key)
		return ""
	}
	text, ok := textOf(v.raw)
	if !ok || text == "" || !nameable(text) {
		b.refuse(v.at, fmt.Sprintf("want text of at most %d printable characters", maxID), "got %s", printable(string(v.raw)))
		return ""
	}
	return text
}

// endpoint returns the url of a line. It reports a url that is not supported or differs from that
// of earlier lines.
func (b *batch) endpoint(at place, values map[string]placedValue) string {
	url := b.text(at, values, "url")
	v := values["url"]
	switch {
	case url == "":
	case openaibatch.Providers[url] == "":
		b.refuse(v.at, "want "+openaibatch.Chat+" or "+openaibatch.Responses, "endpoint %q is not supported", printable(url))
	case b.url == "":
		b.url, b.urlAt = url, v.at
	case b.url != url:
		b.refuse(
			v.at, "put the requests of each endpoint into a separate file", "the url is %s here, and %s in line %d", url, b.url,
			b.urlAt.line,
		)
	}
	return url
}

// body returns the body of the line's request. It reports a body that is not usable, and returns
// nil if there is none.
func (b *batch) body(at place, values map[string]placedValue) map[string]any {
	v, ok := values["body"]
	if !ok {
		at.path = "body"
		b.refuse(at, "each line has custom_id, method, url and body", "the line has no body")
		return nil
	}
	body, ok := b.settingsOf(v, `want an object, for example {"model": "gpt-4o", "messages": […]}`)
	if !ok {
		return nil
	}
	model, _ := body["model"].(string)
	switch {
	case body["stream"] == true:
		b.refuse(v.at, "remove it", "stream is true, but answers are written to a file only when complete")
	case cmp.Or(b.options.Model, model) == "":
		b.refuse(v.at, "add model, or set --model", "the body does not name a model")
	case !nameable(model):
		b.unnameable(v.at, model, "names no model")
	}
	return body
}

// model returns the position in prompts.Models of the model that a line asks with these settings.
// It adds the model if it is new.
func (b *batch) model(url string, body map[string]any, at place) int {
	written, _ := body["model"].(string)
	provider := cmp.Or(catalog.Canonical(b.options.Provider), openaibatch.Providers[url])
	settings, dropped := openaibatch.Settings(url, b.known[provider].Dialect, body)
	for _, name := range dropped {
		if !b.dropped[name] {
			b.warn(at, "", "%s does not support %s: omitted from all requests", provider, printable(name))
		}
		b.dropped[name] = true
	}
	m := openaibatch.Judge(provider, cmp.Or(b.options.Model, written), settings)
	i, ok := b.models[m.Name]
	if !ok {
		i = len(b.prompts.Models)
		b.models[m.Name] = i
		b.prompts.Models = append(b.prompts.Models, m)
	}
	return i
}
