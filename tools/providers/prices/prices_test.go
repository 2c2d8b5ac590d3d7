package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The source's format with models of our own making, one for each thing that the table
// can or cannot express.
const (
	openaiYML = `
name: OpenAI
models:
  - {id: plain, match: {or: [{equals: plain}, {equals: plain-2026-01-02}, {equals: plain-chat}]}, context_window: 4000, prices_checked: 2026-02-01, prices: {input_mtok: 1.5, cache_read_mtok: 0.15, output_mtok: 6}}
  - {id: begins, match: {starts_with: begins}, context_window: 5000, prices_checked: 2026-02-02, prices: {input_mtok: 1, output_mtok: 2, cache_write_mtok: 1.25, cache_write_1h_mtok: 2, web_searches_kcount: 25}}
  - {id: begins-mini, match: {equals: begins-mini}, prices_checked: 2026-02-02, prices: {input_mtok: 7, output_mtok: 7}}
  - {id: dated-prefix, match: {or: [{starts_with: dated-prefix-2026}, {starts_with: "other-"}, {equals: "ft:tuned"}, {regex: "^dated-prefix$"}]}, prices_checked: 2026-02-02, prices: {input_mtok: 3, output_mtok: 3}}
  - {id: long, match: {or: [{equals: long}, {equals: long-chat}]}, context_window: 7000, prices_checked: 2026-02-03, prices: {input_mtok: {base: 2, tiers: [{start: 200000, price: 4}]}, cache_read_mtok: 0.2, output_mtok: {base: 10, tiers: [{start: 200000, price: 15}]}}}
  - id: changes
    match: {equals: changes}
    prices_checked: 2026-02-04
    prices:
      - prices: {input_mtok: 9, output_mtok: 9}
      - {constraint: {start_date: 2026-02-10}, prices: {input_mtok: 1, output_mtok: 4}}
      - {constraint: {start_date: 2026-12-01}, prices: {input_mtok: 2, output_mtok: 8}}
  - {id: two-tiers, match: {equals: two-tiers}, prices_checked: 2026-02-05, prices: {input_mtok: {base: 2, tiers: [{start: 1, price: 4}, {start: 2, price: 5}]}, output_mtok: 10}}
  - {id: uneven, match: {equals: uneven}, prices_checked: 2026-02-05, prices: {input_mtok: {base: 2, tiers: [{start: 1, price: 4}]}, output_mtok: {base: 2, tiers: [{start: 2, price: 4}]}}}
  - {id: by-night, match: {equals: by-night}, prices_checked: 2026-02-05, prices: [{prices: {input_mtok: 2, output_mtok: 3}}, {constraint: {start_time: "00:30:00Z", end_time: "08:30:00Z"}, prices: {input_mtok: 1, output_mtok: 1}}]}
  - {id: by-call, match: {equals: by-call}, prices_checked: 2026-02-05, prices: {input_mtok: 1, output_mtok: 1, requests_kcount: 5}}
  - {id: no-day, match: {equals: no-day}, context_window: 8000, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: no-output, match: {equals: no-output}, prices_checked: 2026-02-05, prices: {input_mtok: 1}}
  - {id: nothing, match: {equals: nothing}, prices_checked: 2026-02-05, prices: {}}
  - {id: gone, match: {equals: gone}, context_window: 8000, prices_checked: 2026-02-05, removed: true, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: resold, match: {equals: resold}, prices_checked: 2026-02-05, price_comments: Imported from OpenRouter pricing, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: by-hand, match: {or: [{equals: by-hand}, {equals: by-hand-chat}]}, prices_checked: 2026-02-05, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: gpt-4, match: {equals: gpt-4}, context_window: 8192, prices_checked: 2026-02-05, prices: {}}
  - {id: versions, match: {equals: versions}, prices_checked: 2026-02-05, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: version, match: {equals: versions-2026-01-01}, prices_checked: 2026-02-05, prices: {input_mtok: 5, output_mtok: 5}}
  - {id: gpt-5.6-sol, match: {or: [{equals: gpt-5.6-sol}, {equals: gpt-5.6}]}, prices_checked: 2026-02-05, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: small, match: {or: [{equals: small}, {equals: gpt-4o-mini-search-preview}]}, context_window: 9000, prices_checked: 2026-02-05, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: small-chat, match: {equals: small-chat}, context_window: 3000, prices_checked: 2026-02-05, prices: {}}
`
	anthropicYML = `
models:
  - {id: claude-x, match: {equals: claude-x}, context_window: 200, prices_checked: 2026-02-07, prices: {}}
  - {id: claude-y, match: {equals: claude-y}, context_window: 300, prices_checked: 2026-02-07, prices: {}}
`
	googleYML = `
models:
  - {id: claude-of-vertex, match: {equals: claude-of-vertex}, prices_checked: 2026-02-06, prices: {input_mtok: 1, output_mtok: 1}}
  - {id: gemini-2.9-x, match: {contains: gemini-2.9-x}, prices_checked: 2026-02-06, prices: {input_mtok: 0.1, output_mtok: 0.4}}
  - {id: gemini-9-x, match: {equals: gemini-9-x}, prices_checked: 2026-02-06, prices: {input_mtok: 1, output_mtok: 1}}
`
	byHand = `prices:
  - {providers: [openai], models: [by-hand-chat], input: 3, output: 3}
`
)

// clone is a repository with the source's three files, whose work tree has others, and
// its commit.
func clone(t *testing.T) (folder, commit string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("without git")
	}
	folder = t.TempDir()
	write := func(files map[string]string) {
		for name, content := range files {
			path := filepath.Join(folder, "prices", "providers", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(arguments ...string) string {
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder}, arguments...)...)
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
			"GIT_AUTHOR_DATE=2026-03-01T12:00:00Z", "GIT_COMMITTER_DATE=2026-03-01T12:00:00Z")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write(map[string]string{"openai.yml": openaiYML, "anthropic.yml": anthropicYML, "google.yml": googleYML})
	run("init", "-q")
	run("add", ".")
	run("commit", "-q", "-m", "prices")
	write(map[string]string{"openai.yml": "models: []"})
	run("add", ".")
	return folder, run("rev-parse", "--short=7", "HEAD")
}

// noneByHand is a table of models without windows.
func noneByHand(string, string) int { return 0 }

// generated are the tables made of the clone beside a prices.yaml, each from its as_of,
// and what is printed.
func generated(t *testing.T, source string, byHandIn func(provider, model string) int) (prices, windows, report string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "prices.yaml"), []byte(byHand), 0o644); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	if err := generate(t.Context(), source, folder, byHandIn, &printed); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(raw), "\nas_of: ")
		return table
	}
	return read("prices_generated.yaml"), read("models_generated.yaml"), printed.String()
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	source, commit := clone(t)
	table, _, report := generated(t, source, noneByHand)
	report, _, _ = strings.Cut(report, "window left out: ")
	at := "https://github.com/pydantic/genai-prices/blob/" + commit + "/prices/providers/"
	const openai = "  - {providers: [openai, openai-chat], models: "
	want := `"2026-03-01"

sources:
  genai-prices-openai: {at: "` + at + `openai.yml", on: "2026-03-01"}
  genai-prices-google: {at: "` + at + `google.yml", on: "2026-03-01"}

prices:
` + openai + `[plain, plain-chat], source: genai-prices-openai, on: "2026-02-01", input: 1.5, cached_input: 0.15, output: 6, search: 10}
` + openai + `[begins], source: genai-prices-openai, on: "2026-02-02", input: 1, cache_write: 1.25, output: 2, search: 25}
` + openai + `[dated-prefix], source: genai-prices-openai, on: "2026-02-02", input: 3, output: 3, search: 10}
` + openai + `[long, long-chat], source: genai-prices-openai, on: "2026-02-03", input: 2, cached_input: 0.2, output: 10, long: {above: 200000, input: 4, cached_input: 0.2, output: 15}, search: 10}
` + openai + `[changes], source: genai-prices-openai, on: "2026-02-04", until: "2026-11-30", input: 1, output: 4, search: 10}
` + openai + `[changes], source: genai-prices-openai, on: "2026-02-04", from: "2026-12-01", input: 2, output: 8, search: 10}
` + openai + `[versions-2026-01-01], source: genai-prices-openai, on: "2026-02-05", input: 5, output: 5, search: 10}
` + openai + `[small], source: genai-prices-openai, on: "2026-02-05", input: 1, output: 1, search: 10}
  - {providers: [google], models: [gemini-2.9-x], source: genai-prices-google, on: "2026-02-06", input: 0.1, output: 0.4, search: 35, search_once: true}
`
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("the table differs from what is wanted (-want +got):\n%s", diff)
	}
	wantReport := `left out: openai two-tiers: input_mtok: 2 tiers
left out: openai uneven: output_mtok: its tiers are not those of the other prices
left out: openai by-night: its price depends on more than the day, such as the time of day
left out: openai by-call: the table has no requests_kcount
left out: openai no-day: the source does not say when its price was checked
left out: openai no-output: it has no price of both input and output
left out: openai nothing: it has no price of both input and output
left out: openai gone: the source lists it as discontinued
left out: openai resold: the price is one of OpenRouter, not of the vendor
kept: openai by-hand-chat: written by hand in prices.yaml
left out: openai gpt-4: it has no price of both input and output
left out: openai versions: versions-2026-01-01 has another price
left out: openai gpt-5.6-sol, gpt-5.6: sources differ on its price
left out: openai gpt-4o-mini-search-preview: a search costs another price
left out: openai small-chat: it has no price of both input and output
left out: anthropic claude-x: it has no price of both input and output
left out: anthropic claude-y: it has no price of both input and output
left out: google gemini-9-x: the price of a search is unknown
`
	if diff := cmp.Diff(wantReport, report); diff != "" {
		t.Errorf("what is printed differs from what is wanted (-want +got):\n%s", diff)
	}
}

// TestGenerateWindows: windows are generated where models.yaml states none, a longer name
// before the name that it begins with.
func TestGenerateWindows(t *testing.T) {
	t.Parallel()
	source, commit := clone(t)
	byHand := map[string]int{
		"openai:plain-chat":  1000, // the others of its names are not written by hand
		"openai:long":        7000,
		"anthropic:claude-y": 333,
	}
	_, table, report := generated(t, source, func(provider, model string) int { return byHand[provider+":"+model] })
	at := "https://github.com/pydantic/genai-prices/blob/" + commit + "/prices/providers/"
	const openai = "  - {providers: [openai, openai-chat, azure-openai], models: "
	want := `"2026-03-01"

sources:
  genai-prices-openai: {at: "` + at + `openai.yml", on: "2026-03-01"}
  genai-prices-anthropic: {at: "` + at + `anthropic.yml", on: "2026-03-01"}

rules:
` + openai + `[small-chat], source: genai-prices-openai, on: "2026-02-05", context_window: 3000}
` + openai + `[small], source: genai-prices-openai, on: "2026-02-05", context_window: 9000}
` + openai + `[plain], source: genai-prices-openai, on: "2026-02-01", context_window: 4000}
` + openai + `[gpt-4o-mini-search-preview], source: genai-prices-openai, on: "2026-02-05", context_window: 9000}
` + openai + `[begins], source: genai-prices-openai, on: "2026-02-02", context_window: 5000}
  - {dialects: [messages], models: [claude-x], source: genai-prices-anthropic, on: "2026-02-07", context_window: 200}
`
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("the table differs from what is wanted (-want +got):\n%s", diff)
	}
	_, report, _ = strings.Cut(report, "window left out: ")
	wantReport := `openai plain-chat: 1000 in models.yaml, 4000 in the source
window left out: openai long: models.yaml has the source's 7000 too
window left out: openai no-day: the source states no day on which it was checked
window left out: openai gone: the source lists it as discontinued
window left out: openai gpt-4: names of models with other windows begin with it
window left out: anthropic claude-y: 333 in models.yaml, 300 in the source
`
	if diff := cmp.Diff(wantReport, report); diff != "" {
		t.Errorf("what is printed differs from what is wanted (-want +got):\n%s", diff)
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := generate(t.Context(), folder, folder, noneByHand, &strings.Builder{}); err == nil {
		t.Error("a table that does not exist is taken for an empty one")
	}
	if err := os.WriteFile(filepath.Join(folder, "prices.yaml"), []byte(byHand), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := generate(t.Context(), filepath.Join(folder, "nowhere"), folder, noneByHand, &strings.Builder{}); err == nil {
		t.Error("a folder that does not exist is taken for a clone")
	}
	if written, err := filepath.Glob(filepath.Join(folder, "*_generated.yaml")); err != nil || len(written) > 0 {
		t.Errorf("got %v, %v; want no tables", written, err)
	}
}
