package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// needed returns the text of a required key. It reports a missing key, and a value that is not text
// or cannot be a name; example shows a valid one.
func (x *experiment) needed(l experimentLine, key, example string) string {
	v, ok := l.values[key]
	if !ok || isNull(v.raw) {
		x.missing(l, key, example)
		return ""
	}
	text, ok := textOf(v.raw)
	switch {
	case !ok || text == "":
		x.refuse(v.at, "want text, for example "+example, "got %s", printable(string(v.raw)))
	case !nameable(text):
		x.unnameable(v.at, text, "names nothing")
	}
	return text
}

func (x *experiment) missing(l experimentLine, key, example string) {
	fix := "add " + strconv.Quote(key) + ": " + example
	if near := wording.Nearest(key, slices.Collect(maps.Keys(l.values))); near != "" {
		fix = fmt.Sprintf("call %s %s, if that is what it is", strconv.Quote(near), key)
	}
	at := l.at
	at.path = key
	x.refuse(at, fix, "the line has no %s", key)
}

// checkPrompt requires a text, texts or messages. The content of messages is the sender's.
func (x *experiment) checkPrompt(l experimentLine) {
	const fix = `want text, a list of texts or a list of messages, for example [{"role": "user", "content": "…"}]`
	v, ok := l.values["prompt"]
	if !ok || isNull(v.raw) {
		x.missing(l, "prompt", `"…"`)
		return
	}
	var parts []json.RawMessage
	switch {
	case v.raw[0] == '"':
		return
	case json.Unmarshal(v.raw, &parts) != nil:
		x.refuse(v.at, fix, "got %s", printable(string(v.raw)))
	case len(parts) == 0:
		x.refuse(v.at, fix, "the list is empty")
	}
	for _, part := range parts {
		if part[0] != '"' && part[0] != '{' || part[0] != parts[0][0] {
			x.refuse(v.at, fix, "%s is among them", printable(string(part)))
			return
		}
	}
}

// group returns the line's group; empty: none.
func (x *experiment) group(l experimentLine) string {
	v := l.values["group"]
	if isNull(v.raw) {
		return ""
	}
	group, ok := textOf(v.raw)
	if !ok {
		if strings.ContainsAny(string(v.raw[:1]), `[{`) {
			x.refuse(v.at, "want text", "got %s", printable(string(v.raw)))
			return ""
		}
		group = string(v.raw)
	}
	if !nameable(group) {
		x.unnameable(v.at, group, "names no group")
	}
	return group
}

// parameters returns the line's settings of its request; nil: none.
func (x *experiment) parameters(l experimentLine) map[string]any {
	v := l.values["parameters"]
	if isNull(v.raw) {
		return nil
	}
	all, ok := x.settingsOf(v, `want an object, for example {"temperature": 0}`)
	if !ok || len(all) == 0 {
		return nil
	}
	return all
}

// settingsOf returns v as an object. It reports a value that is not an object, with fix as its
// solution, and numbers that JSON cannot hold exactly.
func (f *findings) settingsOf(v placedValue, fix string) (all map[string]any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(v.raw))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil || all == nil {
		f.refuse(v.at, fix, "got %s", printable(string(v.raw)))
		return nil, false
	}
	if lost := inexact(all); lost != "" {
		f.refuse(v.at, "write it in quotes if it is text", "%s is a number that JSON cannot hold exactly", lost)
		return nil, false
	}
	clear(all)
	_ = json.Unmarshal(v.raw, &all)
	return all, true
}

// inexact returns the first number in v that some JSON readers would change, as written. It returns
// "" if there is none.
func inexact(v any) string {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if _, whole := strconv.ParseInt(v.String(), 10, 64); err != nil || math.Abs(f) > maxExact &&
			(whole == nil || !strings.ContainsAny(v.String(), ".eE")) {
			return v.String()
		}
	case []any:
		for _, element := range v {
			if lost := inexact(element); lost != "" {
				return lost
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if lost := inexact(v[key]); lost != "" {
				return lost
			}
		}
	}
	return ""
}

// filter returns the line's safety_filter; empty: none. It reports an unknown filter.
func (x *experiment) filter(l experimentLine, api string) string {
	v := l.values["safety_filter"]
	if isNull(v.raw) {
		return ""
	}
	word, ok := textOf(v.raw)
	if _, known := prompto.Settings(api, nil, word); !ok || !known {
		x.refuse(v.at, didYouMean(word, slices.Collect(maps.Keys(prompto.SafetyFilters))), "%s is not a safety filter", printable(string(v.raw)))
	}
	return word
}

// model returns the position in prompts.Models of the model that a line asks with these settings.
// It adds the model if it is new. Models with queues of their own are distinct under all flags, so
// flags are not part of the evaluation's identity.
func (x *experiment) model(who prompto.Sender, parameters map[string]any, filter string, at place) int {
	m := who.Judge(x.provider(who), parameters, filter)
	if i, ok := x.models[m.Name]; ok {
		return i
	}
	x.models[m.Name] = len(x.prompts.Models)
	x.prompts.Models = append(x.prompts.Models, m)
	x.senders = append(x.senders, countedSender{Sender: who, at: at})
	return len(x.prompts.Models) - 1
}

// provider returns the provider that is asked the lines of an api: the one that the group names,
// else the one with the api's name.
func (x *experiment) provider(who prompto.Sender) string {
	if named, ok := x.fleet.groups[who.Group]; ok && who.Group != "" {
		return named.provider
	}
	return catalog.Canonical(who.API)
}

// row returns the position in prompts.Rows of a line's text, which shows images. Lines with the same text share one.
func (x *experiment) row(l experimentLine, images []eval.Image) int {
	hash := eval.TextHash(l.text)
	if i, ok := x.rows[hash]; ok {
		return i
	}
	x.texts[hash] = l.text
	x.rows[hash] = len(x.prompts.Rows)
	id := fmt.Sprintf("line %d", l.at.line)
	x.prompts.Rows = append(x.prompts.Rows, eval.Document{ID: id, Item: x.item, Candidate: id, Hash: hash, Bytes: len(l.text), Images: images})
	return len(x.prompts.Rows) - 1
}

// idOf returns an id in the form that names a run: the text of a string, or any other value as
// compact JSON. It returns "" for a value that cannot name a run.
func idOf(raw json.RawMessage) string {
	if isNull(raw) {
		return ""
	}
	id, ok := textOf(raw)
	if !ok {
		var compact bytes.Buffer
		if json.Compact(&compact, raw) != nil {
			return ""
		}
		id = compact.String()
	}
	if !nameable(id) {
		return ""
	}
	return id
}
