package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
)

// project is docker-compose.yml as docker compose loads it, with some profiles, or
// with every one.
func project(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	if len(profiles) == 0 {
		profiles = []string{"*"}
	}
	p, err := loaded(t, composePasswords, profiles...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// composePasswords are the variables without which docker compose refuses to start.
var composePasswords = map[string]string{
	"REDIS_PASSWORD": "password-of-redis", "PGPASSWORD": "password-of-postgres", "GRAFANA_PASSWORD": "password-of-grafana",
}

// loaded is docker-compose.yml with variables of the environment.
func loaded(t *testing.T, env map[string]string, profiles ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")},
		cli.WithProfiles(profiles), cli.WithName("evalfleet"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(options.Environment, env)
	return options.LoadProject(t.Context())
}

// asMap drops variables without a value.
func asMap(env types.MappingWithEquals) map[string]string {
	all := map[string]string{}
	for name, value := range env {
		if value != nil {
			all[name] = *value
		}
	}
	return all
}

func TestCompose(t *testing.T) {
	t.Parallel()
	p := project(t)
	for name, service := range p.Services {
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published on %q, want this machine only", name, port.Published, port.HostIP)
			}
		}
		wantBound(t, service)
		if !strings.HasPrefix(service.Image, "evalfleet:") {
			continue
		}
		args := service.Command
		if len(service.Entrypoint) > 0 {
			args = append(slices.Clone(service.Entrypoint[1:]), args...)
		}
		wantCommand(t, args, asMap(service.Environment))
		switch test := service.HealthCheck; {
		case test == nil:
			t.Errorf("%s: it would be checked as the image's worker is; say how, or disable it", name)
		case !test.Disable:
			if len(test.Test) < 3 || test.Test[0] != "CMD" || test.Test[1] != "evalfleet" {
				t.Errorf("%s: the check is %v, want CMD evalfleet …: the image has no shell", name, test.Test)
			} else {
				wantCommand(t, test.Test[2:], nil)
			}
		}
		if service.Build == nil || !exists(service.Build.Context, service.Build.Dockerfile) {
			t.Errorf("%s: its image is not built from the Dockerfile here: %+v", name, service.Build)
		}
	}

	wantKept(t, p.Services["redis"].Command, int64(p.Services["redis"].MemLimit))
	if p.Services["redis"].HealthCheck == nil || len(p.Services["redis"].Volumes) == 0 {
		t.Error("redis wants a check and a volume")
	}

	postgres := p.Services["postgres"]
	if postgres.HealthCheck == nil || len(postgres.Volumes) != 1 || len(postgres.Ports) != 0 {
		t.Errorf("postgres wants a check, a volume and no port on this machine: %+v", postgres)
	}
	if of := asMap(p.Services["controller"].Environment)["PGPASSWORD"]; of == "" || of != asMap(postgres.Environment)["POSTGRES_PASSWORD"] {
		t.Errorf("controller gives the password %q, want postgres's", of)
	}

	if controller := p.Services["controller"]; len(controller.Volumes) != 1 || controller.Volumes[0].ReadOnly {
		t.Errorf("controller writes %+v; want a volume for what it drains", controller.Volumes)
	}

	worker := p.Services["worker"]
	if worker.StopGracePeriod == nil || worker.Deploy == nil || worker.Deploy.Replicas == nil || *worker.Deploy.Replicas < 2 {
		t.Fatalf("worker: want replicas and stop_grace_period: %+v", worker)
	}
	fleet, err := os.ReadFile(p.Configs["fleet"].File)
	if err != nil {
		t.Fatal(err)
	}
	wantGrace(t, string(fleet), worker.Command, time.Duration(*worker.StopGracePeriod))
	if len(worker.EnvFiles) != 1 || bool(worker.EnvFiles[0].Required) {
		t.Errorf("worker: its keys come from %+v, want a file that need not exist", worker.EnvFiles)
	}
}

// wantBound: a service may no more than it needs, and cannot take the machine's memory.
// The entrypoints of redis and postgres, started as root, change owners and users, for
// which they would need capabilities.
func wantBound(t *testing.T, service types.ServiceConfig) {
	t.Helper()
	if !service.ReadOnly || service.Privileged || !slices.Equal(service.CapDrop, []string{"ALL"}) || len(service.CapAdd) > 0 ||
		!slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s may more than it needs: %+v", service.Name, service)
	}
	if service.MemLimit < 256<<20 || service.MemLimit > 2<<30 {
		t.Errorf("%s may use %d bytes of memory, want a limit from 256 MB to 2 GB", service.Name, service.MemLimit)
	}
	switch service.Name {
	case "redis", "postgres":
		if service.User != "999:999" {
			t.Errorf("%s starts as %q, want 999:999, the image's own user", service.Name, service.User)
		}
	case "prometheus", "grafana": // their images name a user
	default:
		limit := fmt.Sprintf("%dMiB", (int64(service.MemLimit)-received(t, service))*9/10>>20)
		if of := asMap(service.Environment)["GOMEMLIMIT"]; of != limit {
			t.Errorf("%s has GOMEMLIMIT %q, want nine tenths of its limit without the files it receives, %s", service.Name, of, limit)
		}
	}
}

// received returns how much of a service's memory the files that it receives may take, in bytes:
// those of a /tmp that is larger than the 64 MB of all services.
func received(t *testing.T, service types.ServiceConfig) int64 {
	t.Helper()
	for _, mount := range service.Tmpfs {
		text, isTmp := strings.CutPrefix(mount, "/tmp:size=")
		if !isTmp {
			continue
		}
		megabytes, err := strconv.ParseInt(strings.TrimSuffix(text, "m"), 10, 64)
		if err != nil {
			t.Errorf("%s: the size of %s: %v", service.Name, mount, err)
		}
		if megabytes > 64 {
			return megabytes << 20
		}
	}
	return 0
}

// Every server wants a password, which has no default, and those who connect have it.
func TestComposePasswords(t *testing.T) {
	t.Parallel()
	for name := range composePasswords {
		for _, empty := range []bool{true, false} {
			env := maps.Clone(composePasswords)
			delete(env, name)
			if empty {
				env[name] = ""
			}
			if _, err := loaded(t, env); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "sh deploy/compose/passwords.sh") {
				t.Errorf("%s empty: %t: loaded with %v, want an error that says what to do", name, empty, err)
			}
		}
	}

	has := map[string][]string{}
	for name, service := range project(t).Services {
		text := fmt.Sprint(service.Command, asMap(service.Environment))
		for variable, value := range composePasswords {
			if strings.Contains(text, value) {
				has[variable] = append(has[variable], name)
			}
		}
	}
	for _, names := range has {
		slices.Sort(names)
	}
	want := map[string][]string{
		"REDIS_PASSWORD": {"controller", "enqueue", "redis", "worker"},
		"PGPASSWORD":     {"controller", "enqueue", "postgres"}, "GRAFANA_PASSWORD": {"grafana"},
	}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("services with a password (-want +got):\n%s", diff)
	}
	p := project(t)
	redis := p.Services["redis"]
	if check := strings.Join(redis.HealthCheck.Test, " "); !strings.Contains(check, "grep -q PONG") || asMap(redis.Environment)["REDISCLI_AUTH"] == "" {
		t.Errorf("redis is healthy by %q: redis-cli ends with 0 after an error reply, such as that of a wrong password", check)
	}
	for name, value := range map[string]*string{"GRAFANA_PASSWORD": p.Services["worker"].Environment["GRAFANA_PASSWORD"], "PGPASSWORD": p.Services["worker"].Environment["PGPASSWORD"]} {
		if value == nil || *value != "" {
			t.Errorf("workers get %s of .env", name)
		}
	}
}

// Redis with the options of docker-compose.yml refuses commands without the password.
func TestComposeRedisRefuses(t *testing.T) {
	t.Parallel()
	with := privateRedis(t)
	without := "redis://" + with[strings.LastIndex(with, "@")+1:]
	if out, err := status(t, without, ""); err == nil || !strings.Contains(out, "password") {
		t.Errorf("without a password: %v, %s", err, out)
	}
	worker := asMap(project(t).Services["worker"].Environment)
	if out, err := status(t, without, worker["EVALFLEET_REDIS_PASSWORD"]); err != nil {
		t.Errorf("with the workers' password: %v, %s", err, out)
	}
}

// status is what `evalfleet status` prints of a Redis.
func status(t *testing.T, address, password string) (string, error) {
	t.Helper()
	command := exec.Command(program(t), "status", "--redis", address)
	command.Env = append(os.Environ(), "EVALFLEET_REDIS_PASSWORD="+password)
	out, err := command.CombinedOutput()
	return string(out), err
}

// The documented command writes passwords that are not there yet, and leaves the rest of
// .env as it is.
func TestComposePasswordsAreMade(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join(root, "deploy/compose/passwords.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, ".env")
	run := func() map[string]string {
		command := exec.Command("sh", script)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		values, err := dotenv.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v: others may read .env", info.Mode(), err)
		}
		return values
	}

	first := run()
	seen := map[string]bool{}
	for name := range composePasswords {
		if value := first[name]; !regexp.MustCompile(`^[0-9a-f]{48}$`).MatchString(value) || seen[value] {
			t.Errorf("%s is %q, want 48 random hexadecimal digits of its own", name, value)
		} else {
			seen[value] = true
		}
	}
	if _, err := loaded(t, first, "*"); err != nil {
		t.Error(err)
	}
	if again := run(); !maps.Equal(first, again) {
		t.Errorf("the second run made %v of %v", again, first)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	text := "# mine\nPGPASSWORD='old'\nREDIS_PASSWORD=\nGRAFANA_PASSWORD=\"\"\nOPENAI_API_KEY=sk-test" // without an end of line
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	mine := run()
	if mine["PGPASSWORD"] != "old" || mine["OPENAI_API_KEY"] != "sk-test" || len(mine["REDIS_PASSWORD"]) != 48 || len(mine["GRAFANA_PASSWORD"]) != 48 {
		t.Errorf("of a file with a key and a password it made %v", mine)
	}
}

// Each profile can be started by itself: what its services wait for starts with them,
// and the files that they are given are here.
func TestComposeEachProfile(t *testing.T) {
	t.Parallel()
	profiles := map[string]bool{"none": true}
	for _, service := range project(t).Services {
		for _, profile := range service.Profiles {
			profiles[profile] = true
		}
		if !pinned.MatchString(service.Image) && !strings.HasPrefix(service.Image, "evalfleet:") {
			t.Errorf("%s: the image %s may be another tomorrow", service.Name, service.Image)
		}
	}
	for profile := range profiles {
		p := project(t, profile)
		for _, service := range p.Services {
			for _, volume := range service.Volumes {
				if volume.Type == types.VolumeTypeBind && !exists(volume.Source) {
					t.Errorf("%s: %s mounts %s, which is not here", profile, service.Name, volume.Source)
				}
			}
			for _, given := range service.Configs {
				if !exists(p.Configs[given.Source].File) {
					t.Errorf("%s: %s is given %s, which is not here", profile, service.Name, p.Configs[given.Source].File)
				}
			}
		}
	}
	if len(profiles) != 5 {
		t.Errorf("profiles %v, want tools, postgres, simulator, observability and none", profiles)
	}
}

// pinned is an image whose version is named.
var pinned = regexp.MustCompile(`^[a-z/]+:v?[0-9][0-9.]*$`)

// The services that start without a profile are the fleet; the others are asked
// for.
func TestComposeProfiles(t *testing.T) {
	t.Parallel()
	for name, service := range project(t).Services {
		want := slices.Contains([]string{"redis", "worker", "controller"}, name)
		if got := len(service.Profiles) == 0; got != want {
			t.Errorf("%s starts without a profile: %t, want %t", name, got, want)
		}
	}
}

func exists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(parts...))
	return err == nil
}
