package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/evalfleet/evalfleet/internal/cli/commandline"
)

// evalfleet runs one command line in-process, with nothing in its environment
// but what is given.
func evalfleet(t testing.TB, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	lookup := func(name string) (string, bool) {
		value, ok := env[name]
		if name == "XDG_STATE_HOME" && !ok {
			return stateFolder(), true
		}
		return value, ok
	}
	code = Main(t.Context(), nil, args, lookup, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// tree writes files below a new folder.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const goodFile = "name: good\ndocuments: [docs/*.md]\njudges: [simulator:careful, {name: strict, model: simulator:average}]\n" +
	"single: {criteria: [style]}\npairwise: {}\n"

// Whatever is wrong on the way in: exit code 2, the place, the way out, and
// nothing on stdout.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "good.yaml": goodFile,
		"key.yaml":      goodFile + "judgs: []\n",
		"syntax.yaml":   "documents: [docs/*.md\n",
		"provider.yaml": strings.ReplaceAll(goodFile, "simulator:average", "opnrouter:x"),
		"empty.yaml":    strings.ReplaceAll(goodFile, "docs/*.md", "dox/*.md"),
		"many.yaml":     "documents: [docs/*.md]\njudges: [x]\npairwise: {order: bth}\n",
		"huge.yaml":     strings.ReplaceAll(goodFile, "pairwise: {}", "pairwise: {trials: 2000000000}\njson: auto"),
		"answers.jsonl": "{}\n", "prompts.jsonl": `{"id": 0, "api": "test", "model_name": "m", "prompt": "?"}`,
		"input/a.jsonl": `{"id": 0, "api": "test", "prompt": "?"}`, "input/b.csv": "prompt,api,model_name\n", "input/c.txt": "?",
		"bytes.yaml": "name: \xff\n",
		"fleet.yaml": "concurency: {}\n",
		"bad.env":    "A=1\nno sign here\n",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	good := at("good.yaml")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string // of stderr, DIR/ standing for the folder; all of it unless it ends with "…"
	}{
		{"no such command", nil, []string{"valdate", good}, "evalfleet: unknown command valdate; did you mean validate?\n"},
		{"nothing like a command", nil, []string{"xyzzy"}, "evalfleet: unknown command xyzzy; evalfleet --help lists all\n"},
		{"command after --", nil, []string{"--", "validate"}, "evalfleet: unknown flag --; …"},
		{"help for no command", nil, []string{"help", "reprt"}, "evalfleet: unknown command reprt; …"},
		{"no such flag", nil, []string{"validate", good, "--redi", "x"}, "evalfleet: unknown flag --redi; did you mean --redis?\n"},
		{"no such flag, with its value", nil, []string{"validate", good, "--name-space=x"}, "evalfleet: unknown flag --name-space; did you mean --namespace?\n"},
		{"no such flag and no command", nil, []string{"--confg"}, "evalfleet: unknown flag --confg; did you mean --config?\n"},
		{"short flag that is none", nil, []string{"validate", "-x", good}, "evalfleet: unknown flag -x; put arguments that start with a dash after --\n"},
		{"argument with a dash", nil, []string{"validate", "-good.yaml"}, "evalfleet: unknown flag -good.yaml; put arguments that start with a dash after --\n"},
		{"three dashes", nil, []string{"validate", good, "---config", "x"}, "evalfleet: unknown flag ---config; did you mean --config?\n"},
		{"flag without its value", nil, []string{"validate", good, "--config"}, "evalfleet: flag --config needs a value: --config=…\n"},
		{"flag in place of a value", nil, []string{"validate", good, "--config", "--redis", "x"}, "evalfleet: flag --config needs a value: --config=…\n"},
		{"no file named", nil, []string{"validate"}, "evalfleet: validate wants one FILE, got 0; write evalfleet validate FILE\n"},
		{"two files named", nil, []string{"validate", good, good}, "evalfleet: validate wants one FILE, got 2; write evalfleet validate FILE\n"},
		{"empty name", nil, []string{"validate", ""}, "evalfleet: validate wants one FILE, got 1; write evalfleet validate FILE\n"},
		{"argument of version", nil, []string{"version", "x"}, "evalfleet: version takes no arguments, got \"x\"\n"},
		{"no such file", nil, []string{"validate", at("none.yaml")}, "evalfleet: DIR/none.yaml: no such file\n"},
		{"a folder", nil, []string{"validate", at("docs")}, "evalfleet: --judge: a folder needs a judge; name one, for example --judge simulator:careful\n"},
		{"unknown key", nil, []string{"validate", at("key.yaml")}, "evalfleet: DIR/key.yaml:6:1: judgs: unknown key; did you mean judges?\n"},
		{"syntax", nil, []string{"validate", at("syntax.yaml")}, "evalfleet: DIR/syntax.yaml:1:12: not valid YAML: …"},
		{"unknown provider", nil, []string{"validate", at("provider.yaml")},
			"evalfleet: DIR/provider.yaml:3:51: judges[1].model: unknown provider opnrouter; did you mean openrouter?\n"},
		{"no documents", nil, []string{"validate", at("empty.yaml")},
			"evalfleet: DIR/empty.yaml:2:12: documents: no documents found: dox/*.md; paths are relative to the evaluation file's folder\n"},
		{"several at once", nil, []string{"validate", at("many.yaml")},
			"evalfleet: DIR/many.yaml:2:10: judges[0]: \"x\" does not name a provider; write provider:model, for example openai:gpt-5-mini\n" +
				"evalfleet: DIR/many.yaml:3:19: pairwise.order: got \"bth\"; want both, random, as_listed; did you mean both?\n"},
		{"answers are no experiment", nil, []string{"validate", at("answers.jsonl")}, "evalfleet: DIR/answers.jsonl:1: prompt: the line has no prompt; …"},
		{"two files", nil, []string{"run", good, "-f", good}, "evalfleet: --file and the argument DIR/good.yaml both name a file: remove one of them\n"},
		{"no such kind", nil, []string{"validate", good, "--kind", "yaml"}, "evalfleet: --kind: got \"yaml\", want evaluation, experiment, answers, batch or runs\n"},
		{"flags of experiments", nil, []string{"run", good, "-mq", "5", "-p"}, "evalfleet: --max-queries applies to experiments, and DIR/good.yaml is not one; to read a file as one, add --kind experiment\nevalfleet: --parallel applies to experiments, and DIR/good.yaml is not one; to read a file as one, add --kind experiment\n"},
		{"an evaluation as an experiment", nil, []string{"validate", good, "--kind", "experiment"}, "evalfleet: DIR/good.yaml:1:2: not JSON: …"},
		{"flags of runs for an experiment", nil, []string{"run", at("prompts.jsonl"), "--out", "x"}, "evalfleet: --out is for listed runs, and DIR/prompts.jsonl is an experiment\n"},
		{"an experiment's judge from nowhere", nil, []string{"run", at("prompts.jsonl"), "-j", "x"}, "evalfleet: --judge and --judge-folder go together: settings.json in the folder defines the names\n"},
		{"templates from nowhere", nil, []string{"run", at("prompts.jsonl"), "-jt", "x"}, "evalfleet: --judge-templates needs --judge-folder, the folder that contains them\n"},
		{"a data folder without experiments", nil, []string{"run", "-d", at("docs")}, "evalfleet: DIR/docs/input: no such folder; put experiments into it, or pass a FILE\n"},
		{"bad experiments", nil, []string{"run", "-d", dir}, "evalfleet: DIR/input/…"},
		{"an evaluation as a Batch file", nil, []string{"validate", good, "--kind", "batch"}, "evalfleet: DIR/good.yaml:1:2: not JSON: …"},
		{"not UTF-8", nil, []string{"validate", at("bytes.yaml")}, "evalfleet: DIR/bytes.yaml: not UTF-8: byte 6 is not part of a character; save it as UTF-8\n"},
		{"fleet file", nil, []string{"validate", good, "--config", at("fleet.yaml")}, "evalfleet: DIR/fleet.yaml:1:1: concurency: unknown key; did you mean concurrency?\n"},
		{"no fleet file", nil, []string{"--config", at("none.yaml"), "validate", good}, "evalfleet: DIR/none.yaml: no such file\n"},
		{"fleet file from the environment", map[string]string{"EVALFLEET_CONFIG": at("none.yaml")}, []string{"validate", good}, "evalfleet: DIR/none.yaml: no such file\n"},
		{"no .env file", nil, []string{"validate", good, "--env-file", at("none.env")}, "evalfleet: DIR/none.env: no such file\n"},
		{"bad .env file", map[string]string{"EVALFLEET_ENV_FILE": at("bad.env")}, []string{"validate", good},
			"evalfleet: DIR/bad.env:2: this line cannot be read; want one NAME=value per line; quote values with spaces\n"},
		{"no calls at once", map[string]string{"MAX_CONCURRENT_LLM_CALLS": "0"}, []string{"validate", good},
			"evalfleet: MAX_CONCURRENT_LLM_CALLS must be >= 1, got 0\n"},
		{"too many calls at once", map[string]string{"MAX_CONCURRENT_LLM_CALLS": "51"}, []string{"validate", good},
			"evalfleet: MAX_CONCURRENT_LLM_CALLS must be <= 50, got 51; for more, use max_concurrency in the evaluation file or --max-concurrency\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := evalfleet(t, c.env, c.args...)
			got := strings.ReplaceAll(stderr, dir+string(filepath.Separator), "DIR/")
			beginning, open := strings.CutSuffix(c.want, "…")
			if got != c.want && (!open || !strings.HasPrefix(got, beginning)) {
				t.Errorf("stderr: got\n%swant\n%s", got, c.want)
			}
			if code != 2 || stdout != "" {
				t.Errorf("got exit code %d and stdout %q, want 2 and nothing", code, stdout)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "docs/c.md": "Beta.",
		"good.yaml":  goodFile + "concurrency: {per_provider: {simulator: {max_concurrency: 9}}}\n",
		"fleet.yaml": "concurrency: {per_provider: {simulator: {max_concurrency: 8}}}\n",
	})
	file := filepath.Join(dir, "good.yaml")
	code, stdout, stderr := evalfleet(t, nil, "validate", file, "--config", filepath.Join(dir, "fleet.yaml"))
	// 3 documents × 2 judges, and 3 pairs × 2 orders × 2 judges.
	for _, want := range []string{
		"good (ev-", "3 documents of 1 item (2 different texts, 11 bytes)", "judged by simulator:careful, strict (simulator:average).",
		"2 phases: single of 6 runs, pairwise of 12 runs, 18 runs in all.", "Calls in flight are bounded by the providers.",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout: got %q, want %q in it", stdout, want)
		}
	}
	if strings.Count(stdout, "\n") != 1 {
		t.Errorf("stdout: got %q, want one paragraph", stdout)
	}
	wantWarning := "evalfleet: warning: " + file + ":6:59: concurrency.per_provider.simulator.max_concurrency: never reached: "
	if code != 0 || !strings.HasPrefix(stderr, wantWarning) {
		t.Errorf("got exit code %d and stderr %q, want 0 and %q", code, stderr, wantWarning)
	}
}

// Flags win over EVALFLEET_ variables, these over .env.
func TestFlagEnvironmentAndEnvFile(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"docs/a.md": "1", "docs/b.md": "2", "good.yaml": goodFile, "fleet.yaml": "{}",
		"calls.env": "MAX_CONCURRENT_LLM_CALLS=7\nEVALFLEET_CONFIG=" + filepath.Join(t.TempDir(), "none.yaml") + "\n"})
	file, fleet, calls := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "calls.env")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		want string
	}{
		{".env speaks", nil, []string{"--env-file", calls}, 2, "none.yaml: no such file"},
		{"the environment wins over .env", map[string]string{"EVALFLEET_CONFIG": fleet}, []string{"--env-file", calls}, 0, "At most 7 calls in flight (environment)."},
		{"a flag wins over both", map[string]string{"EVALFLEET_CONFIG": "x", "EVALFLEET_ENV_FILE": "x", "MAX_CONCURRENT_LLM_CALLS": "9"},
			[]string{"--config=" + fleet, "--env-file=" + calls}, 0, "At most 9 calls in flight (environment)."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := evalfleet(t, c.env, append([]string{"validate", file}, c.args...)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("got exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
}

// TestAddressesAreLoopbackByDefault checks that no command is reachable from other
// machines unless an address is set.
func TestAddressesAreLoopbackByDefault(t *testing.T) {
	t.Parallel()
	addresses := 0
	for _, command := range commands(&process{}) {
		for _, f := range command.Flags {
			placeholder, _ := commandline.SplitUsage(f)
			text, ok := f.(*cli.StringFlag)
			if !ok || placeholder != "ADDRESS" || text.Value == metricsOff || text.Value == "" {
				continue
			}
			addresses++
			if host, _, err := net.SplitHostPort(text.Value); err != nil || !net.ParseIP(host).IsLoopback() {
				t.Errorf("%s --%s is %q by default, want an address of loopback", command.Name, text.Name, text.Value)
			}
		}
	}
	if addresses < 5 {
		t.Errorf("%d addresses were found, want those of worker, controller, healthcheck, ui and simulate", addresses)
	}
}

// TestHelpOfFlags checks that every command has a title and a description, and that
// every flag names its value, its default, and the unit of a time.
func TestHelpOfFlags(t *testing.T) {
	t.Parallel()
	defaulted := regexp.MustCompile(`\(default `)
	unit := regexp.MustCompile(`\b[0-9]+(ms|s|m|h)\b`)
	plain := func(text string) bool {
		return text != "" && !strings.HasSuffix(text, ".") && !strings.ContainsAny(text, "\n`")
	}
	startsUpper := func(text string) bool {
		first, _ := utf8.DecodeRuneInString(text)
		return unicode.IsUpper(first)
	}
	for _, command := range commands(&process{}) {
		if !plain(command.Usage) || !startsUpper(command.Usage) || !strings.HasSuffix(command.Description, ".") || strings.Contains(command.Description, "  ") {
			t.Errorf("%s: %q, %q; want a phrase that starts with a capital, and whole sentences", command.Name, command.Usage, command.Description)
		}
		for _, f := range append(command.Flags, commonFlags()...) {
			name, usage := command.Name+" --"+f.Names()[0], commandline.Usage(f)
			placeholder, _ := commandline.SplitUsage(f)
			switch {
			case !plain(usage) || startsUpper(usage) && strings.ToUpper(usage[:2]) != usage[:2]:
				t.Errorf("%s: %q; want a phrase that starts in lower case or with the value's name", name, usage)
			case !commandline.TakesValue(f):
			case placeholder == "VALUE" || placeholder != strings.ToUpper(placeholder):
				t.Errorf("%s: its value is called %s in %q; want a name in capitals, in back quotes", name, placeholder, usage)
			case !defaulted.MatchString(usage) && !strings.Contains(command.Description, simulateDefault):
				t.Errorf("%s: %q does not name its default", name, usage)
			case placeholder == "TIME" && !unit.MatchString(usage):
				t.Errorf("%s: %q shows no time with its unit", name, usage)
			}
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	pages := [][]string{{"--help"}, {"-h"}, {"help"}}
	for _, command := range commands(&process{}) {
		pages = append(pages, []string{command.Name, "--help"}, []string{"help", command.Name}, []string{"-h", command.Name}, []string{command.Name, "--help-all"})
	}
	for _, args := range pages {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := evalfleet(t, nil, args...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, "\nUsage: evalfleet ") {
				t.Errorf("got exit code %d, stdout %q, stderr %q; want 0 and help", code, stdout, stderr)
			}
			for line := range strings.Lines(stdout) {
				if line = strings.TrimRight(line, "\n"); len([]rune(line)) > commandline.HelpWidth || strings.HasSuffix(line, " ") {
					t.Errorf("line of %d columns: %q, want at most %d and no blank at its end", len([]rune(line)), line, commandline.HelpWidth)
				}
			}
		})
	}
	code, stdout, stderr := evalfleet(t, nil)
	if code != 2 || stdout != "" || !strings.HasSuffix(stderr, "\nevalfleet: no command given\n") {
		t.Errorf("without arguments: got exit code %d, stdout %q, stderr %q; want 2 and help on stderr", code, stdout, stderr)
	}
}
