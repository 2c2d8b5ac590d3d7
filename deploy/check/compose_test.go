package check

import (
	"cmp"
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
	gocmp "github.com/google/go-cmp/cmp"
)

// project is docker-compose.yml as docker compose loads it, with some profiles, or
// with every one.
func project(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	if len(profiles) == 0 {
		profiles = []string{"*"}
	}
	p, err := loaded(t, composeEnv, profiles...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// composeEnv is what deploy/compose/passwords.sh writes to .env.
var composeEnv = map[string]string{"FLEET_SECRETS": ".secrets"}

// loaded is docker-compose.yml with variables of the environment.
func loaded(t *testing.T, env map[string]string, profiles ...string) (*types.Project, error) {
	t.Helper()
	return loadedFrom(t, []string{"docker-compose.yml"}, env, profiles...)
}

// loadedFrom is what docker compose loads from several files.
func loadedFrom(t *testing.T, files []string, env map[string]string, profiles ...string) (*types.Project, error) {
	t.Helper()
	var paths []string
	for _, file := range files {
		paths = append(paths, filepath.Join(root, file))
	}
	options, err := cli.NewProjectOptions(paths, cli.WithProfiles(profiles), cli.WithName("evalfleet"))
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
		switch builds := service.Build != nil; {
		case builds != (name == "worker"):
			t.Errorf("%s builds the image: %t; want one service that does, or several builds race", name, builds)
		case !builds && service.PullPolicy != types.PullPolicyNever:
			t.Errorf("%s: the image that worker builds is looked for in a registry: %q", name, service.PullPolicy)
		case builds && !exists(service.Build.Context, service.Build.Dockerfile):
			t.Errorf("%s: its image is not built from the Dockerfile here: %+v", name, service.Build)
		case builds && service.Build.Args["VERSION"] == nil:
			t.Errorf("%s: the build is not told its version", name)
		}
		if service.Image != p.Services["worker"].Image {
			t.Errorf("%s runs %s, which no service builds", name, service.Image)
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
	if check := strings.Join(postgres.HealthCheck.Test, " "); !strings.Contains(check, "--host 127.0.0.1") {
		t.Errorf("postgres is healthy by %q: while it prepares a database, its socket answers already", check)
	}
	for _, name := range []string{"controller", "enqueue"} {
		if on := p.Services[name].DependsOn["postgres"]; on.Condition != types.ServiceConditionHealthy || on.Required {
			t.Errorf("%s depends on postgres with %+v, want: until it is healthy, if it runs", name, on)
		}
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

// Every server wants a password, which has no default, and those who connect have it, in files: process lists and
// docker inspect show none.
func TestComposePasswords(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{{}, {"FLEET_SECRETS": ""}} {
		if _, err := loaded(t, env); err == nil || !strings.Contains(err.Error(), "FLEET_SECRETS") ||
			!strings.Contains(err.Error(), "sh deploy/compose/passwords.sh") {
			t.Errorf("%v: loaded with %v, want an error that says what to do", env, err)
		}
	}

	for _, cache := range []string{"", "postgres://evalfleet@postgres/evalfleet"} {
		p, err := loaded(t, map[string]string{"FLEET_SECRETS": ".secrets", "EVALFLEET_CACHE": cache}, "*")
		if err != nil {
			t.Fatal(err)
		}
		has := map[string][]string{} // of each service the files, as TARGET < FILE
		for name, service := range p.Services {
			for _, secret := range service.Secrets {
				target := filepath.Base(cmp.Or(secret.Target, secret.Source))
				has[name] = append(has[name], target+" < "+filepath.Base(p.Secrets[secret.Source].File))
			}
			slices.Sort(has[name])
		}
		own := "pgpass < worker"
		if cache != "" {
			own = "pgpass < worker-cache"
		}
		want := map[string][]string{
			"redis":      {"redis < redis", "redis.conf < redis.conf"},
			"worker":     {own, "redis < redis"},
			"controller": {"pgpass < pgpass", "redis < redis"},
			"enqueue":    {"pgpass < pgpass", "redis < redis"},
			"postgres":   {"postgres < postgres"},
			"grafana":    {"grafana < grafana"},
		}
		if diff := gocmp.Diff(want, has); diff != "" {
			t.Errorf("cache %q: files with passwords (-want +got):\n%s", cache, diff)
		}
		if got := asMap(p.Services["worker"].Environment)["EVALFLEET_CACHE"]; got != cache {
			t.Errorf("workers have the cache %q, want %q", got, cache)
		}
	}

	p := project(t)
	for service, want := range map[string]map[string]string{
		"worker":     {"EVALFLEET_REDIS_PASSWORD_FILE": "/run/secrets/redis", "PGPASSFILE": "/run/secrets/pgpass"},
		"controller": {"EVALFLEET_REDIS_PASSWORD_FILE": "/run/secrets/redis", "PGPASSFILE": "/run/secrets/pgpass"},
		"enqueue":    {"EVALFLEET_REDIS_PASSWORD_FILE": "/run/secrets/redis", "PGPASSFILE": "/run/secrets/pgpass"},
		"postgres":   {"POSTGRES_PASSWORD_FILE": "/run/secrets/postgres"},
		"grafana":    {"GF_SECURITY_ADMIN_PASSWORD__FILE": "/run/secrets/grafana"},
	} {
		for variable, file := range want {
			if got := asMap(p.Services[service].Environment)[variable]; got != file {
				t.Errorf("%s: %s is %q, want %s", service, variable, got, file)
			}
		}
	}
	if args := p.Services["redis"].Command; args[1] != "/run/secrets/redis.conf" {
		t.Errorf("redis reads its password not from a file: %v", args)
	}
	if check := strings.Join(p.Services["redis"].HealthCheck.Test, " "); !strings.Contains(check, "grep -q PONG") || !strings.Contains(check, "REDISCLI_AUTH=") {
		t.Errorf("redis is healthy by %q: redis-cli ends with 0 after an error reply, such as that of a wrong password", check)
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
	if out, err := status(t, without, redisPassword); err != nil {
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
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (made, env map[string]string) {
		command := exec.Command("sh", script)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for path, mode := range map[string]os.FileMode{".env": 0o600, ".secrets": 0o700} {
			if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%v, %v: others may read %s", info.Mode(), err, path)
			}
		}
		made = map[string]string{}
		for _, secret := range project(t).Secrets {
			path := filepath.Join(dir, ".secrets", filepath.Base(secret.File))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("%s: %v, %v: the users of containers may not read it", path, info.Mode(), err)
			}
			made[filepath.Base(path)] = string(text)
		}
		if env, err = dotenv.Read(filepath.Join(dir, ".env")); err != nil {
			t.Fatal(err)
		}
		return made, env
	}

	first, env := run()
	seen := map[string]bool{}
	for _, name := range []string{"redis", "postgres", "grafana"} {
		if value := first[name]; !regexp.MustCompile(`^[0-9a-f]{48}$`).MatchString(value) || seen[value] {
			t.Errorf("%s is %q, want 48 random hexadecimal digits of its own", name, value)
		} else {
			seen[value] = true
		}
	}
	if first["redis.conf"] != `requirepass "`+first["redis"]+"\"\n" || first["pgpass"] != "*:*:*:*:"+first["postgres"]+"\n" || first["worker"] != "" {
		t.Errorf("the files that servers read are %q", first)
	}
	if _, err := loaded(t, env, "*"); err != nil {
		t.Error(err)
	}
	if again, _ := run(); !maps.Equal(first, again) {
		t.Errorf("the second run made %v of %v", again, first)
	}

	write(".secrets/postgres", `a:b\c`+"\n")
	write(".secrets/redis", `say "a\b"`+"\n")
	changed, _ := run()
	if changed["pgpass"] != `*:*:*:*:a\:b\\c`+"\n" || changed["redis.conf"] != `requirepass "say \"a\\b\""`+"\n" {
		t.Errorf("of passwords that were edited it made %q", changed)
	}

	if err := os.RemoveAll(filepath.Join(dir, ".secrets")); err != nil {
		t.Fatal(err)
	}
	write(".env", "# mine\nPGPASSWORD='old'\nREDIS_PASSWORD=\nGRAFANA_PASSWORD=\"\"\nOPENAI_API_KEY=sk-test") // without an end of line
	earlier, mine := run()
	if earlier["postgres"] != "old" || mine["OPENAI_API_KEY"] != "sk-test" || mine["FLEET_SECRETS"] != ".secrets" ||
		len(earlier["redis"]) != 48 || len(earlier["grafana"]) != 48 {
		t.Errorf("of a file with a key and a password it made %v and %v", mine, earlier)
	}
}

// deploy/compose/released.yaml runs the image of a release, which is not built.
func TestComposeReleased(t *testing.T) {
	t.Parallel()
	files := []string{"docker-compose.yml", "deploy/compose/released.yaml"}
	for tag, want := range map[string]string{"": newest.FindStringSubmatch(read(t, "CHANGELOG.md"))[1], "1.2.3": "1.2.3"} {
		p, err := loadedFrom(t, files, map[string]string{"FLEET_SECRETS": ".secrets", "EVALFLEET_TAG": tag}, "*")
		if err != nil {
			t.Fatal(err)
		}
		image := parsed[release](t, ".goreleaser.yaml").DockersV2[0].Images[0] + ":" + want
		for name, service := range project(t).Services {
			if !strings.HasPrefix(service.Image, "evalfleet:") {
				continue
			}
			if of := p.Services[name]; of.Image != image || of.Build != nil || of.PullPolicy != types.PullPolicyMissing {
				t.Errorf("%s: image %s, pulled %s, built %v; want %s", name, of.Image, of.PullPolicy, of.Build, image)
			}
		}
	}
}

// What a service of evalfleet needs of its surroundings: a name for this machine, and no .env that its user may not read.
func TestComposeSurroundings(t *testing.T) {
	t.Parallel()
	p := project(t)
	for _, name := range []string{"worker", "enqueue"} {
		if hosts := p.Services[name].ExtraHosts["host.docker.internal"]; !slices.Equal(hosts, []string{"host-gateway"}) {
			t.Errorf("%s: host.docker.internal is %v; Linux resolves no such name", name, hosts)
		}
	}

	enqueue := p.Services["enqueue"]
	at := slices.IndexFunc(enqueue.Configs, func(c types.ServiceConfigObjConfig) bool {
		return c.Target == asMap(enqueue.Environment)["EVALFLEET_ENV_FILE"]
	})
	if at < 0 {
		t.Fatalf("enqueue reads .env of the folder that is mounted: %v", enqueue.Configs)
	}
	raw, err := os.ReadFile(p.Configs[enqueue.Configs[at].Source].File)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := dotenv.UnmarshalBytesWithLookup(raw, nil); err != nil || len(values) > 0 {
		t.Errorf("enqueue is given %v, %v", values, err)
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
