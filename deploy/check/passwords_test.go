package check

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// The password of the database is given to those who open it, and to no other.
func TestChartSinkPassword(t *testing.T) {
	t.Parallel()
	for _, cache := range []bool{false, true} {
		files, err := rendered(t, fmt.Sprintf(`
sink: {url: "postgres://evalfleet@db/evals", existingSecret: postgres}
worker: {cache: %t}
enqueue: {enabled: true, files: {evaluation.yaml: "name: x"}}
`, cache), "Helm")
		if err != nil {
			t.Fatal(err)
		}
		delete(files, "NOTES.txt")
		given := map[string]string{}
		for _, w := range decoded(t, files).workloads {
			given[w.part] = environment(w)["PGPASSWORD"]
		}
		want := map[string]string{"controller": "secret postgres", "enqueue": "secret postgres", "redis": "", "test": "", "worker": ""}
		if cache {
			want["worker"] = "secret postgres"
		}
		if diff := cmp.Diff(want, given); diff != "" {
			t.Errorf("cache: %t: PGPASSWORD (-want +got):\n%s", cache, diff)
		}
	}
}

// The chart's Redis has a password: a random one, which upgrades keep, unless the values
// name a Secret.
func TestChartRedisPassword(t *testing.T) {
	t.Parallel()
	made := func(values string, there *corev1.Secret) *corev1.Secret {
		t.Helper()
		files, err := renderedOver(t, values, "Helm", there)
		if err != nil {
			t.Fatal(err)
		}
		notes := files["NOTES.txt"]
		delete(files, "NOTES.txt")
		c := decoded(t, files)
		secrets := all[*corev1.Secret](c)
		if len(secrets) == 0 {
			return nil
		}
		secret := secrets[0]
		for _, w := range c.workloads {
			if w.part == "redis" {
				if from := secretOfRedis(w); from.SecretName != secret.Name || secret.Data[from.Items[0].Key] == nil {
					t.Errorf("redis reads its password from %+v, want the Secret %s with %v", from, secret.Name, slices.Collect(maps.Keys(secret.Data)))
				}
				continue
			}
			name := "EVALFLEET_REDIS_PASSWORD"
			if got := environment(w)[name]; got != "secret "+secret.Name {
				t.Errorf("%s takes %s from %q, want the Secret %s", w.name, name, got, secret.Name)
			}
			for _, e := range w.container().Env {
				if from := e.ValueFrom; e.Name == name && from != nil && from.SecretKeyRef != nil && secret.Data[from.SecretKeyRef.Key] == nil {
					t.Errorf("%s reads %s, which the Secret has not: %v", w.name, from.SecretKeyRef.Key, slices.Collect(maps.Keys(secret.Data)))
				}
			}
		}
		for key, password := range secret.Data {
			if len(password) < 32 || strings.Count(fmt.Sprint(files, notes), string(password)) > 0 {
				t.Errorf("%s is %q, want 32 characters, which are only in the Secret", key, password)
			}
		}
		// A new password, from a renderer that does not see the cluster, is refused there
		// instead of locking the fleet out.
		if secret.Immutable == nil || !*secret.Immutable {
			t.Error("the Secret can be changed")
		}
		return secret
	}

	first, second := made("", nil), made("", nil)
	if first == nil || second == nil {
		t.Fatal("no Secret is made: Redis has no password")
	}
	if cmp.Equal(first.Data, second.Data) {
		t.Errorf("two installations have the same password: %s", first.Data)
	}
	first.Namespace = "evals"
	for _, values := range []string{"", "worker: {replicas: 3}"} {
		if upgraded := made(values, first); upgraded == nil || !cmp.Equal(first.Data, upgraded.Data) {
			t.Errorf("an upgrade makes %v of %s", upgraded, first.Data)
		}
	}
	made("redis: {password: {key: pass}}", nil)
	for name, want := range map[string]string{"a password of its own redis": "secret redis", "redis by its url": "", "another redis and postgres": ""} {
		if secret := made(options[name], nil); secret != nil {
			t.Errorf("%s: a Secret is made: %v", name, secret)
		}
		files, err := rendered(t, options[name], "Helm")
		if err != nil {
			t.Fatal(err)
		}
		delete(files, "NOTES.txt")
		for _, w := range decoded(t, files).workloads {
			if got := environment(w)["EVALFLEET_REDIS_PASSWORD"]; got != want && w.part != "redis" {
				t.Errorf("%s: %s takes the password from %q, want %q", name, w.name, got, want)
			}
		}
	}
}

// Redis of the chart, started and asked for its readiness by the chart's own commands, has the
// password of the Secret byte for byte, finds it neither in its arguments nor in its environment,
// and does not start without one.
func TestChartRedisHidesItsPassword(t *testing.T) {
	t.Parallel()
	files, err := rendered(t, "", "Helm")
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "NOTES.txt")
	redis := decoded(t, files).parts("redis")[0]
	server, err := exec.LookPath(gocmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"))
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}

	// In front of redis-server is a script that writes down what it is given: Redis itself overwrites its arguments.
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("redis-server", fmt.Sprintf("#!/bin/sh\n{ printf '%%s\\n' \"$@\"; env; } >'%s/given'\nexec '%s' \"$@\"\n", dir, server), 0o755)
	here := func(command []string, more ...string) *exec.Cmd {
		words := strings.Split(strings.ReplaceAll(strings.Join(command, "\x00"), secretsOfRedis, dir), "\x00")
		made := exec.Command(words[0], append(words[1:], more...)...)
		made.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		return made
	}
	options := append(slices.Clone(redis.container().Args), "--port", port)
	options[slices.Index(options, "--dir")+1] = t.TempDir()
	probe := slices.Clone(redis.container().ReadinessProbe.Exec.Command)
	probe[len(probe)-1] = strings.ReplaceAll(probe[len(probe)-1], "redis-cli ", "redis-cli -p "+port+" ")

	for _, password := range []string{"plain-0123456789abcdef", "say \"a\\b\" $(id) `id` %s é'\n", strings.Repeat("long", 100)} {
		write("password", password, 0o600)
		running := here(redis.container().Command, options...)
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(func() {
			_ = running.Process.Signal(syscall.SIGTERM)
			_ = running.Wait()
		})
		t.Cleanup(stop)
		eventually(t, "redis is ready", func() error {
			if out, err := here(probe).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})

		given, err := os.ReadFile(filepath.Join(dir, "given"))
		if err != nil || !strings.Contains(string(given), "--appendonly") || strings.Contains(string(given), strings.TrimSpace(password)) {
			t.Errorf("redis-server is given %q, %v; want no password", given, err)
		}
		if out, err := status(t, "redis://"+address, password); err != nil {
			t.Errorf("with the password of the Secret, %q: %v, %s", password, err, out)
		}
		if out, err := status(t, "redis://"+address, password+"x"); err == nil {
			t.Errorf("with another password than %q: %s", password, out)
		}
		stop()
	}

	write("password", "", 0o600)
	if out, err := here(redis.container().Command, options...).CombinedOutput(); err == nil || !strings.Contains(string(out), "the password of Redis is empty") {
		t.Errorf("redis with an empty password: %v, %s", err, out)
	}
}

// In the upgrade that gives Redis its password, new workers reach the one without.
func TestPasswordBeforeRedisHasOne(t *testing.T) {
	t.Parallel()
	with := privateRedis(t, "--requirepass", "")
	if out, err := status(t, "redis://"+with[strings.LastIndex(with, "@")+1:], "new"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
