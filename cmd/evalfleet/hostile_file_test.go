package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// collectorOfKeys answers like a model, and keeps what it was sent.
type collectorOfKeys struct {
	mu   sync.Mutex
	sent strings.Builder // headers and bodies
}

func (k *collectorOfKeys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller left
	}
	k.mu.Lock()
	_ = r.Header.Write(&k.sent)
	k.sent.Write(body)
	k.mu.Unlock()
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"An answer."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}`)
}

func (k *collectorOfKeys) seen() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sent.String()
}

// hostileFile is a folder with an evaluation file that sends the key in GITHUB_TOKEN to
// a server of its author.
func hostileFile(t *testing.T, more ...string) (dir string, evil *collectorOfKeys, in func(args ...string) *exec.Cmd) {
	t.Helper()
	evil = &collectorOfKeys{}
	server := httptest.NewServer(evil)
	t.Cleanup(server.Close)
	dir = tree(t, runFiles(append([]string{"eval.yaml", "name: nice\nproviders: {mine: {base_url: \"" + server.URL + "/v1\", api_key_env: GITHUB_TOKEN}}\n" +
		"grounding: off\nreasoning: off\nprovider: mine\nmodel: m\nruns: [{id: r1, file_a: a.md, file_b: b.md}]\n"}, more...)...))
	return dir, evil, func(args ...string) *exec.Cmd {
		cmd := exec.Command(must(binary()), args...)
		cmd.Env = []string{"GITHUB_TOKEN=planted-token"}
		return cmd
	}
}

// An evaluation file names a server of its author and a variable of the reader's
// environment. Nothing is called until the command line sends the key there.
func TestEvaluationFileGetsNoKeyByItself(t *testing.T) {
	t.Parallel()
	dir, evil, in := hostileFile(t)
	p := start(t, dir, in("run", "eval.yaml"))
	if code := p.wait(); code != int(exitUsage) || !strings.Contains(p.stderr.String(), "add --allow-keys mine=GITHUB_TOKEN") {
		t.Errorf("run ended with %d, want %d and the flag", code, exitUsage)
	}
	p = start(t, dir, in("run", "eval.yaml", "--allow-keys", "mine=OTHER"))
	if code := p.wait(); code != int(exitUsage) {
		t.Errorf("run with another variable allowed ended with %d", code)
	}
	if sent := evil.seen(); sent != "" {
		t.Errorf("the author's server was sent\n%s", sent)
	}
	p = start(t, dir, in("run", "eval.yaml", "--allow-keys", "mine=GITHUB_TOKEN"))
	if code := p.wait(); code != 0 || !strings.Contains(p.stderr.String(), "the key in GITHUB_TOKEN is sent to provider mine at http://127.0.0.1") {
		t.Errorf("run with the key allowed ended with %d and does not say where the key goes", code)
	}
	if !strings.Contains(evil.seen(), "planted-token") {
		t.Error("the key that was allowed was not sent")
	}
}

// A .env that lies in the working folder chooses no settings, and an evaluation file no
// files elsewhere.
func TestWorkingFolderChoosesNoSettings(t *testing.T) {
	t.Parallel()
	dir, evil, in := hostileFile(t, "evil.yaml", "", "outside.yaml", "name: nice\nprovider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: /proc/self/environ, file_b: b.md}]\n")
	for name, want := range map[string]string{"EVALFLEET_CONFIG=evil.yaml\n": "EVALFLEET_CONFIG", "EVALFLEET_ALLOW_KEYS=mine=GITHUB_TOKEN\n": "EVALFLEET_ALLOW_KEYS"} {
		if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, dir, in("run", "eval.yaml"))
		if code := p.wait(); code != int(exitUsage) || !strings.Contains(p.stderr.String(), want+": only keys are read from a .env file that was not named") {
			t.Errorf("run beside a .env with %s ended with %d", want, code)
		}
	}
	if err := os.Remove(filepath.Join(dir, ".env")); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, in("run", "outside.yaml", "--allow-outside"))
	if code := p.wait(); code != int(exitUsage) || !strings.Contains(p.stderr.String(), "is in a system folder") {
		t.Errorf("run on /proc/self/environ ended with %d", code)
	}
	if sent := evil.seen(); sent != "" {
		t.Errorf("the author's server was sent\n%s", sent)
	}
}
