package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestProvidersOfAFleet(t *testing.T) {
	t.Parallel()
	f := fleet(t, `
providers:
  azure-openai: {base_url: "https://mine.openai.azure.com/openai/v1"}
  gemini: {api_key_env: MY_GEMINI}
  openrouter: {json: object, headers: {x-title: evals, HTTP-Referer: {env: REFERER}}, ca_file: /ca.pem, client_cert: /c.pem, client_key: /k.pem}
  azure-2: {like: azure-openai, dialect: responses, base_url: "https://two.openai.azure.com/openai/v1"}
  second:
    like: openai-chat
    api_key_env: SECOND_KEY
    models:
      gpt-: {context_window: 1000, max_output: 10}
      gpt-5: {json: none, search: web, json_with_search: true, reasoning: effort, efforts: [low, high], sampling: always}
  there: {like: gemini, base_url: "http://127.0.0.1:1"}
concurrency: {per_provider: {gemini: {max_concurrency: 3}}}
`)
	yes := true
	for _, want := range []catalog.Entry{
		{Name: "azure-openai", Dialect: catalog.Chat, BaseURL: "https://mine.openai.azure.com/openai/v1", KeyEnv: "AZURE_OPENAI_API_KEY"},
		{Name: "google", Dialect: catalog.Generate, BaseURL: "https://generativelanguage.googleapis.com", KeyEnv: "MY_GEMINI"},
		{Name: "openrouter", Dialect: catalog.Chat, BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY", JSON: "object",
			Headers: map[string]catalog.HeaderValue{"X-Title": {Value: "evals"}, "Http-Referer": {Env: "REFERER"}},
			CAFile:  "/ca.pem", CertFile: "/c.pem", KeyFile: "/k.pem"},
		{Name: "azure-2", Like: "azure-openai", Dialect: catalog.Responses, BaseURL: "https://two.openai.azure.com/openai/v1"},
		{
			Name: "second", Like: "openai-chat", Dialect: catalog.Chat, BaseURL: "https://api.openai.com/v1", KeyEnv: "SECOND_KEY",
			Models: []catalog.Rule{ // the longest first
				{Models: []string{"gpt-5"}, Facts: catalog.Facts{
					JSON: "none", Search: "web", JSONWithSearch: &yes, Reasoning: "effort", Efforts: []string{"low", "high"}, Sampling: "always",
				}},
				{Models: []string{"gpt-"}, Facts: catalog.Facts{ContextWindow: 1000, MaxOutput: 10}},
			},
		},
		{Name: "there", Like: "google", Dialect: catalog.Generate, BaseURL: "http://127.0.0.1:1"}, // whose key is not google's
	} {
		if diff := cmp.Diff(want, f.Providers[want.Name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	if _, ok := f.Providers["gemini"]; ok {
		t.Error("gemini is a provider beside google")
	}
	if got := f.Providers["second"].Capabilities("gpt-5-mini"); got.JSON != providers.JSONNone || got.ContextWindow != 1000 || got.Sampling != providers.SamplingAlways {
		t.Errorf("what is said of a model is not what holds: %+v", got)
	}
	limits := []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "google"}, Kind: ratelimit.Concurrency, Max: 3}}
	if diff := cmp.Diff(limits, f.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestProvidersThatCannotBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"azure-openai: {api_key_env: A}":                  `azure-openai: base_url is missing; add base_url: "https://RESOURCE.openai.azure.com/openai/v1"`,
		"google: {dialect: chat}":                         `google: base_url is missing; add base_url: "http://…/v1"`,
		"x: {base_url: \"http://h\", dialect: telex}":     `x.dialect: got "telex"; want chat, `,
		"x: {base_url: \"http://h\", like: openai-chatt}": `x.like: openai-chatt is not a built-in provider that supports several accounts; did you mean openai-chat?`,
		"x: {base_url: \"http://h\", like: simulator}":    `x.like: simulator is not a built-in provider that supports several accounts; known: `,
		"openrouter: {like: google}":                      `openrouter.like: openrouter is a built-in provider; remove it`,
		"{google: {}, gemini: {}}":                        `gemini: gemini is google, which line 1 already configures; merge the two`,

		"x: {base_url: \"http://h\", models: {m: {jsn: schema}}}":         `x.models.m.jsn: unknown key; did you mean json?`,
		"x: {base_url: \"http://h\", models: {m: {json: maybe}}}":         `x.models.m.json: got "maybe"; want auto, schema, object, none`,
		"x: {base_url: \"http://h\", models: {m: {reasoning: yes}}}":      `x.models.m.reasoning: got "yes"; want none, silent, effort, budget, adaptive, level`,
		"x: {base_url: \"http://h\", models: {m: {efforts: [hgh]}}}":      `x.models.m.efforts[0]: got "hgh"; want none, minimal, low`,
		"x: {base_url: \"http://h\", models: {m: {efforts: low}}}":        `x.models.m.efforts: got "low"; want a list`,
		"x: {base_url: \"http://h\", models: {m: {sampling: 1}}}":         `x.models.m.sampling: got "1"; want always, never, without_reasoning`,
		"x: {base_url: \"http://h\", models: {m: {context_window: 0}}}":   `x.models.m.context_window: got "0"; want a whole number of at least 1`,
		"x: {base_url: \"http://h\", models: {m: {json_with_search: 1}}}": `x.models.m.json_with_search: got "1"; want true or false`,
		"x: {base_url: \"http://h\", models: [m]}":                        `x.models: got a list; want keys with values`,
	} {
		if !strings.HasPrefix(text, "{") {
			text = "{" + text + "}"
		}
		path := filepath.Join(folder(t, map[string]string{"fleet.yaml": "providers: " + text + "\n"}), "fleet.yaml")
		_, err := LoadFleet(path)
		if err == nil || !strings.Contains(err.Error(), ": providers."+want) || !strings.HasPrefix(err.Error(), path+":1:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// An evaluation may name a built-in provider by any of its names, and is one
// evaluation whichever it takes; it moves none of them.
func TestAliases(t *testing.T) {
	t.Parallel()
	docs := "documents: [docs/*.md]\npairwise: {}\n"
	written := load(t, with(two, "eval.yaml", docs+"judges: [gemini:gemini-2.5-flash]\n"), Options{}).Evaluation
	canonical := load(t, with(two, "eval.yaml", docs+"judges: [google:gemini-2.5-flash]\n"), Options{}).Evaluation
	if got := written.Judges[0].Target(); got != "google:gemini-2.5-flash" || written.ID() != canonical.ID() {
		t.Errorf("gemini is asked as %s, in evaluation %s; google in %s", got, written.ID(), canonical.ID())
	}
	_, got := problemsOf(t, with(two, "eval.yaml", docs+"judges: [gemini:m, google:m]\nproviders: {gemini: {base_url: \"http://h\"}}\n"), Options{})
	want := "eval.yaml:3:20: judges[1]: a second judge called google:m, the first is in eval.yaml:3; give each judge a unique name: {name: …, model: …}\n" +
		"eval.yaml:4:13: providers.gemini: gemini is a built-in provider; give the endpoint another name, or set it in the fleet's --config"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Where the calls are made here, it must be known where to.
func TestProviderWithoutAddress(t *testing.T) {
	t.Parallel()
	files := with(two, "eval.yaml", "documents: [docs/*.md]\njudges: [azure-openai:gpt-4.1]\npairwise: {}\n")
	_, got := problemsOf(t, files, Options{})
	want := `eval.yaml:2:10: judges[0]: no address for azure-openai; add base_url: "https://RESOURCE.openai.azure.com/openai/v1" under providers.azure-openai of --config`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	load(t, files, Options{ForFleet: true})
	load(t, files, Options{Fleet: fleet(t, "providers: {azure-openai: {base_url: \"http://127.0.0.1:1\"}}\n")})
}

// Accounts have names that stay when the list changes, addresses and keys, and limits of their own.
func TestAccountsOfAProvider(t *testing.T) {
	t.Parallel()
	f := fleet(t, `
providers:
  openai:
    accounts:
      - {name: eu, api_key_env: EU_KEY, limits: {max_concurrency: 4, models: {gpt-5: {tokens_per_minute: 900}}}}
      - {api_key_env: US_KEY, base_url: "https://us.api.openai.com/v1"}
  vllm:
    accounts: [{base_url: "http://10.0.0.1:8000/v1"}, {base_url: "http://10.0.0.2:8000/v1"}]
concurrency: {per_provider: {openai: {max_concurrency: 9}, openai/US_KEY: {max_concurrency: 6}, "vllm/10.0.0.1-8000": {max_concurrency: 1}}}
`)
	var got []string
	for _, name := range []string{"openai", "vllm"} {
		for _, at := range f.Providers[name].Each() {
			got = append(got, at.Name+" "+at.Dialect+" "+at.BaseURL+" "+at.KeyEnv)
		}
	}
	want := []string{
		"openai/eu responses https://api.openai.com/v1 EU_KEY", "openai/US_KEY responses https://us.api.openai.com/v1 US_KEY",
		"vllm/10.0.0.1-8000 chat http://10.0.0.1:8000/v1 ", "vllm/10.0.0.2-8000 chat http://10.0.0.2:8000/v1 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	ids := map[string]int64{}
	for _, limit := range f.Limits {
		ids[limit.ID()] = limit.Max
		if limit.Kind == ratelimit.Tokens && !limit.Charged {
			t.Error("a limit of tokens at OpenAI is not charged as reserved")
		}
	}
	if diff := cmp.Diff(map[string]int64{
		"provider/openai/concurrency": 9, "provider/openai/eu/concurrency": 4, "provider/openai/US_KEY/concurrency": 6,
		"provider/openai/eu/model/gpt-5/tokens/1m0s": 900, "provider/vllm/10.0.0.1-8000/concurrency": 1,
	}, ids); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}

	for text, want := range map[string]string{
		`[{name: a, api_key_env: A}, {name: a, api_key_env: B}]`: "two accounts are openai/a",
		`[{name: a, api_key_env: A}, {name: b, api_key_env: A}]`: "openai/a and openai/b have the same address and key",
		`[{name: a}]`:                          "an account with neither a key nor an address of its own",
		`[{name: model, api_key_env: A}]`:      `the name model is reserved`,
		`[{name: a/b, api_key_env: A}]`:        `"a/b" is not a valid name of an account`,
		`[{api_key_env: A, limits: {rpm: 1}}]`: "rpm",
	} {
		err := refusedFleet(t, "providers: {openai: {accounts: "+text+"}}\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("accounts: %s is refused with %v, want %q", text, err, want)
		}
	}
	err := refusedFleet(t, "concurrency: {per_provider: {openai/eu: {max_concurrency: 1}}}\n")
	if err == nil || !strings.Contains(err.Error(), "unknown provider openai/eu") {
		t.Errorf("limits of an account that does not exist: %v", err)
	}
}

// refusedFleet returns the error of a fleet file.
func refusedFleet(t *testing.T, text string) error {
	t.Helper()
	_, err := LoadFleet(filepath.Join(folder(t, map[string]string{"fleet.yaml": text}), "fleet.yaml"))
	return err
}

// Only the fleet's own file says that a key is in a file, or that a program prints it.
func TestKeySources(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"fleet.yaml": `
providers:
  openai: {api_key_file: keys/openai}
  azure-openai: {base_url: "https://mine.openai.azure.com/openai/v1", api_key_command: [az, token], api_key_header: authorization}
  anthropic:
    api_key_file: /keys/all
    accounts: [{name: eu, api_key_file: /keys/eu}, {name: us, api_key_env: US}, {name: rest, base_url: "https://rest.example"}]
`})
	f, err := LoadFleet(filepath.Join(dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{"openai", "azure-openai", "anthropic"} {
		for _, at := range f.Providers[name].Each() {
			got = append(got, strings.Join([]string{at.Name, at.KeyEnv, at.KeySource.String(), at.KeyHeader}, ","))
		}
	}
	want := []string{
		"openai,," + filepath.Join(dir, "keys", "openai") + ",", "azure-openai,,az token,Authorization",
		"anthropic/eu,,/keys/eu,", "anthropic/us,US,,", "anthropic/rest,,/keys/all,",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if source := f.Providers["azure-openai"].KeySource; source.Dir != dir {
		t.Errorf("the program runs in %q, want the folder of the file", source.Dir)
	}

	for text, want := range map[string]string{
		`{api_key_file: k, api_key_command: [c]}`:                              "a key from both a file and a command; remove one of them",
		`{api_key_file: k, api_key_env: OTHER}`:                                "a key from both a variable and",
		`{api_key_file: ""}`:                                                   "there is no file",
		`{api_key_command: []}`:                                                "there is no command; for example [gcloud, auth, print-access-token]",
		`{api_key_command: gcloud}`:                                            "want a list",
		`{api_key_header: "a b"}`:                                              "this header cannot be set",
		`{api_key_header: Host}`:                                               "this header cannot be set",
		`{accounts: [{api_key_file: k}]}`:                                      "an account needs a name if its key is in no variable; add name",
		`{accounts: [{name: a, api_key_file: k}, {name: b, api_key_file: k}]}`: "have the same address and key",
	} {
		if err := refusedFleet(t, "providers: {openai: "+text+"}\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused with %v, want %q", text, err, want)
		}
	}
	for _, key := range []string{`api_key_file: /etc/passwd`, `api_key_command: [sh]`, `api_key_header: X`} {
		text := "documents: [docs/*.md]\njudges: [x:m]\npairwise: {}\nproviders: {x: {base_url: \"http://h\", " + key + "}}\n"
		name, _, _ := strings.Cut(key, ":")
		if _, got := problemsOf(t, with(two, "eval.yaml", text), Options{}); !strings.Contains(got, "an evaluation file has no "+name) {
			t.Errorf("%s in an evaluation file: got %q", key, got)
		}
	}
}
