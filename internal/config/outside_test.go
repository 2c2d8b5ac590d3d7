package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever an evaluation file names stays below its folder, also where symbolic links
// lead out of it, unless --allow-outside allows it.
func TestEvaluationFilesReadBelowTheirFolder(t *testing.T) {
	t.Parallel()
	outside := folder(t, map[string]string{
		"secret.md": "secret", "t.md": "{{.Document}}", "p.csv": "item,candidate_a,candidate_b\n,a,b\n", "d.yaml": "[style]\n",
		"x.jsonl": `{"id": "x", "text": "secret"}`, "v.csv": "item,candidate_a,candidate_b,winner\n,a,b,a\n",
	})
	const docs = "documents: [docs/*.md]\njudges: [simulator:careful]\n"
	for name, file := range map[string]string{
		"a document":     "documents: [\"docs/*.md\", \"OUT/secret.md\"]\njudges: [simulator:careful]\npairwise: {}\n",
		"a pattern":      "documents: [\"docs/*.md\", \"OUT/*.md\"]\njudges: [simulator:careful]\npairwise: {}\n",
		"files":          "documents: {files: \"OUT/<item>/<candidate>.md\"}\njudges: [simulator:careful]\npairwise: {}\n",
		"answers":        "documents: {jsonl: \"OUT/x.jsonl\"}\njudges: [simulator:careful]\npairwise: {}\n",
		"a template":     docs + "single: {criteria: [style], template: \"OUT/t.md\"}\n",
		"pairs":          docs + "pairwise: {pairs: {file: \"OUT/p.csv\"}}\n",
		"votes":          docs + "pairwise: {}\nvotes: \"OUT/v.csv\"\n",
		"votes a line":   docs + "pairwise: {}\nvotes: \"OUT/x.jsonl\"\n",
		"dimensions":     "documents: [docs/*.md]\npanel: {agents: [{name: a, model: \"simulator:careful\"}], dimensions: \"OUT/d.yaml\"}\n",
		"file_a":         "provider: simulator\nmodel: careful\nruns: [{file_a: \"OUT/secret.md\", file_b: docs/a.md}]\n",
		"a link":         "documents: [\"docs/*.md\", \"link.md\"]\njudges: [simulator:careful]\npairwise: {}\n",
		"a folder":       "documents: [\"docs/*.md\", \"away/*.md\"]\njudges: [simulator:careful]\npairwise: {}\n",
		"what is absent": "documents: [\"docs/*.md\", \"OUT/none/x.md\"]\njudges: [simulator:careful]\npairwise: {}\n",
	} {
		for _, written := range []string{outside, "../" + filepath.Base(outside)} {
			dir := folder(t, map[string]string{"docs/a.md": "A", "docs/b.md": "B"})
			if written != outside { // beside it
				moved := filepath.Join(filepath.Dir(outside), strings.ReplaceAll(t.Name()+name, "/", "_"))
				if err := os.Rename(dir, moved); err != nil {
					t.Fatal(err)
				}
				dir = moved
			}
			for link, to := range map[string]string{"link.md": "secret.md", "away": "."} {
				if err := os.Symlink(filepath.Join(outside, to), filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "eval.yaml")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(file, "OUT", written)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := loadEvaluation(path, Options{})
			if err == nil || !strings.Contains(err.Error(), "is outside the folder "+dir) || !strings.Contains(err.Error(), "add --allow-outside") {
				t.Errorf("%s: got %v, want a refusal that names the flag", name, err)
			}
			if _, err := loadEvaluation(path, Options{AllowOutside: true}); err != nil && strings.Contains(err.Error(), "outside") {
				t.Errorf("%s: --allow-outside says %v", name, err)
			}
		}
	}
	dir := folder(t, map[string]string{"a.md": "A", "b.md": "B"})
	if err := os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(dir, "c.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := loadFolder(dir, []string{"simulator:careful"}, Options{}); err == nil || !strings.Contains(err.Error(), "--allow-outside") {
		t.Errorf("a folder with a link that leaves it: got %v, want a refusal", err)
	}
}

// An evaluation file says of no provider where it is that evalfleet or --config knows.
func TestEvaluationFilesMoveNoProvider(t *testing.T) {
	t.Parallel()
	own := fleet(t, "providers: {mine: {base_url: \"http://127.0.0.1:1/v1\", api_key_env: MINE}}\n")
	for name, want := range map[string]string{
		"openai": "openai is a built-in provider", "gemini": "gemini is a built-in provider",
		"azure-openai": "azure-openai is a built-in provider", "mine": "mine is a provider of --config",
	} {
		_, got := problemsOf(t, with(two, "eval.yaml", minimal+"providers: {"+name+": {base_url: \"http://evil/v1\"}}\n"), Options{Fleet: own})
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	s := load(t, with(two, "eval.yaml", "documents: [docs/*.md]\npairwise: {}\njudges: [\"other:m\"]\nproviders: {other: {like: openai, base_url: \"http://evil/v1\"}}\n"), Options{Fleet: own})
	if e := s.Providers["other"]; e.KeyEnv != "" {
		t.Errorf("another account of a built-in provider has the key in %s", e.KeyEnv)
	}
}

// Files of the system's own folders cannot be allowed: they hold keys.
func TestNoFilesOfTheSystemAreRead(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/proc/self/environ", "/dev/stdin", "/proc/../proc/self/environ"} {
		files := map[string]string{"docs/a.md": "A", "eval.yaml": "documents: [\"docs/*.md\", " + path + "]\njudges: [simulator:careful]\npairwise: {}\n"}
		if _, got := problemsOf(t, files, Options{AllowOutside: true}); !strings.Contains(got, "is in a system folder") {
			t.Errorf("%s: got %s, want a refusal", path, got)
		}
	}
}

// A .env that was not named sets keys and bounds on calls; with settings in it, nothing begins.
func TestFoundEnvFileSetsKeysOnly(t *testing.T) {
	dir := folder(t, map[string]string{".env": "OPENAI_API_KEY=k\nHTTPS_PROXY=http://evil\nMAX_CONCURRENT_LLM_CALLS=3\n"})
	t.Chdir(dir)
	settings, keys, err := WithEnvFile(env(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := keys("OPENAI_API_KEY"); got != "k" {
		t.Errorf("the key is %q", got)
	}
	for _, name := range []string{"OPENAI_API_KEY", "HTTPS_PROXY"} {
		if got, ok := settings(name); ok {
			t.Errorf("the setting %s is %q from a .env that was not named", name, got)
		}
	}
	for _, name := range []string{"EVALFLEET_CONFIG", "EVALFLEET_SINK", "REDIS_URL", "OTEL_EXPORTER_OTLP_ENDPOINT", "OLLAMA_API_ENDPOINT"} {
		if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(name+"=evil\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := WithEnvFile(env(), ""); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--env-file .env") {
			t.Errorf("%s: got %v, want a refusal that names the flag", name, err)
		}
		if settings, _, err := WithEnvFile(env(name, "mine"), ""); err != nil {
			t.Errorf("%s that the environment has: %v", name, err)
		} else if got, _ := settings(name); got != "mine" {
			t.Errorf("%s: got %q, want the environment's", name, got)
		}
		if settings, _, err := WithEnvFile(env(), ".env"); err != nil {
			t.Errorf("%s in a file that was named: %v", name, err)
		} else if got, _ := settings(name); got != "evil" {
			t.Errorf("%s in a file that was named: got %q", name, got)
		}
	}
}
