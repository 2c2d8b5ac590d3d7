//go:build unix

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// echo is in every answer of parrots, so that its spread can be followed.
const echo = "EchoOfTheProvider"

// parrots are providers that repeat the key that they are given, first in
// everything that they say of failures, then in their reasons, while they judge as
// the simulator does. Each is in a path of its name.
type parrots struct {
	judges *simulator.Simulator

	mu    sync.Mutex          // guards all below
	asked map[string]int      // by provider
	keys  map[string][]string // headers with a key, by provider
	loose []string            // in place of a key that is not a header
}

func (p *parrots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller left
	}
	header, key := keyOf(r.Header)
	p.mu.Lock()
	p.asked[name]++
	turn := p.asked[name]
	if found := header + key; !slices.Contains(p.keys[name], found) {
		p.keys[name] = append(p.keys[name], found)
	}
	if strings.Contains(r.URL.String(), key) || bytes.Contains(body, []byte(key)) {
		p.loose = append(p.loose, r.URL.String()+" "+string(body))
	}
	p.mu.Unlock()

	if turn <= 5 {
		w.Header().Set("X-Request-Id", "request-of-"+key)
		w.Header().Set("Retry-After", key)
	}
	said := fmt.Sprintf(`{"error":{"message":"%s: no such thing as %s","type":"%s","code":"%s","status":"%s"}}`, echo, key, key, key, key)
	switch turn {
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "<html>%s %s</html>", echo, key)
	case 2:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, said)
	case 3:
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, said)
	case 4: // an answer that is none
		fmt.Fprint(w, said)
	case 5: // and one that cannot be read
		fmt.Fprintf(w, `{"%s":%s`, echo, key)
	default:
		onward := r.Clone(r.Context())
		onward.URL.Path, onward.Body = "/"+rest, io.NopCloser(bytes.NewReader(body))
		judged := httptest.NewRecorder()
		p.judges.ServeHTTP(judged, onward)
		w.WriteHeader(judged.Code)
		_, _ = w.Write(bytes.ReplaceAll(judged.Body.Bytes(), []byte(`reason\":\"`), []byte(`reason\":\"`+echo+" "+key+" ")))
	}
}

// keyOf is the header that contains a planted key, and the key.
func keyOf(h http.Header) (name, key string) {
	for name, values := range h {
		for _, value := range values {
			if at := strings.Index(value, "planted-"); at >= 0 {
				return name + ": " + value[:at], value[at:]
			}
		}
	}
	return "", "no key"
}

// A key in .env gets to its own provider, in its dialect's header, and nowhere
// else, though the provider repeats it in its answers.
func TestKeysGoNowhereElse(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	providers := &parrots{judges: simulator.New(simulator.Config{Models: map[string]simulator.Model{"o3-deep-research": {}, "gpt-4.1-mini": {}}}), asked: map[string]int{}, keys: map[string][]string{}}
	server := httptest.NewServer(providers)
	t.Cleanup(server.Close)
	fleetFile, all, keys := hostedAt(t, server.URL, true)
	f := newFleetWith(t)
	f.documents(4)
	f.write("fleet.yaml", fleetFile+"retry: {initial_delay: 10ms, jitter: 10ms}\n")
	var env, judges strings.Builder
	for name, key := range keys {
		fmt.Fprintf(&env, "%s=%s\n", name, key)
	}
	f.write(".env", env.String())
	for _, e := range all {
		model := "careful"
		if e.Name == "openaidp" {
			model = "o3-deep-research" // which it knows to search
		}
		fmt.Fprintf(&judges, "%s:%s, ", e.Name, model)
	}
	f.file = f.evaluation("keys", judges.String(), 1, 50)

	seen := f.monitor()
	worker := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--events", "events.jsonl", "--log-level", "debug", "--metrics-addr", "127.0.0.1:0")
	ui := launch(t, f.dir, "ui", "--redis", f.redis.URL(), "--listen", "127.0.0.1:0")
	enqueue := launch(t, f.dir, "enqueue", f.file, "--wait", "--redis", f.redis.URL(), "--out-dir", "out", "--config", "fleet.yaml", "--fail-on", "never")
	if code := enqueue.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	told := map[string]string{"the worker's log": worker.stderr.String() + worker.stdout.String(), "enqueue": enqueue.stderr.String() + enqueue.stdout.String()}
	maps.Copy(told, f.processes(worker, ui))
	id := lastLine(enqueue.stdout.String())
	for _, page := range []string{"/", "/evaluations/" + id, "/limits", "/api/evaluations", "/api/evaluations/" + id, "/api/limits", "/asynqmon/"} {
		told["page "+page] = get(t, ui, page)
	}
	for _, args := range [][]string{{"status", "--json"}, {"limits", "--json"}, {"show", "0.0", "--json"}, {"show", "0.0"}} {
		p := launch(t, f.dir, append(args, "--redis", f.redis.URL())...)
		p.wait()
		told[strings.Join(args, " ")] = p.stdout.String() + p.stderr.String()
	}
	worker.signal(syscall.SIGTERM)
	worker.wait()
	told["commands to Redis"] = seen()
	told["Redis"] = f.dump()
	maps.Copy(told, everyFile(t, f.dir, ".env"))

	// What a provider says gets far, which is why it matters.
	for _, where := range []string{"the worker's log", "commands to Redis", "out/results.db", "out/pairwise_results.csv"} {
		if !strings.Contains(told[where], echo) {
			t.Errorf("%s does not have what the providers said", where)
		}
	}
	for variable, key := range keys {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(key))
		for where, text := range told {
			for _, secret := range []string{key, encoded[:len(encoded)-1]} {
				if at := strings.Index(text, secret); at >= 0 {
					t.Errorf("%s is in %s: …%s…", variable, where, text[max(0, at-200):min(len(text), at+len(secret)+50)])
				}
			}
		}
	}
	providers.mu.Lock()
	defer providers.mu.Unlock()
	if len(providers.loose) > 0 {
		t.Errorf("a key stood beside the headers: %s", providers.loose[0])
	}
	want := map[string][]string{}
	for _, e := range all {
		header := map[string]string{"azure-openai": "Api-Key: ", "anthropic": "X-Api-Key: ", "google": "X-Goog-Api-Key: "}[e.Name]
		if header == "" {
			header = "Authorization: Bearer "
		}
		want[e.Name] = []string{header + keys[e.KeyEnv]}
	}
	if diff := cmp.Diff(want, providers.keys); diff != "" {
		t.Errorf("keys that the providers got (-want +got):\n%s", diff)
	}
}

// monitor listens to every command that Redis gets from now on; what it returns
// ends that and tells them.
func (f *testFleet) monitor() (seen func() string) {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.redis.URL(), "redis://"))
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		f.t.Fatal(err)
	}
	var text strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&text, conn) // until it is closed
	}()
	f.t.Cleanup(func() { _ = conn.Close() })
	return func() string {
		_ = conn.Close()
		<-done
		return text.String()
	}
}

// dump is everything that Redis holds.
func (f *testFleet) dump() string {
	f.t.Helper()
	ctx, client := f.t.Context(), f.redis.Client()
	var all []any
	for keys := client.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
		key := keys.Val()
		var value any
		switch kind := client.Type(ctx, key).Val(); kind {
		case "string":
			value = client.Get(ctx, key).Val()
		case "hash":
			value = client.HGetAll(ctx, key).Val()
		case "list":
			value = client.LRange(ctx, key, 0, -1).Val()
		case "set":
			value = client.SMembers(ctx, key).Val()
		case "zset":
			value = client.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "stream":
			value = client.XRange(ctx, key, "-", "+").Val()
		case "none": // it has gone since the scan
		default:
			f.t.Errorf("%s is a %s", key, kind)
		}
		all = append(all, key, value)
	}
	if len(all) == 0 {
		f.t.Error("Redis holds nothing")
	}
	return fmt.Sprint(all...)
}

// processes are the command lines and environments of programs and their
// children, where the machine shows them.
func (f *testFleet) processes(programs ...*program) map[string]string {
	told := map[string]string{}
	ours := map[string]bool{}
	for _, p := range programs {
		ours[fmt.Sprint(p.cmd.Process.Pid)] = true
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		_, parent, _ := strings.Cut(string(status), "PPid:\t")
		parent, _, _ = strings.Cut(parent, "\n")
		if !ours[filepath.Base(dir)] && !ours[parent] {
			continue
		}
		for _, name := range []string{"cmdline", "environ"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				told[filepath.Join(dir, name)] = string(text)
			}
		}
	}
	if _, err := os.Stat("/proc/self/environ"); err == nil && len(told) < 2*len(programs) {
		f.t.Errorf("only %d of the processes' files were read", len(told))
	}
	return told
}

// everyFile is the contents of every file below a folder but the one named.
func everyFile(t *testing.T, dir, but string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == but {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
