package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// overrideNames lists settings of models that requests commonly have, in any dialect.
var overrideNames = []string{
	"temperature", "max_completion_tokens", "max_tokens", "max_output_tokens", "reasoning_effort", "reasoning", "thinking",
	"top_p", "top_k", "min_p", "seed", "stop", "stop_sequences", "frequency_penalty", "presence_penalty", "repetition_penalty",
	"logprobs", "top_logprobs", "logit_bias", "service_tier", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls",
	"verbosity", "web_search_options", "safety_settings", "generation_config", "metadata",
	"provider", "user", "store", "num_ctx", "keep_alive",
}

// otherNames maps other tools' names for keys of a concurrency block to ours.
var otherNames = map[string]string{
	"rpm": "requests_per_minute", "tpm": "tokens_per_minute", "rpd": "requests_per_day",
	"itpm": "input_tokens_per_minute", "otpm": "output_tokens_per_minute", "qps": "rate_limit", "rps": "rate_limit",
	"max_workers": "max_concurrency", "workers": "max_concurrency", "parallel": "max_concurrency", "parallelism": "max_concurrency",
	"concurrent": "max_concurrency", "max_parallel": "max_concurrency", "max_concurrent": "max_concurrency",
	"timeout": "timeout_seconds", "json_mode": "json", "json-mode": "json",
}

// elsewhere maps keys that belong in another place or another file to a hint that says where.
var elsewhere = map[string]string{
	"requests_per_minute":      "put it under the provider: concurrency: {per_provider: {openai: {requests_per_minute: 500}}}",
	"tokens_per_minute":        "put it under the provider: concurrency: {per_provider: {openai: {tokens_per_minute: 200000}}}",
	"input_tokens_per_minute":  "put it under the provider: concurrency: {per_provider: {anthropic: {input_tokens_per_minute: 50000}}}",
	"output_tokens_per_minute": "put it under the provider: concurrency: {per_provider: {anthropic: {output_tokens_per_minute: 10000}}}",
	"enqueued_tokens":          "put it under the provider: concurrency: {per_provider: {openai: {enqueued_tokens: 2000000}}}",
	"requests_per_day":         "put it under the provider: concurrency: {per_provider: {google: {requests_per_day: 1000}}}",
	"rate_limit":               "put it under the provider: concurrency: {per_provider: {openai: {rate_limit: {qps: 8, burst: 16}}}}",
	"max_concurrency":          "put it under concurrency: {max_concurrency: 8}",
	"timeout_seconds":          "put it under concurrency: {timeout_seconds: 600}",
	"per_provider":             "put it under concurrency: {per_provider: …}",
	"sink":                     "put it into the fleet's --config, or use --sink",
	"notify":                   "put it into the fleet's --config, because an evaluation file may come from someone else",
}

// hint returns the fix for an unknown key.
func hint(key string, known []string) string {
	meant := key
	if name, ok := otherNames[strings.ToLower(key)]; ok {
		meant = name
	}
	near := wording.Nearest(key, known)
	switch {
	case slices.Contains(known, meant):
		return "did you mean " + meant + "?"
	case near != "":
		return "did you mean " + near + "?"
	case elsewhere[meant] != "":
		return elsewhere[meant]
	}

	name := key
	if !slices.Contains(overrideNames, key) {
		name = wording.Nearest(key, overrideNames)
	}
	if slices.Contains(known, "overrides") && name != "" {
		return "put it under overrides: {" + name + ": …}"
	}
	if slices.Contains(known, "judges") && name != "" {
		return "put it under a judge: judges: [{model: …, overrides: {" + name + ": …}}]"
	}
	return didYouMean(key, known)
}

// apis maps promptfoo's names of a provider and its API to our name of the provider.
var apis = map[string]map[string]string{
	"openai":      {"chat": "openai-chat", "responses": "openai", "completion": "openai-chat"},
	"azure":       {"chat": "azure-openai", "responses": "azure-openai"},
	"azureopenai": {"chat": "azure-openai", "responses": "azure-openai"},
	"anthropic":   {"messages": "anthropic", "completion": "anthropic"},
	"ollama":      {"chat": "ollama", "completion": "ollama"},
	"openrouter":  {"chat": "openrouter"},
}

// fromPromptfoo returns our name of a model that promptfoo calls provider:api:model. It returns ""
// if the name is not of that form.
func fromPromptfoo(provider, model string) string {
	api, name, ok := strings.Cut(model, ":")
	ours := apis[provider][api]
	if !ok || ours == "" || name == "" || name == "latest" { // "latest" is a tag of Ollama's
		return ""
	}
	return ours + ":" + name
}

// keyWords matches keys under which files of other tools hold API keys.
var keyWords = regexp.MustCompile(`(?i)^(.*_)?(api_?key|api_?token|access_?token|secret_?key|secret|token|key)$`)

// thousands matches the digits after a comma in a number, which YAML parses as a key of their own.
var thousands = regexp.MustCompile(`^[0-9]{3}$`)

// expanded matches a variable as a shell would expand it.
var expanded = regexp.MustCompile(`^\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?$`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// refuseKey reports that a file contains an API key. It does not quote the key.
func (y *yamlFile) refuseKey(at place) {
	y.refuse(at, "revoke it, and put a new one into the environment or .env, for example as OPENAI_API_KEY; "+
		"api_key_env names another variable",
		"API keys are not read from files, and anyone who has read this one has the key")
}

// lookForComment warns of a comment that looks like part of the value before it, as in round #2.
func (y *yamlFile) lookForComment(v value, text string) {
	line := []rune(strings.TrimRight(lineOf(y.source, v.line), "\r\n"))
	if text == "" || v.column > len(line) {
		return
	}
	rest, plain := strings.CutPrefix(string(line[v.column-1:]), text)
	comment, begins := strings.CutPrefix(strings.TrimLeft(rest, " \t"), "#")
	if !plain || !begins || comment == "" || strings.ContainsAny(comment[:1], "# \t") {
		return
	}
	p := v.problem(fmt.Sprintf(
		"put it in quotes, %q, or write a space after # to make it a comment", printable(text+strings.TrimRight(rest, " \t")),
	),
		"the value is %q, because # after a space begins a comment", printable(text))
	if !slices.Contains(y.warnings, p) { // the value may be read twice
		y.warnings = append(y.warnings, p)
	}
}

// unknownKey reports a key that is not valid in a mapping.
func (y *yamlFile) unknownKey(key string, child value, known []string) {
	if text, ok := scalar(child.node); ok && len(text) >= 8 && keyWords.MatchString(key) &&
		wording.Nearest(key, known) != "api_key_env" || strings.EqualFold(key, "api_key") {
		y.refuseKey(child.key)
		return
	}
	if thousands.MatchString(key) && child.node.Type() == ast.NullType {
		y.refuse(child.key, "write numbers without commas, for example 1000000", "unknown key")
		return
	}
	if y.ofFleet && child.key.path == key && slices.Contains(evaluationKeys, key) {
		if !y.misused {
			y.refuse(
				child.key,
				"pass it as FILE; --config is for the fleet's file, with providers, concurrency, retry, prices, sink and notify",
				"this is an evaluation file",
			)
		}
		y.misused = true
		return
	}
	y.refuse(child.key, hint(key, known), "unknown key")
}

// environmentName reads the name of a variable that holds an API key. An invalid name is taken
// for the key itself.
func (y *yamlFile) environmentName(v value) string {
	name := y.word(v)
	if of := expanded.FindStringSubmatch(name); of != nil {
		y.refuse(v.place, "write only its name: "+of[1], "variables are not expanded in files")
		return ""
	}
	if name != "" && !variableName.MatchString(name) {
		y.refuseKey(v.place)
		return ""
	}
	return name
}

var evaluationKeys = []string{"documents", "judges", "pairwise", "single", "panel", "votes", "runs", "test"}

// syntaxHint returns a fix for text that is not YAML, derived from the parser's message and the
// line that it refers to.
func syntaxHint(message, line string) string {
	switch {
	case strings.Contains(line, "${"):
		return "variables are not expanded in files; a key is named by its variable, for example api_key_env: OPENAI_API_KEY"
	case strings.Contains(line, "\u00a0"):
		return "indent with plain spaces: this line has no-break spaces"
	case strings.Contains(message, "'\t'"), strings.Contains(message, "tab character"):
		return "indent with spaces: YAML allows no tabs"
	case strings.Contains(message, "mapping value is not allowed"), strings.Contains(message, "could not find expected ':'"):
		return `put a text that contains ": " in quotes`
	case strings.Contains(message, "pre-defined"):
		return "write an apostrophe within single quotes twice, or use double quotes"
	case strings.Contains(message, "could not find end character"):
		return "look for a quote that is not closed, here or in the lines before"
	case strings.Contains(message, "value is not allowed in this context"):
		return "check the indentation: keys of one mapping begin in the same column; and look for a quote that is not closed"
	case strings.Contains(message, "unexpected key name"):
		return "check the indentation: keys of one mapping begin in the same column, and have a space after their colon"
	case strings.Contains(message, "must be specified"):
		return "look for a bracket that is not closed, here or in the lines before"
	case strings.Contains(message, "reserved character"):
		return "put a text that begins with @ or ` in quotes"
	case strings.Contains(message, "unknown escape character"):
		return "write paths with /, or put the text in single quotes"
	}

	return ""
}

// mappingExamples holds an example of each mapping that is often given as one word.
var mappingExamples = map[string]string{
	"pairwise": "{pairs: all}", "single": "{criteria: [style]}", "concurrency": "{max_concurrency: 8}", "retry": "{max_attempts: 3}",
	"budget": "{usd: 5}", "confirm_above": "{usd: 5}", "providers": `{local: {base_url: "http://127.0.0.1:8000/v1"}}`,
}

// suffixed matches a number with the letter for thousands or millions.
var suffixed = regexp.MustCompile(`^([0-9]+)([kKmM])$`)

// numberHint returns the right form of a number that was given as text; empty: unknown.
func numberHint(word string) string {
	if of := suffixed.FindStringSubmatch(word); of != nil {
		return of[1] + map[string]string{"k": "000", "m": "000000"}[strings.ToLower(of[2])]
	}
	if strings.Trim(word, "0123456789") == "" {
		return word + " without quotes"
	}
	return ""
}

// documentsHint returns a fix for a pattern that matches no file.
func documentsHint(pattern string) string {
	switch {
	case strings.ContainsAny(pattern, "“”‘’„"):
		return `use straight quotes, as in "docs/*.md"`
	case strings.HasPrefix(pattern, "~"):
		return "~ is not expanded: write the whole path, or one relative to the evaluation file's folder"
	case strings.HasPrefix(pattern, "-"):
		return "put a space after the dash"
	case strings.Contains(pattern, `\`):
		return "write paths with /, relative to the evaluation file's folder"
	}
	return "paths are relative to the evaluation file's folder"
}
