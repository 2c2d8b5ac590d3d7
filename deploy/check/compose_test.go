package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project is docker-compose.yml as docker compose loads it, with some profiles, or
// with every one.
func project(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	if len(profiles) == 0 {
		profiles = []string{"*"}
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")},
		cli.WithProfiles(profiles), cli.WithName("evalfleet"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
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
		if name == "redis" || name == "postgres" {
			continue
		}
		wantBound(t, service)
		if name == "prometheus" || name == "grafana" {
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

// wantBound: a service may no more than it needs.
func wantBound(t *testing.T, service types.ServiceConfig) {
	t.Helper()
	if !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s may more than it needs: %+v", service.Name, service)
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
