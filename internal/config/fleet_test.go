package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestLoadFleet(t *testing.T) {
	t.Parallel()
	f := fleet(t, `
providers:
  simulator: {base_url: "http://127.0.0.1:9000/v1"}
  mine: {base_url: "http://127.0.0.1:8000/v1", api_key_env: MINE}
concurrency:
  max_concurrency: 16
  lease: 60s
  timeout_seconds: 100
  per_provider: {mine: {max_concurrency: 4}}
  groups: {g: {requests_per_minute: 5, window: bucket}}
retry: {max_attempts: 1}
`)
	for _, want := range []catalog.Entry{
		{Name: "simulator", Dialect: catalog.Simulator, BaseURL: "http://127.0.0.1:9000/v1"},
		{Name: "mine", Dialect: catalog.Chat, BaseURL: "http://127.0.0.1:8000/v1", KeyEnv: "MINE"},
	} {
		if diff := cmp.Diff(want, f.Providers[want.Name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	if got := catalog.BuiltIn()["simulator"].BaseURL; got != "" {
		t.Errorf("the built-in simulator moved to %q", got)
	}
	want := []ratelimit.Limit{
		{Scope: ratelimit.Scope{Provider: "mine"}, Kind: ratelimit.Concurrency, Max: 4},
		{Scope: ratelimit.Scope{Group: "g"}, Kind: ratelimit.Requests, Max: 5, Period: time.Minute},
		{Kind: ratelimit.Concurrency, Max: 16},
	}
	if diff := cmp.Diff(want, f.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if f.Lease != time.Minute || f.Retry.MaxAttempts != 1 || f.Retry.MaxDelay != record.DefaultRetry.MaxDelay || f.Timeouts[""] != 100*time.Second {
		t.Errorf("got lease %v, retry %+v, timeouts %v; want 1m, one attempt, 100s", f.Lease, f.Retry, f.Timeouts)
	}

	plain, err := LoadFleet("")
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.Limits) != 0 || plain.Lease != DefaultLease || plain.Retry != record.DefaultRetry || len(plain.Providers) != len(catalog.BuiltIn()) {
		t.Errorf("without a file: got %+v, want the defaults", plain)
	}
}

func TestFleetProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"judges: []\n":                        "fleet.yaml:1:1: judges: this is an evaluation file; pass it as FILE; --config is for the fleet's file, with providers, concurrency, retry, prices, sink and notify",
		"prices: {}\nsink: {a: b}\n":          "fleet.yaml:2:7: sink: ",
		"prices: {mini: {input: 1}}\n":        `fleet.yaml:1:10: prices.mini: "mini" does not name a model; write "provider:model", or "provider:prefix*"`,
		"prices: {\"a:b\": {input: -1}}\n":    "fleet.yaml:1:10: prices.a:b: output is missing; add output, US dollars per million tokens; 0 if they are free",
		"providers: {mine: {}}\n":             "fleet.yaml:1:13: providers.mine: base_url is missing",
		"providers: {\"a:b\": {}}\n":          "fleet.yaml:1:13: providers.a:b: not a valid provider name; use letters",
		"providers: {a: {base_url: 1}}\n":     `fleet.yaml:1:27: providers.a.base_url: got "1"; want an address`,
		"concurrency: {max_concurrency: 0}\n": `fleet.yaml:1:32: concurrency.max_concurrency: got "0"; want a whole number of at least 1`,
		"concurrency: {lease: 10ms}\n":        `fleet.yaml:1:22: concurrency.lease: got "10ms"; want a time with its unit, for example 1.5s, at least 1s`,
	} {
		dir := folder(t, map[string]string{"fleet.yaml": text})
		_, err := LoadFleet(filepath.Join(dir, "fleet.yaml"))
		if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := LoadFleet(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.HasSuffix(err.Error(), "none.yaml: no such file") {
		t.Errorf("no file: got %v", err)
	}
}

func TestForFleetRefusesWhatWorkersDoNotRead(t *testing.T) {
	t.Parallel()
	_, got := problemsOf(t, with(two, "eval.yaml", minimal+
		"providers: {mine: {base_url: \"http://127.0.0.1/v1\"}}\nconcurrency: {lease: 20s}\n"), Options{ForFleet: true})
	want := "eval.yaml:4:1: providers: providers in an evaluation file apply to `run` only, not to the workers of a fleet; put them into the workers' --config, beside their keys\n" +
		"eval.yaml:5:15: concurrency.lease: lease has no effect on the workers of a fleet; set it in the workers' --config"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWithEnvFile(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		".env":  "# keys\nA=from file\nexport B='dollar $A'\nC=\"two\nlines\"\n",
		"bad":   "A=1\nsecret key without sign\nB=2\n",
		"bytes": "A=\xff\n",
	})
	_, lookup, err := WithEnvFile(env("A", "from environment"), filepath.Join(dir, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "from environment", "B": "dollar $A", "C": "two\nlines", "D": ""} {
		if got, ok := lookup(name); got != want || ok != (want != "") {
			t.Errorf("%s: got %q (%v), want %q", name, got, ok, want)
		}
	}
	for name, want := range map[string]string{"bad": "bad:2: this line cannot be read", "bytes": "not UTF-8", "none": "none: no such file"} {
		_, _, err := WithEnvFile(env(), filepath.Join(dir, name))
		var problems Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes the file: %v", name, err)
		}
	}
}

// Addresses of the tool that experiments come from are used if no file names any.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	f := fleet(t, "providers: {azure-openai: {base_url: \"http://127.0.0.1:1/v1\"}}\n")
	err := f.Endpoints(env("OLLAMA_API_ENDPOINT", "http://10.0.0.8:11434/", "AZURE_OPENAI_API_ENDPOINT", "https://x.openai.azure.com",
		"HUGGINGFACE_TGI_API_ENDPOINT", "http://10.0.0.9"), env("HUGGINGFACE_TGI_API_KEY", "k"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		"ollama": {"http://10.0.0.8:11434", ""}, "azure-openai": {"http://127.0.0.1:1/v1", "AZURE_OPENAI_API_KEY"},
		"huggingface-tgi": {"http://10.0.0.9/v1", "HUGGINGFACE_TGI_API_KEY"},
	} {
		if got := f.Providers[name]; got.BaseURL != want[0] || got.KeyEnv != want[1] {
			t.Errorf("%s: got %+v, want the address %s and the key of %q", name, got, want[0], want[1])
		}
	}
	f = fleet(t, "retry: {max_attempts: 3}\n")
	if err := f.Endpoints(env("AZURE_OPENAI_API_ENDPOINT", "https://x.openai.azure.com/"), env()); err != nil || f.Providers["azure-openai"].BaseURL != "https://x.openai.azure.com/openai/v1" {
		t.Errorf("got %+v, %v; want the resource's address", f.Providers["azure-openai"], err)
	}
	err = f.Endpoints(env("OLLAMA_API_ENDPOINT", "localhost:11434"), env())
	if want := `OLLAMA_API_ENDPOINT: not an address; want an address such as "http://127.0.0.1:11434"`; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
