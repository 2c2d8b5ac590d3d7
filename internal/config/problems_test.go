package config

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Each file has exactly the problems listed, one a line, with their places.
func TestProblems(t *testing.T) {
	t.Parallel()
	judge := "judges: [simulator:careful]\n"
	docs := "documents: [docs/*.md]\n"
	for _, c := range []struct {
		name  string
		file  string
		files []string // name, text, …
		want  string
	}{
		{"unknown key", minimal + "judgs: []\n", nil,
			"eval.yaml:4:1: judgs: unknown key; did you mean judges?"},
		{"unknown key far from any", minimal + "pairwise_: {}\nzzzzzzzzzz: 1\n", nil,
			"eval.yaml:4:1: pairwise_: unknown key; did you mean pairwise?\n" +
				"eval.yaml:5:1: zzzzzzzzzz: unknown key; known: anchors, batch, blind, budget, cache, checks, concurrency, confirm_above, documents, enforce_web_search, escalate, fallback, grounding, " +
				"items, json, jsonify, judges, llm_api, model, models, …"},
		{"nested unknown key", docs + judge + "pairwise: {trails: 2}\n", nil,
			"eval.yaml:3:12: pairwise.trails: unknown key; did you mean trials?"},
		{"key twice", minimal + "pairwise: {ties: true}\n", nil,
			"eval.yaml:4:1: pairwise: duplicate key, first in line 3"},
		{"several at once", "documents: [docs/*.md]\njudges: [simulatr:a]\npairwise: {order: bth, trials: 0}\njson: maybe\n", nil,
			"eval.yaml:2:10: judges[0]: unknown provider simulatr; did you mean simulator?\n" +
				"eval.yaml:3:19: pairwise.order: got \"bth\"; want both, random, as_listed; did you mean both?\n" +
				"eval.yaml:3:32: pairwise.trials: got \"0\"; want a whole number of at least 1\n" +
				"eval.yaml:4:7: json: got \"maybe\"; want auto, true, false"},
		{"nothing given", "name: x\n", nil,
			"eval.yaml: judges are missing; add judges: [provider:model]\n" +
				"eval.yaml: documents are missing; add documents: [\"docs/*.md\"]\n" +
				"eval.yaml: there is no question about the documents; add single, pairwise or panel"},
		{"empty file", "# nothing\n", nil, "eval.yaml:1:1: the file is empty"},
		{"two documents", minimal + "---\nname: x\n", nil,
			"eval.yaml:5:1: a second YAML document starts here; put it into a separate file"},
		{"no mapping", "a\n", nil, "eval.yaml:1:1: got \"a\"; want keys with values"},
		{"mapping as documents", judge + "pairwise: {}\ndocuments: {path: x}\n", nil,
			"eval.yaml:3:12: documents: got a mapping; want a list"},
		{"syntax", "documents: [docs/*.md\n", nil, ""},
		{"control characters in the name", "name: \"a\\x1b[2J\"\n" + minimal, nil,
			`eval.yaml:1:7: name: "a\x1b[2J" cannot be a name; use at most 512 printable characters`},
		{"control characters of Unicode in the name", "name: \"a\\u009b\"\n" + minimal, nil,
			`eval.yaml:1:7: name: "a\u009b" cannot be a name; use at most 512 printable characters`},
		{"no UTF-8", "name: \xff\n", nil, "eval.yaml: not UTF-8: byte 6 is not part of a character; save it as UTF-8"},

		{"judge without colon", docs + "judges: [gpt-5]\npairwise: {}\n", nil,
			"eval.yaml:2:10: judges[0]: \"gpt-5\" does not name a provider; write provider:model, for example openai:gpt-5-mini"},
		{"judge without model", docs + "judges: [{name: strict}]\npairwise: {}\n", nil,
			"eval.yaml:2:10: judges[0]: the judge has no model; add model: provider:model, or write only the text \"provider:model\""},
		{"judge twice", docs + "judges: [simulator:careful, simulator:careful]\npairwise: {}\n", nil,
			"eval.yaml:2:29: judges[1]: a second judge called simulator:careful, the first is in DIR/eval.yaml:2; give each judge a unique name: {name: …, model: …}"},
		{"no judges in list", docs + "judges: []\npairwise: {}\n", nil,
			"eval.yaml:2:9: judges: judges are missing; add judges: [provider:model]"},
		{"override set by evalfleet", docs + "judges: [{model: simulator:careful, overrides: {messages: []}}]\npairwise: {}\n", nil,
			"eval.yaml:2:49: judges[0].overrides.messages: evalfleet sets messages itself; remove it"},
		{"override out of range", docs + "judges: [{model: simulator:careful, overrides: {temperature: -1, seed: 12345678901234567890}}]\npairwise: {}\n", nil,
			"eval.yaml:2:62: judges[0].overrides.temperature: got \"-1\"; want a number, at least 0\n" +
				"eval.yaml:2:72: judges[0].overrides.seed: \"12345678901234567890\" is a number that JSON cannot hold exactly; write it in quotes if it is text"},

		{"a cache of nothing", minimal + "cache: sometimes\n", nil,
			`eval.yaml:4:8: cache: got "sometimes"; want true or false`},
		{"a budget without prices", strings.Replace(minimal, "simulator:careful", "openrouter:any", 1) + "budget: {usd: 1}\n", nil,
			`eval.yaml:2:10: judges[0]: the budget needs the price of openrouter:any; add prices: {"openrouter:any": {input: …, output: …}}, US dollars per million tokens, here or to --config`},
		{"long without a length", minimal + "prices: {\"simulator:*\": {input: 1, output: 1, long: {input: 2}}}\n", nil,
			"eval.yaml:4:47: prices.simulator:*.long: output is missing; add output, US dollars per million tokens; 0 if they are free\n" +
				"eval.yaml:4:47: prices.simulator:*.long: the length from which the price applies is missing; add above, a number of input tokens"},
		{"a budget of nothing", minimal + "budget: {usd: 0}\nprices: {\"simulator:*\": {input: 1, output: 1}}\n", nil,
			"eval.yaml:4:15: budget.usd: a budget of 0; want US dollars above 0, at most 1000000"},
		{"the best without scores", docs + judge + "pairwise: {pairs: swiss, top_n: 4}\n", nil,
			"eval.yaml:3:26: pairwise.top_n: the best documents are those with the highest single scores, but no scores are requested; add single, or omit top_n"},
		{"the best one", docs + judge + "single: {criteria: [style]}\npairwise: {top_n: 1}\n", nil,
			"eval.yaml:4:19: pairwise.top_n: a single document cannot be compared; want 2 or more, or 0 for all"},
		{"no share", docs + judge + "pairwise: {pairs: swiss:1.5}\n", nil,
			`eval.yaml:3:19: pairwise.pairs: "1.5" is not a share of the pairs; want a share above 0 and at most 1, for example swiss:0.2`},
		{"evidence of judges that cannot give it", docs + "judges: [openai-chat:gpt-4.1, openai:gpt-5-mini, openai-chat:gpt-5-mini]\npairwise: {}\ngrounding: required\nreasoning: required\n", nil,
			"eval.yaml:2:10: judges[0]: openai-chat:gpt-4.1 has no known web search; set grounding: off, use another model, or set its search under providers.openai-chat.models\n" +
				"eval.yaml:2:10: judges[0]: openai-chat:gpt-4.1 does not reason; set reasoning: off, or use another model\n" +
				"eval.yaml:2:50: judges[2]: openai-chat:gpt-5-mini has no known web search; set grounding: off, use another model, or set its search under providers.openai-chat.models"},
		{"no model that could write JSON", docs + judge + "pairwise: {}\njsonify: {provider: anthropic, model: claude-3-5-haiku-latest}\n", nil,
			"eval.yaml:4:1: jsonify: anthropic:claude-3-5-haiku-latest has no structured output, so it cannot write the JSON of answers; use a model that has it, for example jsonify: {provider: openai, model: gpt-4.1-mini}"},
		{"a provider without a model to write JSON", docs + judge + "pairwise: {}\njsonify: {provider: gemini}\n", nil,
			"eval.yaml:4:1: jsonify: jsonify has a provider but no model; add model"},
		{"a fallback in two calls", docs + "judges: [openai:gpt-5-mini]\npairwise: {}\ngrounding: required\nfallback: {models: [\"google:gemini-2.5-pro\"]}\n", nil,
			"eval.yaml:5:21: fallback.models[0]: google:gemini-2.5-pro cannot produce the requested JSON in one call; add jsonify: {provider: openai, model: gpt-4.1-mini}"},
		{"an unknown model to write JSON", docs + judge + "pairwise: {}\njsonify: {provider: opena, model: x, temprature: 0}\n", nil,
			"eval.yaml:4:1: jsonify: unknown provider opena; did you mean openai?\n" +
				"eval.yaml:4:38: jsonify.temprature: unknown key; did you mean temperature?"},
		{"no effort", docs + "judges: [{model: simulator:careful, overrides: {reasoning_effort: hihg}}]\npairwise: {}\n", nil,
			"eval.yaml:2:67: judges[0].overrides.reasoning_effort: got \"hihg\"; want none, minimal, low, medium, high, xhigh, max; did you mean high?"},
		{"an unknown baseline", docs + judge + "pairwise: {pairs: {baseline: c.md}}\n", nil,
			"eval.yaml:3:30: pairwise.pairs.baseline: candidate c.md has no document; did you mean a.md?"},
		{"a baseline without others", "documents: {files: \"<item>/<candidate>.md\"}\n" + judge + "pairwise: {pairs: {baseline: y}}\n",
			[]string{"1/x.md", "one", "1/z.md", "two", "2/y.md", "three"},
			"eval.yaml:3:30: pairwise.pairs.baseline: y has no item in common with another candidate; add documents of other candidates to its items"},
		{"two ways of pairs", docs + judge + "pairwise: {pairs: {baseline: a.md, file: pairs.csv}}\n", []string{"pairs.csv", "item,candidate_a,candidate_b\n,a.md,b.md\n"},
			"eval.yaml:3:36: pairwise.pairs.file: pairs has both a file and a baseline; choose one"},
		{"no way of pairs", docs + judge + "pairwise: {pairs: {}}\n", nil,
			"eval.yaml:3:19: pairwise.pairs: pairs are missing; want all, sample:0.2, swiss, {baseline: CANDIDATE} or {file: pairs.csv}"},
		{"limits of tokens and days", minimal + "concurrency:\n  abandoned_calls: keep\n  per_provider:\n    simulator:\n" +
			"      tokens_per_minute: 0\n      input_tokens_per_minute: 30\n      window: sliding:1s\n      requests_per_day: 2000000000\n      day_resets: Mars/Phobos\n", nil,
			"eval.yaml:5:20: concurrency.abandoned_calls: got \"keep\"; want free, hold\n" +
				"eval.yaml:8:26: concurrency.per_provider.simulator.tokens_per_minute: got \"0\"; want a whole number of at least 1\n" +
				"eval.yaml:9:32: concurrency.per_provider.simulator.input_tokens_per_minute: 30 per minute is less than one input token in a window of 1s; use a longer window, or more input tokens a minute\n" +
				"eval.yaml:11:25: concurrency.per_provider.simulator.requests_per_day: limit provider/simulator/requests/day: max 2000000000 is not between 1 and 1000000000\n" +
				"eval.yaml:12:19: concurrency.per_provider.simulator.day_resets: \"Mars/Phobos\" is not a time zone; want an IANA name, for example \"UTC\" or \"America/Los_Angeles\""},
		{"the machine's own zone", minimal + "concurrency: {groups: {g: {requests_per_day: 2, day_resets: Local}}}\n", nil,
			"eval.yaml:4:61: concurrency.groups.g.day_resets: \"Local\" is not a time zone; want an IANA name, for example \"UTC\" or \"America/Los_Angeles\""},
		{"jitter of days", minimal + "concurrency: {per_provider: {simulator: {requests_per_minute: 2, jitter: 48h}}}\n", nil,
			"eval.yaml:4:63: concurrency.per_provider.simulator.requests_per_minute: limit provider/simulator/requests/1m0s: jitter 48h0m0s is not between 0 and 1h"},
		{"fallback", minimal + "fallback: {preset: bold, max_wait_seconds: 0,\n  max_retries: -1, backoff_base: 0.5, on_error: never}\n", nil,
			"eval.yaml:4:1: fallback: fallback names no models; add models: [provider:model]\n" +
				"eval.yaml:4:20: fallback.preset: got \"bold\"; want balanced, conservative, aggressive\n" +
				"eval.yaml:4:44: fallback.max_wait_seconds: got \"0\"; want a number of seconds above 0\n" +
				"eval.yaml:5:16: fallback.max_retries: got \"-1\"; want a whole number from 0 to 1000\n" +
				"eval.yaml:5:34: fallback.backoff_base: got \"0.5\"; want a number from 1 to 100\n" +
				"eval.yaml:5:49: fallback.on_error: got \"never\"; want immediate, after_retries"},
		{"fallback to unknown models", minimal + "fallback: {models: [gpt, simulator:careless, simulator:careless, opnai:gpt-5]}\n", nil,
			"eval.yaml:4:21: fallback.models[0]: \"gpt\" does not name a provider; write provider:model, for example openai:gpt-5-mini\n" +
				"eval.yaml:4:46: fallback.models[2]: a second fallback to simulator:careless; name each model once, or give it other overrides\n" +
				"eval.yaml:4:66: fallback.models[3]: unknown provider opnai; did you mean openai?"},
		{"retry in two languages", minimal + "retry: {max_retries: 5,\n  max_attempts: 5, max_delay_ms: 1s, jitter: half}\n", nil,
			"eval.yaml:5:3: retry.max_attempts: line 4 sets the same; remove one of them\n" +
				"eval.yaml:5:34: retry.max_delay_ms: got \"1s\"; want a whole number of at least 0\n" +
				"eval.yaml:5:46: retry.jitter: got \"half\"; want a time with its unit, for example 1.5s"},
		{"retry under concurrency", minimal + "concurrency: {retry: {max_retries: 0}}\n", nil,
			"eval.yaml:4:36: concurrency.retry.max_retries: got \"0\"; want a whole number of at least 1"},
		{"unknown dialect", minimal + "providers: {x: {dialect: mesages, base_url: \"http://x/v1\"}}\n", nil,
			"eval.yaml:4:26: providers.x.dialect: got \"mesages\"; want chat, responses, messages, generate, ollama; did you mean messages?"},

		{"no criteria", docs + judge + "single: {}\n", nil,
			"eval.yaml:3:1: single: single has no criteria; for example criteria: [factuality, style]"},
		{"criterion twice", docs + judge + "single: {criteria: [style, {name: style}]}\n", nil,
			"eval.yaml:3:35: single.criteria[1].name: a second criterion called style; name each criterion once"},
		{"scale upside down", docs + judge + "single: {criteria: [style], scale: [5, 1]}\n", nil,
			"eval.yaml:3:36: single.scale: not a scale; want [lowest, highest], for example [1, 5]"},
		{"missing template", docs + judge + "single: {criteria: [style], template: no.md}\n", nil,
			"eval.yaml:3:39: single.template: DIR/no.md: no such file"},
		{"empty template", docs + "panel: {agents: [{model: \"simulator:careful\"}], dimensions: [d], template: no.md}\n", []string{"no.md", "\n"},
			"eval.yaml:2:76: panel.template: no.md: panel template: the template has no [[documents]]: it must say where they belong\n" +
				"eval.yaml:2:76: panel.template: no.md: the template has no [[agent]]: no agent would be told what to be"},
		{"template without documents", docs + judge + "pairwise: {template: no.md}\n", []string{"no.md", "[[criteria]]\n"}, ""},
		{"sample of more than all", docs + judge + "pairwise: {pairs: sample:1.5}\n", nil,
			"eval.yaml:3:19: pairwise.pairs: \"1.5\" is not a share of the pairs; want a share above 0 and at most 1, for example sample:0.2"},
		{"nothing to compare", "documents: [docs/a.md]\n" + judge + "pairwise: {}\n", nil,
			"eval.yaml:3:1: pairwise: no item has two documents to compare; give items at least two documents each"},

		{"duration without unit", minimal + "retry: {initial_delay: 2}\n", nil,
			"eval.yaml:4:24: retry.initial_delay: got \"2\"; want a time with its unit: 2s for seconds, 2ms for milliseconds"},
		{"unknown provider limited", minimal + "concurrency: {per_provider: {simulater: {max_concurrency: 1}}}\n", nil,
			"eval.yaml:4:30: concurrency.per_provider.simulater: unknown provider simulater; did you mean simulator?"},
		{"window too short", minimal + "concurrency: {per_provider: {simulator: {requests_per_minute: 30, window: sliding:1s}}}\n", nil,
			"eval.yaml:4:63: concurrency.per_provider.simulator.requests_per_minute: 30 per minute is less than one request in a window of 1s; " +
				"use a longer window, or more requests a minute"},
		{"no window", minimal + "concurrency: {per_provider: {simulator: {window: rolling}}}\n", nil,
			"eval.yaml:4:50: concurrency.per_provider.simulator.window: got \"rolling\"; want sliding:60s, fixed:60s or bucket"},
		{"adaptive without a cap", minimal + "concurrency: {per_provider: {simulator: {adaptive: true, models: {careful: {max_concurrency: 4, adaptive: true}}}}}\n", nil,
			"eval.yaml:4:42: concurrency.per_provider.simulator.adaptive: max_concurrency is missing; add max_concurrency, the maximum of the limit"},
		{"a group that adapts", minimal + "concurrency: {groups: {g: {max_concurrency: 4, adaptive: true}}}\n", nil,
			"eval.yaml:4:48: concurrency.groups.g.adaptive: not allowed in a group; set it for the provider"},
		{"adaptive by a number", minimal + "concurrency: {per_provider: {simulator: {max_concurrency: 4, adaptive: 2}}}\n", nil,
			`eval.yaml:4:72: concurrency.per_provider.simulator.adaptive: got "2"; want true or false`},
		{"rate without qps", minimal + "concurrency: {per_provider: {simulator: {rate_limit: {burst: 2}}}}\n", nil,
			"eval.yaml:4:42: concurrency.per_provider.simulator.rate_limit: qps is missing; add qps, for example {qps: 8, burst: 16}"},
		{"built-in provider moved", minimal + "providers: {openai-chat: {base_url: \"http://x/v1\"}}\n", nil,
			"eval.yaml:4:13: providers.openai-chat: openai-chat is a built-in provider; give the endpoint another name, or set it in the fleet's --config"},
		{"provider without address", minimal + "providers: {mine: {api_key_env: K}}\n", nil,
			"eval.yaml:4:13: providers.mine: base_url is missing; add base_url: \"http://…/v1\""},
		{"key in the address", minimal + "providers: {mine: {base_url: \"http://u:p@h/v1\"}}\n", nil,
			"eval.yaml:4:30: providers.mine.base_url: an address with a user, a query or a fragment; put the key into the variable named by api_key_env"},
		{"alias without anchor", minimal + "retry: *none\n", nil,
			"eval.yaml:4:8: retry: alias *none has no anchor &none; put a text that begins with \"*\" in quotes"},
		{"merged with itself twice", minimal + "retry: &r {<<: *r, <<: *r}\n", nil, ""},
		{"overrides within themselves", docs + "judges: [{model: simulator:careful, overrides: &o {a: *o, b: *o}}]\npairwise: {}\n", nil, ""},
		{"alias of itself", minimal + "retry: &r {max_attempts: *r}\n", nil,
			"eval.yaml:4:26: retry.max_attempts: got a mapping; want a whole number of at least 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			problems, got := problemsOf(t, with(two, append([]string{"eval.yaml", c.file}, c.files...)...), Options{})
			for _, p := range problems {
				if p.File != "" && p.Path != "" && p.Line == 0 {
					t.Errorf("problem %v has a file and no line", p)
				}
			}
			if c.want == "" { // another library's words
				if len(problems) > 3 || problems[0].Line == 0 {
					t.Errorf("got %d problems, want some with their places:\n%.1000s", len(problems), got)
				}
				return
			}
			if want := strings.ReplaceAll(c.want, "DIR/", ""); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"judges", "json", "jsonify", "pairwise", "max_concurrency", "per_provider"}
	for word, want := range map[string]string{
		"judge": "judges", "jugdes": "judges", "JSON": "json", "pairwse": "pairwise",
		"max_concurency": "max_concurrency", "perprovider": "per_provider", "xyz": "", "": "",
		"jsno": "json", "pariwise": "pairwise", "josnify": "jsonify",
	} {
		if got := wording.Nearest(word, known); got != want {
			t.Errorf("wording.Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestProblemString(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Problem{
		"f:3:4: a.b: wrong; right": {File: "f", Line: 3, Column: 4, Path: "a.b", Message: "wrong", Fix: "right"},
		"f:3: wrong":               {File: "f", Line: 3, Message: "wrong"},
		"f: wrong":                 {File: "f", Message: "wrong"},
		"--flag: wrong":            {Path: "--flag", Message: "wrong"},
		`f: two\nlines`:            {File: "f", Message: "two\nlines"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
