package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// Mistakes that people make in YAML are answered with what to write.
func TestHints(t *testing.T) {
	t.Parallel()
	const leaked = "API keys are not read from files, and anyone who has read this one has the key; " +
		"revoke it, and put a new one into the environment or .env, for example as OPENAI_API_KEY; api_key_env names another variable"
	for _, c := range []struct{ name, file, want string }{
		{"rpm", minimal + "concurrency: {per_provider: {simulator: {rpm: 5}}}\n", "eval.yaml:4:42: concurrency.per_provider.simulator.rpm: unknown key; did you mean requests_per_minute?"},
		{"TPM", minimal + "concurrency: {per_provider: {simulator: {TPM: 5}}}\n", "eval.yaml:4:42: concurrency.per_provider.simulator.TPM: unknown key; did you mean tokens_per_minute?"},
		{"rpm at the top", minimal + "rpm: 5\n", "eval.yaml:4:1: rpm: unknown key; put it under the provider: concurrency: {per_provider: {openai: {requests_per_minute: 500}}}"},
		{"workers", minimal + "workers: 5\n", "eval.yaml:4:1: workers: unknown key; put it under concurrency: {max_concurrency: 8}"},
		{"temperature at the top", minimal + "temperature: 0\n", "eval.yaml:4:1: temperature: unknown key; put it under a judge: judges: [{model: …, overrides: {temperature: …}}]"},
		{"temprature of a judge", "documents: [docs/*.md]\njudges: [{model: simulator:careful, temprature: 0}]\npairwise: {}\n", "eval.yaml:2:37: judges[0].temprature: unknown key; put it under overrides: {temperature: …}"},
		{"temprature overridden", "documents: [docs/*.md]\njudges: [{model: simulator:careful, overrides: {temprature: 0}}]\npairwise: {}\n", "eval.yaml:2:49: judges[0].overrides.temprature: temprature is sent to the model unchanged; did you mean temperature?"},
		{"sink", minimal + "sink: sqlite:x.db\n", "eval.yaml:4:1: sink: unknown key; put it into the fleet's --config, or use --sink"},
		{"notify", minimal + "notify: {url: \"https://hooks.example.org\"}\n", "eval.yaml:4:1: notify: unknown key; put it into the fleet's --config, because an evaluation file may come from someone else"},
		{"a key of a provider", minimal + "providers: {mine: {base_url: \"http://x/v1\", api_key: sk-secret-1234}}\n", "eval.yaml:4:45: providers.mine.api_key: " + leaked},
		{"a key at the top", minimal + "OPENAI_API_KEY: sk-secret-1234\n", "eval.yaml:4:1: OPENAI_API_KEY: " + leaked},
		{"a key for its variable", minimal + "providers: {mine: {base_url: \"http://x/v1\", api_key_env: sk-secret-1234}}\n", "eval.yaml:4:58: providers.mine.api_key_env: " + leaked},
		{"a tab", minimal + "name:\n\tx\n", "indent with spaces: YAML allows no tabs"},
		{"a colon", minimal + "name: Essays: the first round\n", `put a text that contains ": " in quotes`},
		{"one judge", "documents: [\"*.md\"]\njudges: simulator:careful\npairwise: {}\n", `judges: got "simulator:careful"; want a list, for example ["simulator:careful"]`},
		{"a pattern without quotes", "documents: [*.md]\njudges: [simulator:careful]\npairwise: {}\n", `put a text that begins with "*" in quotes`},
		{"a judge as a mapping", "documents: [\"*.md\"]\njudges: [{simulator: careful}]\npairwise: {}\n", `or write only the text "provider:model"`},
		{"another case", "documents: [\"*.md\"]\njudges: [simulator:careful]\npairwise: {order: Both}\n", "did you mean both?"},
		{"a bare budget", minimal + "budget: $5\n", "budget: the budget has no currency; write {usd: 5}"},
		{"a budget with a sign", minimal + "budget: {usd: $5}\n", `budget.usd: got "$5"; want a number of US dollars above 0`},
		{"a bare bound", minimal + "confirm_above: $20\n", "confirm_above: the bound has no currency; write {usd: 20}"},
		{"an open quote", "name: \"x\n" + minimal, "look for a quote that is not closed"},
		{"odd indentation", "documents: [\"*.md\"]\njudges:\n- simulator:careful\n pairwise: {}\n", "check the indentation"},
		{"no space after a colon", "name:x\n" + minimal, "and have a space after their colon"},
		{"no space after a dash", "documents:\n  -docs/*.md\njudges: [simulator:careful]\npairwise: {}\n", "no documents found: -docs/*.md; put a space after the dash"},
		{"a share in percent", "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {pairs: 20%}\n", `pairwise.pairs: got "20%"; want a share: sample:0.2`},
		{"commas in a number", minimal + "concurrency: {per_provider: {simulator: {tokens_per_minute: 1,000,000}}}\n", "unknown key; write numbers without commas, for example 1000000"},
		{"a number in quotes", minimal + "concurrency: {max_concurrency: \"8\"}\n", `got "8"; want a whole number of at least 1; write 8 without quotes`},
		{"2M", minimal + "concurrency: {per_provider: {simulator: {enqueued_tokens: 2M}}}\n", `got "2M"; want a whole number from 1 to 1000000000000; write 2000000`},
		{"batches of no provider", minimal + "concurrency: {enqueued_tokens: 5}\n", "put it under the provider: concurrency: {per_provider: {openai: {enqueued_tokens: 2000000}}}"},
		{"batches of a group", minimal + "concurrency: {groups: {g: {enqueued_tokens: 5}}}\n", "concurrency.groups.g.enqueued_tokens: not allowed in a group; set it for the provider"},
		{"100k", minimal + "concurrency: {per_provider: {simulator: {tokens_per_minute: 100k}}}\n", `got "100k"; want a whole number of at least 1; write 100000`},
		{"a leading zero", "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: {trials: 010}\n", "eval.yaml:3:20: pairwise.trials: 010 begins with 0, and would be read as an octal number; write 10"},
		{"an open bracket", "documents: [docs/*.md\njudges: [simulator:careful]\npairwise: {}\n", "look for a bracket that is not closed"},
		{"an apostrophe", "name: 'Ann's essays'\n" + minimal, "write an apostrophe within single quotes twice"},
		{"curly quotes", "documents: [“docs/*.md”]\njudges: [simulator:careful]\npairwise: {}\n", "use straight quotes"},
		{"no-break spaces", "documents: [docs/*.md]\njudges:\n\u00a0\u00a0- simulator:careful\npairwise: {}\n", "indent with plain spaces"},
		{"a variable in braces", minimal + "providers: {mine: {base_url: \"http://x/v1\", api_key_env: ${MY_KEY}}}\n", "variables are not expanded in files; a key is named by its variable"},
		{"a variable of a shell", minimal + "providers:\n  mine:\n    base_url: \"http://x/v1\"\n    api_key_env: ${MY_KEY}\n", "providers.mine.api_key_env: variables are not expanded in files; write only its name: MY_KEY"},
		{"an indented key", "documents: [docs/*.md]\njudges:\n  - model: simulator:careful\n   name: x\npairwise: {}\n", "check the indentation"},
		{"an at sign", "name: @home\n" + minimal, "put a text that begins with @ or ` in quotes"},
		{"a path of Windows", "documents: [\"C:\\docs\\*.md\"]\njudges: [simulator:careful]\npairwise: {}\n", "write paths with /"},
		{"a home folder", "documents: [~/docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n", "~ is not expanded"},
		{"json-mode", minimal + "json-mode: true\n", "json-mode: unknown key; did you mean json?"},
		{"a slash for a colon", "documents: [docs/*.md]\njudges: [openai/gpt-5-mini]\npairwise: {}\n", `"openai/gpt-5-mini" does not name a provider; write openai:gpt-5-mini`},
		{"a word for a mapping", "documents: [docs/*.md]\njudges: [simulator:careful]\npairwise: all\n", `pairwise: got "all"; want keys with values, for example pairwise: {pairs: all}`},
		{"a number sign in a name", "name: round #2 of 3 \n" + minimal, `eval.yaml:1:7: name: the value is "round", because # after a space begins a comment; put it in quotes, "round #2 of 3"`},
		{"a number sign in a file's name", "documents:\n  - docs/*.md #1\njudges: [simulator:careful]\npairwise: {}\n", `eval.yaml:2:5: documents[0]: the value is "docs/*.md"`},
		{"a key in a comment", minimal + "providers:\n  mine:\n    base_url: \"http://x/v1\"\n    api_key_env: sk-secret-1234 #secret\n", leaked},
		{"a far key", minimal + "zzzzzzzzzz: 1\n", "eval.yaml:4:1: zzzzzzzzzz: unknown key; known: anchors, batch, blind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, with(two, "eval.yaml", c.file))
			s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
			if err == nil {
				err = Problems(s.Warnings)
			}
			got := without(dir, err.Error())
			if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	dir := folder(t, map[string]string{"fleet.yaml": minimal})
	_, err := LoadFleet(filepath.Join(dir, "fleet.yaml"))
	if got, want := without(dir, err.Error()), "fleet.yaml:1:1: documents: this is an evaluation file; pass it as FILE; --config is for the fleet's file, with providers, concurrency, retry, prices, sink and notify"; got != want {
		t.Errorf("an evaluation file as the fleet's: got\n%s\nwant\n%s", got, want)
	}
}

// Comments, and number signs that begin none, are no mistakes.
func TestCommentsAreComments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"round # the second", "round #", "round ## 2", "\"round #2\"", "'round #2'", "round#2", "#2\n  round", "|-\n  round #2"} {
		if s := load(t, with(two, "eval.yaml", "name: "+name+"\n"+minimal+"priority: 1 #normal\n"), Options{}); len(s.Warnings) > 0 {
			t.Errorf("name: %s: warned of %v", name, s.Warnings)
		}
	}
}
