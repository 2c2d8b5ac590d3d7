package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// badInput is an invalid command line.
type badInput struct {
	name  string
	args  string            // words of the command line
	files map[string]string // beside docs/a.md, docs/b.md and good.yaml
	env   string            // NAME=value
	code  exit
	want  string // of stderr: each line, or a part of it, in this order
}

// Parts of evaluation files.
const (
	docsKey   = "documents: [docs/*.md]\n"
	judgesKey = "judges: [simulator:careful]\n"
	pairsKey  = "pairwise: {}\n"
	asksKeys  = "provider: simulator\nmodel: careful\n"
)

// eval.yaml with one text.
func file(text string) map[string]string { return map[string]string{"eval.yaml": text} }

// with adds files to one that validate reads.
func with(files map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return files
}

// TestBadInputs: whatever is wrong with a command line, a file, the environment,
// a folder or Redis: the built program says where and what would be right, ends
// with the code that scripts rely on, and leaves nothing behind. With -short, it is every fourth.
func TestBadInputs(t *testing.T) {
	t.Parallel()
	jsonl := "documents: {jsonl: answers.jsonl}\n" + judgesKey + pairsKey
	inFolder := func(text string) map[string]string { return map[string]string{"out/results.db": text} }
	cases := []badInput{
		// The command line.
		{"no command", "", nil, "", 2, "no command given"},
		{"swapped letters", "rnu good.yaml", nil, "", 2, "unknown command rnu; did you mean run?"},
		{"misspelt command", "enqeue good.yaml", nil, "", 2, "unknown command enqeue; did you mean enqueue?"},
		{"no such command", "launch good.yaml", nil, "", 2, "unknown command launch; evalfleet --help lists all"},
		{"no file named", "run", nil, "", 2, "run wants one FILE or FOLDER, got 0; write evalfleet run FILE"},
		{"two files", "run good.yaml good.yaml", nil, "", 2, "run wants one FILE or FOLDER, got 2"},
		{"argument too many", "worker good.yaml", nil, "", 2, `worker takes no arguments`},
		{"flags after FILE, misspelt", "run good.yaml --out-dri x", nil, "", 2, "unknown flag --out-dri; did you mean --out-dir?"},
		{"flags after FILE, of another command", "validate good.yaml --slots 3", nil, "", 2, "unknown flag --slots"},
		{"flag without value", "run good.yaml --out-dir", nil, "", 2, "flag --out-dir needs a value: --out-dir=…"},
		{"flag with a flag for its value", "run --out-dir --slots 3 good.yaml", nil, "", 2, "flag --out-dir needs a value: --out-dir=…"},
		{"argument with a dash", "run -good.yaml", nil, "", 2, "unknown flag -good.yaml; put arguments that start with a dash after --"},
		{"no number", "run good.yaml --slots many", nil, "", 2, `--slots: got "many", want a whole number`},
		{"no slots", "run good.yaml --slots 0", nil, "", 2, "--slots must be at least 1, got 0"},
		{"limit below 0", "run good.yaml --limit -1", nil, "", 2, "--limit must be 0 or more, got -1"},
		{"no concurrency", "run good.yaml --max-concurrency 0", nil, "", 2, "--max-concurrency: 0 calls in flight; want a whole number of at least 1"},
		{"time without unit", "run good.yaml --grace 5", nil, "", 2, `--grace: got "5", want a time with its unit, for example 30s`},
		{"grace below 0", "run good.yaml --grace=-5s", nil, "", 2, "--grace must be 0 or more, got -5s"},
		{"misspelt queue", "run good.yaml --queues simulatr", nil, "", 2, "--queues: the evaluation has no queue simulatr; did you mean simulator?"},
		{"queue of others", "run good.yaml --queues simulator,openai", nil, "", 2, "--queues: the evaluation has no queue openai; it has simulator"},
		{"queue that no worker serves", "run eval.yaml --queues simulator:careful", file(docsKey + "judges: [simulator:careful, simulator:average]\n" + pairsKey +
			"concurrency: {max_concurrency: 9, per_provider: {simulator: {models: {careful: {max_concurrency: 2}}}}}\n"), "", 2,
			"--queues: no worker serves simulator: this run uses its own Redis: add that queue, or set the fleet's Redis with --redis"},
		{"events into no folder", "run good.yaml --events none/events.jsonl", nil, "", 2, "--events: open event log: open none/events.jsonl: no such file or directory"},
		{"metrics on no address", "run good.yaml --events events.jsonl --metrics-addr here", nil, "", 2, "--metrics-addr here: serve metrics: listen tcp: address here: missing port in address; choose another address"},
		{"fail on what", "run good.yaml --fail-on some", nil, "", 2, `--fail-on: got "some", want any, all or never`},
		{"JSON mode", "run good.yaml --json-mode maybe", nil, "", 2, `--json-mode: got "maybe"; want auto, true or false`},
		{"log level", "run good.yaml --log-level loud", nil, "", 2, `--log-level: got "loud", want debug, info, warn or error`},
		{"log format", "run good.yaml --log-format xml", nil, "", 2, `--log-format: got "xml", want json or console`},
		{"judge beside a file", "run good.yaml --judge simulator:careful", nil, "", 2, "--judge: good.yaml is a file, which names its own judges"},
		{"folder without a judge", "run docs", nil, "", 2, "--judge: a folder needs a judge; name one, for example --judge simulator:careful"},
		{"folder with a judge without model", "run docs --judge simulator", nil, "", 2, `--judge: "simulator" does not name a provider; write provider:model`},
		{"folder of one document", "run one --judge simulator:careful", map[string]string{"one/a.md": "A"}, "", 2, "one: documents to compare in the folder: 1; put at least two documents into it"},
		{"report format", "report docs --format pdf", nil, "", 2, `--format: got "pdf", want one of html, csv, parquet, json, md, every-eval-ever`},
		{"report ties", "report docs --ties win", nil, "", 2, `--ties: got "win", want davidson or half`},
		{"simulated failures", "simulate --fail-rate 2", nil, "", 2, "fail_rate: 2: want 0 to 1"},

		// The environment.
		{"no calls at once", "run good.yaml", nil, "MAX_CONCURRENT_LLM_CALLS=0", 2, "evalfleet: MAX_CONCURRENT_LLM_CALLS must be >= 1, got 0\n"},
		{"fewer than no calls at once", "run good.yaml", nil, "MAX_CONCURRENT_LLM_CALLS=-3", 2, "evalfleet: MAX_CONCURRENT_LLM_CALLS must be >= 1, got -3\n"},
		{"calls at once in words", "run good.yaml", nil, "MAX_CONCURRENT_LLM_CALLS=five", 2, `MAX_CONCURRENT_LLM_CALLS: got "five"; want a whole number from 1 to 50`},
		{"call timeout", "run good.yaml", nil, "LLM_CALL_TIMEOUT=soon", 2, `LLM_CALL_TIMEOUT: got "soon"; want a number of seconds above 0`},
		{"flag by environment", "run good.yaml", nil, "EVALFLEET_SLOTS=x", 2, `EVALFLEET_SLOTS: got "x", want a whole number`},
		{"no key", "run eval.yaml", file(docsKey + "judges: [openai-chat:gpt-5-mini]\n" + pairsKey), "", 2,
			"provider openai-chat needs a key: set OPENAI_API_KEY in the environment or in .env"},
		{"no keys", "run eval.yaml", file(docsKey + "judges: [openai:gpt-5-mini, anthropic:claude-opus-4-5]\n" + pairsKey), "", 2,
			"provider anthropic needs a key: set ANTHROPIC_API_KEY in the environment or in .env\n" +
				"evalfleet: auth: provider openai needs a key: set OPENAI_API_KEY in the environment or in .env\n"},
		{".env that cannot be read", "run good.yaml", map[string]string{".env": "A=1\nwhat is this\n"}, "", 2,
			".env:2: this line cannot be read; want one NAME=value per line; quote values with spaces"},

		// The evaluation file.
		{"no such file", "run none.yaml", nil, "", 2, "none.yaml: no such file"},
		{"empty file", "run eval.yaml", file(""), "", 2, "eval.yaml:1:1: the file is empty"},
		{"broken YAML", "run eval.yaml", file("documents: [docs/*.md\n"), "", 2, "eval.yaml:1:12: not valid YAML: "},
		{"tab in YAML", "run eval.yaml", file("documents:\n\t- docs/*.md\n"), "", 2, "eval.yaml:2:1: not valid YAML: "},
		{"no mapping", "run eval.yaml", file("docs\n"), "", 2, `eval.yaml:1:1: got "docs"; want keys with values`},
		{"no UTF-8", "run eval.yaml", file("name: \xff\n"), "", 2, "eval.yaml: not UTF-8: byte 6 is not part of a character; save it as UTF-8"},
		{"unknown key", "run eval.yaml", file(docsKey + "jugdes: [simulator:careful]\n" + pairsKey), "", 2, "eval.yaml:2:1: jugdes: unknown key; did you mean judges?"},
		{"unknown key within", "run eval.yaml", file(docsKey + judgesKey + "pairwise: {trails: 2}\n"), "", 2, "eval.yaml:3:12: pairwise.trails: unknown key; did you mean trials?"},
		{"key twice", "run eval.yaml", file(docsKey + docsKey + judgesKey + pairsKey), "", 2, "eval.yaml:2:1: documents: duplicate key, first in line 1"},
		{"every problem at once", "validate eval.yaml", file("documents: [dox/*.md]\njudges: [x]\npairwise: {order: bth}\n"), "", 2,
			"eval.yaml:1:12: documents: no documents found: dox/*.md; paths are relative to the evaluation file's folder\n" +
				"eval.yaml:2:10: judges[0]: \"x\" does not name a provider; write provider:model, for example openai:gpt-5-mini\n" +
				"eval.yaml:3:19: pairwise.order: got \"bth\"; want both, random, as_listed; did you mean both?"},
		{"unknown provider", "run eval.yaml", file(docsKey + "judges: [simulatro:careful]\n" + pairsKey), "", 2, "eval.yaml:2:10: judges[0]: unknown provider simulatro; did you mean simulator?"},
		{"judge without model", "run eval.yaml", file(docsKey + "judges: [{name: strict}]\n" + pairsKey), "", 2, "eval.yaml:2:10: judges[0]: the judge has no model; add model: provider:model"},
		{"judge twice", "run eval.yaml", file(docsKey + "judges: [simulator:a, simulator:a]\n" + pairsKey), "", 2, "eval.yaml:2:23: judges[1]: a second judge called simulator:a"},
		{"no judges", "run eval.yaml", file(docsKey + pairsKey), "", 2, "eval.yaml: judges are missing; add judges: [provider:model]"},
		{"nothing asked", "run eval.yaml", file(docsKey + judgesKey), "", 2, "eval.yaml: there is no question about the documents; add single, pairwise or panel"},
		{"text for a list", "run eval.yaml", file(docsKey + "judges: simulator:careful\n" + pairsKey), "", 2, `eval.yaml:2:9: judges: got "simulator:careful"; want a list`},
		{"list for a mapping", "run eval.yaml", file(docsKey + judgesKey + "pairwise: [all]\n"), "", 2, "eval.yaml:3:11: pairwise: got a list; want keys with values"},
		{"text for a number", "run eval.yaml", file(docsKey + judgesKey + "pairwise: {trials: two}\n"), "", 2, `eval.yaml:3:20: pairwise.trials: got "two"; want a whole number of at least 1`},
		{"fraction for a number", "run eval.yaml", file(docsKey + judgesKey + "pairwise: {trials: 1.5}\n"), "", 2, `eval.yaml:3:20: pairwise.trials: got "1.5"; want a whole number of at least 1`},
		{"text for true or false", "run eval.yaml", file(docsKey + judgesKey + "pairwise: {ties: maybe}\n"), "", 2, `eval.yaml:3:18: pairwise.ties: got "maybe"; want true or false`},
		{"number for a time", "run eval.yaml", file(docsKey + judgesKey + pairsKey + "concurrency: {lease: 5}\n"), "", 2, `eval.yaml:4:22: concurrency.lease: got "5"; want a time with its unit: 5s for seconds`},
		{"mapping for a text", "run eval.yaml", file("name: {a: b}\n" + docsKey + judgesKey + pairsKey), "", 2, "eval.yaml:1:7: name: got a mapping; want text"},
		{"nothing for a text", "run eval.yaml", file("name:\n" + docsKey + judgesKey + pairsKey), "", 2, "eval.yaml:1:6: name: got nothing; want text"},
		{"no share", "run eval.yaml", file(docsKey + judgesKey + "pairwise: {pairs: \"sample:2\"}\n"), "", 2, `eval.yaml:3:19: pairwise.pairs: "2" is not a share of the pairs; want a share above 0 and at most 1`},
		{"scale upside down", "run eval.yaml", file(docsKey + judgesKey + "single: {criteria: [style], scale: [5, 1]}\n"), "", 2, "eval.yaml:3:36: single.scale: not a scale; want [lowest, highest], for example [1, 5]"},
		{"no criteria", "run eval.yaml", file(docsKey + judgesKey + "single: {}\n"), "", 2, "eval.yaml:3:1: single: single has no criteria; for example criteria: [factuality, style]"},
		{"a fallback without models", "run eval.yaml", file(docsKey + judgesKey + pairsKey + "fallback: {}\n"), "", 2, "eval.yaml:4:1: fallback: fallback names no models; add models: [provider:model]"},
		{"votes, no file", "run eval.yaml", file(docsKey + judgesKey + pairsKey + "votes: human.csv\n"), "", 2, "human.csv: no such file"},

		// Listed runs.
		{"runs, unknown key", "run eval.yaml", file(asksKeys + "runs: [{file_a: docs/a.md, flie_b: docs/b.md}]\n"), "", 2, "eval.yaml:3:28: runs[0].flie_b: unknown key; did you mean file_b?"},
		{"runs, missing file", "enqueue eval.yaml --redis redis://127.0.0.1:1", file(asksKeys + "runs: [{file_a: docs/c.md, file_b: docs/b.md}]\n"), "", 2, "eval.yaml:3:17: runs[0].file_a: docs/c.md: no such file"},
		{"runs, both forms", "validate eval.yaml", file(asksKeys + "runs: [{file_a: docs/a.md, file_b: docs/b.md}]\ntest: {}\n"), "", 2, "eval.yaml:4:1: test: line 3 already has a list of runs; remove one of them"},
		{"runs, out of the folder", "run eval.yaml", file(asksKeys + "runs: [{file_a: docs/a.md, file_b: docs/b.md, out: ../x.md}]\n"), "", 2, "eval.yaml:3:52: runs[0].out: ../x.md is outside the working folder"},
		{"runs, out over the input", "run eval.yaml", file(asksKeys + "runs: [{file_a: docs/a.md, file_b: docs/b.md, out: \"docs/<file_b_stem>.md\"}]\n"), "", 2, "eval.yaml:3:52: runs[0].out: the answer would overwrite docs/b.md"},
		{"runs, who cannot search", "run eval.yaml", file("provider: ollama\nmodel: llama3\ntest: {file_a: docs/a.md, file_b: docs/b.md}\n"), "", 2, "eval.yaml:2:8: model: ollama:llama3 has no known web search; set grounding: off"},
		{"runs, no key", "run eval.yaml", file("runs: [{provider: openai, model: gpt-5-mini, file_a: docs/a.md, file_b: docs/b.md}]\n"), "", 2, "provider openai needs a key: set OPENAI_API_KEY in the environment or in .env"},
		{"runs, an empty list", "run --runs-config eval.yaml", file("[]\n"), "", 2, "eval.yaml:1:1: no runs are listed; for example [{"},
		{"runs, listed twice", "run eval.yaml --runs-config eval.yaml", file(asksKeys + "runs: [{file_a: docs/a.md, file_b: docs/b.md}]\n"), "", 2, "eval.yaml:3:1: runs: --runs-config also lists runs; remove one of them"},
		{"runs, two ways of flags", "run --runs-config eval.yaml --runs-stdin", file("[]\n"), "", 2, "--runs-stdin: --runs-config also lists runs; use one of them"},
		{"runs, nothing on standard input", "run --runs-stdin", nil, "", 2, "stdin: standard input was empty; want a JSON array of runs"},
		{"runs, half a pair", "run --file-a docs/a.md --model careful", nil, "", 2, "--file-b: it is missing; add --file-b, the file of the input"},
		{"runs, a pair without a provider", "run --file-a docs/a.md --file-b docs/b.md", nil, "", 2, "--file-a: the run has no provider; add --provider"},
		{"runs, a pair of a misspelt provider", "run --file-a docs/a.md --file-b docs/b.md --provider opanai --model m", nil, "", 2, "--model: unknown provider opanai; did you mean openai?"},
		{"runs, a pair's answer over its input", "run --file-a docs/a.md --file-b docs/b.md --provider simulator --model careful --out docs/../docs/b.md", nil, "", 2, "--out: the answer would overwrite docs/b.md; choose another path"},
		{"runs, a pair's answer into a folder", "run --file-a docs/a.md --file-b docs/b.md --provider simulator --model careful --out docs", nil, "", 2, "docs is a folder; name a file in it"},
		{"runs beside a folder", "run docs --file-a docs/a.md --file-b docs/b.md", nil, "", 2, "docs is a folder; with listed runs, pass a file with settings, or no file"},
		{"runs and a judge", "run --judge simulator:careful --file-a docs/a.md --file-b docs/b.md", nil, "", 2, "--judge: listed runs name their own models"},
		{"a model and no runs", "run good.yaml --model careful", nil, "", 2, "--model: it applies to listed runs, but there are none; remove it, or list runs"},

		// What it names.
		{"empty set", "run eval.yaml", file("documents: [none/*.md]\n" + judgesKey + pairsKey), "", 2,
			"eval.yaml:1:12: documents: no documents found: none/*.md; paths are relative to the evaluation file's folder"},
		{"one document", "run eval.yaml", file("documents: [docs/a.md]\n" + judgesKey + pairsKey), "", 2, "eval.yaml:3:1: pairwise: no item has two documents to compare; give items at least two documents each"},
		{"duplicate names", "run eval.yaml", with(file("documents: [docs/*.md, more/*.md]\n"+judgesKey+pairsKey), "more/a.md", "Other."), "", 2,
			`more/a.md: a second document with the id "a.md", the first is docs/a.md; if files in different folders have the same name`},
		{"duplicate ids", "run eval.yaml", with(file(jsonl), "answers.jsonl", "{\"id\":\"x\",\"text\":\"1\"}\n{\"id\":\"x\",\"text\":\"2\"}\n"), "", 2,
			`answers.jsonl:2: a second document with the id "x", the first is answers.jsonl:1`},
		{"malformed JSONL", "run eval.yaml", with(file(jsonl), "answers.jsonl", "{\"id\":\"x\",\"text\":\"1\"}\n{\"id\":\"y\",\"text\":}\n"), "", 2,
			"answers.jsonl:2:18: not a JSON object: "},
		{"JSONL without text", "run eval.yaml", with(file(jsonl), "answers.jsonl", "{\"id\":\"x\",\"txt\":\"1\"}\n"), "", 2,
			"answers.jsonl:1: text: the field is missing; did you mean txt? (choose with documents: {text: …})"},
		{"no such JSONL", "run eval.yaml", file(jsonl), "", 2, "eval.yaml:1:20: documents.jsonl: answers.jsonl: no such file; paths are relative to the evaluation file's folder"},
		{"document not UTF-8", "run good.yaml", map[string]string{"docs/c.md": "caf\xe9"}, "", 2, "docs/c.md: not UTF-8: byte 3 is not part of a character; save it as UTF-8"},
		{"oversize document", "run good.yaml", map[string]string{"docs/c.md": strings.Repeat("x", 8<<20+1)}, "", 2, "docs/c.md: 8388609 bytes is too large: at most 8388608 bytes are read"},
		{"template without documents", "run eval.yaml", with(file(docsKey+judgesKey+"pairwise: {template: t.md}\n"), "t.md", "Which is better?"), "", 2, "eval.yaml:3:22: pairwise.template: t.md: "},
		{"no such template", "run eval.yaml", file(docsKey + judgesKey + "pairwise: {template: t.md}\n"), "", 2, "eval.yaml:3:22: pairwise.template: t.md: no such file"},
		{"pairs of unknown documents", "run eval.yaml", with(file(docsKey+judgesKey+"pairwise: {pairs: {file: pairs.csv}}\n"), "pairs.csv", "a.md,c.md\n"), "", 2, "pairs.csv:1: "},
		{"no such fleet file", "run good.yaml --config fleet.yaml", nil, "", 2, "fleet.yaml: no such file"},
		{"fleet file with an unknown key", "worker --redis redis://127.0.0.1:1 --config fleet.yaml", map[string]string{"fleet.yaml": "provders: {}\n"}, "", 2, "fleet.yaml:1:1: provders: unknown key; did you mean providers?"},
		{"provider without an address", "run good.yaml --config fleet.yaml", map[string]string{"fleet.yaml": "providers: {local: {}}\n"}, "", 2, `fleet.yaml:1:13: providers.local: base_url is missing; add base_url: "http://…/v1"`},

		// Folders and results stores.
		{"a file in the way of the folder", "run good.yaml --out-dir good.yaml", nil, "", 2, "cannot create output folder good.yaml: mkdir good.yaml: not a directory; choose another with --out-dir"},
		{"a file in the way above it", "run good.yaml --out-dir good.yaml/out", nil, "", 2, "cannot create output folder good.yaml/out: mkdir good.yaml: not a directory; choose another with --out-dir"},
		{"sink of another kind", "run good.yaml --sink mysql://host/db", nil, "", 2, `mysql://…: unknown kind "mysql": want sqlite:PATH`},
		{"sink in no folder", "run good.yaml --sink sqlite:none/x.db", nil, "", 2, "none/x.db: cannot be written: check that its folder exists and that you may write to both"},
		{"sink that is a folder", "run good.yaml --sink sqlite:docs", nil, "", 2, "docs: it is a folder: name a file in it"},
		{"results that are no database", "run good.yaml --sink sqlite:out/results.db", inFolder(strings.Repeat("no database ", 100)), "", 2, "results.db: it is not a SQLite database: name another file"},
		{"report on no database", "report out", inFolder(strings.Repeat("no database ", 100)), "", 2, "results.db: it is not a SQLite database: name another file"},
		{"results of a newer program", "run good.yaml --sink sqlite:out/results.db", inFolder(database(t, 0x65766c66, 99)), "", 2, "results.db: it has version 99, this program knows "},
		{"another program's database", "report out", inFolder(database(t, 7, 1)), "", 2, "results.db: it is another program's SQLite database: name another file"},
		{"report on an empty folder", "report docs", nil, "", 2, "docs has no results (no results.db): name the output folder of an evaluation"},
		{"status of an empty folder", "status docs", nil, "", 2, "docs has no results "},
		{"report on nothing", "report nowhere", nil, "", 2, "nowhere is not a folder; to report on an evaluation by its id, set its Redis with --redis"},

		// Redis.
		{"Redis not named", "worker", nil, "", 2, "worker needs the fleet's Redis: name it with --redis or REDIS_URL"},
		{"Redis no address", "enqueue good.yaml --redis garbage", nil, "", 2, "--redis garbage: unknown form: want redis://[user:password@]host[:port][/db], unix://path"},
		{"Redis of another scheme", "run good.yaml --redis http://127.0.0.1:1", nil, "", 2, "want redis://[user:password@]host[:port][/db]"},
		{"Redis absent", "run good.yaml --redis redis://" + testrun.FreeAddress(t), nil, "", 3, "is unreachable: "},
		{"Redis absent for a worker", "worker --redis redis://" + testrun.FreeAddress(t), nil, "", 3, "start it, or set another with --redis"},
	}
	cases = slices.Concat(cases, badLooks(), badRedis(t))
	if len(cases) < 150 {
		t.Errorf("%d bad inputs, want at least 150", len(cases))
	}
	for i, c := range cases {
		if testing.Short() && i%4 != 0 {
			continue // each starts the program
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

// badLooks are inputs of the commands that look in, steer and prepare, and need
// no Redis to be refused.
func badLooks() []badInput {
	const redis = " --redis redis://127.0.0.1:1" // for a model that is never asked
	known := map[string]string{"evalfleet-out/essays-ev-abcdefgh2345/results.db": ""}
	all := []badInput{
		{"init, two folders", "init a b", nil, "", 2, "init takes one folder or none, got 2"},
		{"init, misspelt flag behind the folder", "init new --env-fil x", nil, "", 2, "unknown flag --env-fil; did you mean --env-file?"},
		{"init into a file", "init good.yaml", nil, "", 2, "good.yaml is not a folder; nothing was written; choose another folder: evalfleet init DIR"},
		{"init below a file", "init good.yaml/new", nil, "", 2, "good.yaml is not a folder; nothing was written"},
		{"init where it would overwrite", "init .", map[string]string{"fleet.yaml": ""}, "", 2, "fleet.yaml already exists\nnothing was written; choose another folder"},

		{"estimate of nothing", "estimate", nil, "", 2, "estimate wants one FILE or FOLDER, got 0; write evalfleet estimate FILE"},
		{"estimate of no file", "estimate none.yaml", nil, "", 2, "none.yaml: no such file"},
		{"estimate of a folder without a judge", "estimate docs", nil, "", 2, "--judge: a folder needs a judge; name one"},
		{"estimate, misspelt flag behind FILE", "estimate good.yaml --latncy 5s", nil, "", 2, "unknown flag --latncy; did you mean --latency?"},
		{"estimate, latency without unit", "estimate good.yaml --latency 5", nil, "", 2, `--latency: got "5", want a time with its unit, for example 30s`},
		{"estimate, no latency", "estimate good.yaml --latency 0s", nil, "", 2, "--latency must be above 0, got 0s"},
		{"estimate, no tokens", "estimate good.yaml --tokens-out 0", nil, "", 2, "--tokens-out must be at least 1, got 0"},
		{"estimate, no slots", "estimate good.yaml --slots 0", nil, "", 2, "--slots must be at least 1, got 0"},

		{"show nothing", "show", nil, "", 2, "show wants a RUN, and its ID or folder, got 0 arguments; write evalfleet show 0.17 DIR"},
		{"show a listed run without its evaluation", "show first", nil, "", 2, "run first: name its evaluation: evalfleet show first ID, or its output folder instead of the id"},
		{"show, no results folder of a listed run", "show first docs", nil, "", 2, "docs has no results (no results.db)"},
		{"show a run without its evaluation", "show 0.1", nil, "", 2, "run 0.1: name its evaluation: evalfleet show 0.1 ID, or its output folder instead of the id"},
		{"show, the folder first", "show docs 0.1", nil, "", 2, "put the run first: evalfleet show 0.1 docs"},
		{"show, both id and folder", "show 0.1 docs ev-abcdefgh2345", nil, "", 2, "show wants a RUN, and its ID or folder, got 3 arguments"},
		{"show, a run of another evaluation", "show ev-abcdefgh2345.0.1 ev-222222222222" + redis, nil, "", 2, "run ev-abcdefgh2345.0.1 is not one of ev-222222222222"},
		{"show, no results folder", "show 0.1 docs", nil, "", 2, "docs has no results (no results.db): name the output folder of an evaluation"},
		{"show, misspelt flag behind the run", "show 0.1 docs --jsn", nil, "", 2, "unknown flag --jsn; did you mean --json?"},

		{"ui, misspelt flag", "ui docs --alow-actions", nil, "", 2, "unknown flag --alow-actions; did you mean --allow-actions?"},

		{"healthcheck of something", "healthcheck worker", nil, "", 2, `healthcheck takes no arguments, got "worker"`},
		{"healthcheck, no address", "healthcheck --metrics-addr off", nil, "", 2, "--metrics-addr off: want host:port or :port"},
		{"healthcheck, misspelt flag", "healthcheck --redy", nil, "", 2, "unknown flag --redy; did you mean --ready?"},
		{"healthcheck without an answer", "healthcheck --metrics-addr 127.0.0.1:1", nil, "", 3, "no worker answers: "},

		{"delete a folder", "delete docs" + redis, nil, "", 2, "delete takes the ID of an evaluation in a fleet's Redis; to end the run in that folder, use `evalfleet cancel docs`"},
		{"delete, misspelt flag behind the id", "delete ev-abcdefgh2345 --forse", nil, "", 2, "unknown flag --forse; did you mean --force?"},
		{"retry, no such class", "retry docs --class timeuot", nil, "", 2, "--class: unknown error class timeuot; did you mean timeout?"},
		{"retry, nothing like a class", "retry docs --class everything", nil, "", 2, "--class: unknown error class everything; want rate_limited, "},
	}
	add := func(name, args string, files map[string]string, want string) {
		all = append(all, badInput{name: name, args: args, files: files, code: exitUsage, want: want})
	}
	for _, command := range []string{"status", "limits", "ui"} {
		add(command+" of nothing", command, known, command+" needs a fleet's Redis (--redis or REDIS_URL) or an output folder; the newest here is evalfleet-out/essays-ev-abcdefgh2345\n")
		add(command+" of no id", command+" nowhere"+redis, nil, "nowhere is neither a folder nor the id of an evaluation (ev-…)")
		add(command+" of an id, no Redis", command+" ev-222222222222", nil, "ev-222222222222: name its Redis with --redis, or its output folder instead of its id")
		add(command+" of a folder without results", command+" docs", nil, "docs has no results (no results.db): name the output folder of an evaluation")
		add(command+" of both id and folder", command+" docs ev-abcdefgh2345", nil, command+" takes one ID or folder or none, got 2")
	}
	for _, command := range []string{"pause", "resume", "cancel", "retry"} {
		add(command+" nothing", command, nil, command+" wants one ID|DIR, got 0; write evalfleet "+command+" ID|DIR")
		add(command+", both id and folder", command+" docs ev-abcdefgh2345"+redis, nil, command+" wants one ID|DIR, got 2")
		add(command+", no id", command+" essays"+redis, known, "essays is neither a folder nor the id of an evaluation (ev-…); the newest here is evalfleet-out/essays-ev-abcdefgh2345")
		add(command+" an id, no Redis", command+" ev-abcdefgh2345", nil, "ev-abcdefgh2345: name its Redis with --redis, or its output folder instead of its id")
		add(command+" no run's folder", command+" docs", nil, "no `evalfleet run` has started in docs: it has no resume.json; start one with `evalfleet run FILE --out-dir docs`")
		add(command+", misspelt flag behind the id", command+" ev-abcdefgh2345 --rdis x", nil, "unknown flag --rdis; did you mean --redis?")
	}
	add("delete nothing", "delete", nil, "delete wants one ID, got 0; write evalfleet delete ID")
	add("delete no id", "delete good.yaml"+redis, nil, "good.yaml is neither a folder nor the id of an evaluation (ev-…)")
	add("delete an id, no Redis", "delete ev-abcdefgh2345", nil, "ev-abcdefgh2345: name its Redis with --redis")
	return all
}

// badRedis are inputs for servers that cannot be used.
func badRedis(t *testing.T) []badInput {
	t.Helper()
	locked := redistest.NewTCP(t)
	if err := locked.Client().ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	evicting := redistest.NewTCP(t, "--maxmemory-policy", "allkeys-lru")
	shared := redistest.NewTCP(t)
	for _, key := range []string{"ef:active", "ef:evaluations"} {
		if err := shared.Client().Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	empty := redistest.NewTCP(t).URL()
	wrong := strings.Replace(locked.URL(), "://", "://:wrong@", 1)
	all := []badInput{
		{"no password", "enqueue good.yaml --redis " + locked.URL(), nil, "", 3, "refuses the password: NOAUTH"},
		{"wrong password", "run good.yaml --redis " + wrong, nil, "", 3, "set it as redis://:password@host:port"},
		{"keys thrown away", "worker --redis " + evicting.URL(), nil, "", 3, "its maxmemory-policy is allkeys-lru, which evicts queues and limits when memory is low: set `maxmemory-policy noeviction`"},
		{"too old", "run good.yaml --redis redis://" + oldRedis(t), nil, "", 3, "version 5.0.14 is too old: evalfleet needs 7.0 or newer"},
		{"another program's key, met by a worker", "worker --metrics-addr off --redis " + shared.URL(), nil, "", 2, "list ef:active: WRONGTYPE"},
		{"another program's keys", "enqueue good.yaml --redis " + shared.URL(), nil, "", 2, "WRONGTYPE"},
		{"another program's keys for collect", "collect --redis " + shared.URL(), nil, "", 2, "a key of another program has this name: choose another --namespace"},
		{"unknown evaluation", "status ev-abcdefgh2345 --redis " + empty, nil, "", 2, "ev-abcdefgh2345: no such evaluation in Redis; `evalfleet status` lists those that there are"},
		{"unknown evaluation to collect", "collect ev-abcdefgh2345 --redis " + empty, nil, "", 2, "ev-abcdefgh2345: no such evaluation in Redis; `evalfleet status` lists those that there are"},
		{"unknown evaluation to follow", "collect ev-abcdefgh2345 --follow --redis " + empty, nil, "", 2, "ev-abcdefgh2345: no such evaluation in Redis; `evalfleet status` lists those that there are"},
		{"unknown run", "show ev-abcdefgh2345.0.1 --redis " + empty, nil, "", 2, "ev-abcdefgh2345: no such evaluation in Redis; `evalfleet status` lists those that there are"},
		{"ui on no address", "ui --listen here --redis " + empty, nil, "", 2, "--listen here: listen tcp: address here: missing port in address; choose another, such as --listen 127.0.0.1:0"},
	}
	all = append(all, badInput{"unknown evaluation to delete by force", "delete ev-abcdefgh2345 --force --redis " + empty, nil, "", 2,
		"ev-abcdefgh2345: no such evaluation in Redis; `evalfleet status` lists those that there are"})
	near := redistest.NewTCP(t)
	if err := near.Client().SAdd(t.Context(), "ef:evaluations", "ev-abcdefgh2345").Err(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"limits", "ui", "pause", "resume", "cancel", "retry", "delete", "collect"} {
		all = append(all, badInput{"misspelt evaluation to " + command, command + " ev-abcdefgh2354 --redis " + near.URL(), nil, "", 2,
			"ev-abcdefgh2354: no such evaluation in Redis; did you mean ev-abcdefgh2345?"})
	}
	return all
}

// test carries the command line out, as the arguments of before where that is
// given, in a folder of its own.
func (c badInput) test(t *testing.T, before ...string) {
	t.Helper()
	files := map[string]string{"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "good.yaml": docsKey + judgesKey + pairsKey}
	for name, text := range c.files {
		files[name] = text
	}
	dir := tree(t, files)
	found := everything(t, dir)
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	words := slices.Concat(before, []string{path}, strings.Fields(c.args))
	cmd := exec.CommandContext(testrun.Context(t), words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if c.env != "" {
		cmd.Env = append(cmd.Env, c.env)
	}
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	said := stderr.String()
	if code := cmd.ProcessState.ExitCode(); code != int(c.code) || stdout.Len() > 0 {
		t.Errorf("got exit code %d and stdout %q, want %d and nothing", code, stdout.String(), c.code)
	}
	rest := said
	for want := range strings.Lines(c.want) {
		_, after, ok := strings.Cut(rest, want)
		if !ok && strings.HasSuffix(want, "\n") { // a part of a longer line
			_, after, ok = strings.Cut(rest, strings.TrimSuffix(want, "\n"))
		}
		if !ok {
			t.Errorf("stderr: got\n%swant in it\n%s", said, want)
		}
		rest = after
	}
	for _, trace := range []string{"goroutine", "panic", ".go:"} {
		if strings.Contains(said, trace) {
			t.Errorf("stderr: got\n%swant no %q", said, trace)
		}
	}
	if diff := cmp.Diff(found, everything(t, dir)); diff != "" {
		t.Errorf("files before and after (-before +after):\n%s", diff)
	}
}

// everything is every file below dir with its size.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && entry.IsDir() {
			all[path] = "folder"
		} else if err == nil {
			all[path] = fmt.Sprint(info.Size(), " bytes")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// database is the content of a SQLite file with some program's stamp.
func database(t *testing.T, application, version int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE t (x)", fmt.Sprint("PRAGMA application_id = ", application), fmt.Sprint("PRAGMA user_version = ", version),
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// oldRedis is a server that says it is of a version before the oldest that will
// do.
func oldRedis(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	noEpoch := func(c *server.Peer, _ string, _ []string) {
		c.WriteLen(2)
		c.WriteNull()
		c.WriteNull()
	}
	if err := s.Register("HMGET", noEpoch); err != nil {
		t.Fatal(err)
	}
	for command, answer := range map[string]string{"PING": "PONG", "INFO": "redis_version:5.0.14\r\n", "HELLO": "", "CLIENT": "OK"} {
		err := s.Register(command, func(c *server.Peer, _ string, _ []string) {
			if answer == "" {
				c.WriteError("ERR unknown command")
				return
			}
			c.WriteBulk(answer)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

// TestFolderInUse: a second command does not touch a folder that another one
// holds, and says so.
func TestFolderInUse(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"docs/a.md": "1", "docs/b.md": "2", "eval.yaml": goodFile})
	out := filepath.Join(dir, "out")
	held, err := outdir.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	before := everything(t, dir)
	code, stdout, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out)
	if want := "is in use by another evalfleet; wait for it, or look at it with `evalfleet status "; code != 2 || stdout != "" || !strings.Contains(stderr, want) {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want 2, nothing and %q", code, stdout, stderr, want)
	}
	if diff := cmp.Diff(before, everything(t, dir)); diff != "" {
		t.Errorf("files before and after (-before +after):\n%s", diff)
	}
}
