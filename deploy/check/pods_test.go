package check

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

// wantRestricted is the restricted Pod Security Standard, and a root that cannot
// be written.
func wantRestricted(t *testing.T, w workload) {
	t.Helper()
	pod := w.pod.Spec
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: its pods are not restricted: %+v", w.name, s)
	}
	if w.part != "redis" && *s.RunAsUser != 65532 {
		t.Errorf("%s runs as %d, want the image's 65532", w.name, *s.RunAsUser)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s: its pods get a token that they do not need", w.name)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Errorf("%s: services put variables into its environment", w.name)
	}
	c := w.container()
	if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
		t.Errorf("%s: container %s is not restricted: %+v", w.name, c.Name, s)
	}
	limit := c.Resources.Limits.Memory()
	if c.Resources.Requests.Memory().IsZero() || limit.IsZero() || c.Resources.Requests.Memory().Cmp(*limit) > 0 {
		t.Errorf("%s: container %s has no bound of memory", w.name, c.Name)
	}
	if w.part == "redis" {
		return
	}
	var soft int64
	if _, err := fmt.Sscanf(environment(w)["GOMEMLIMIT"], "%dMiB", &soft); err != nil {
		t.Errorf("%s: GOMEMLIMIT: %v", w.name, err)
	}
	if of := float64(soft<<20) / float64(limit.Value()); of < 0.85 || of > 0.9 {
		t.Errorf("%s: GOMEMLIMIT is %.2f of the limit of memory, want nine tenths", w.name, of)
	}
}

// wantReferences: what a pod mounts and reads is made here, or is a Secret or an
// optional object that others manage.
func wantReferences(t *testing.T, c *cluster, w workload) {
	t.Helper()
	pod := w.pod.Spec
	accounts := map[string]bool{"default": true}
	for _, account := range all[*corev1.ServiceAccount](c) {
		accounts[account.Name] = true
	}
	if !accounts[pod.ServiceAccountName] {
		t.Errorf("%s runs as %s, which is not here", w.name, pod.ServiceAccountName)
	}
	claims := map[string]bool{}
	for _, claim := range all[*corev1.PersistentVolumeClaim](c) {
		claims[claim.Name] = true
	}
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
		if volume.ConfigMap != nil && c.maps[volume.ConfigMap.Name] == nil {
			t.Errorf("%s mounts the ConfigMap %s, which is not here", w.name, volume.ConfigMap.Name)
		}
		if claim := volume.PersistentVolumeClaim; claim != nil && !claims[claim.ClaimName] {
			t.Errorf("%s mounts the claim %s, which is not here", w.name, claim.ClaimName)
		}
	}
	if set, ok := w.object.(*appsv1.StatefulSet); ok {
		for _, claim := range set.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = true
		}
	}
	mounted := map[string]bool{}
	for _, mount := range w.container().VolumeMounts {
		if mounted[mount.MountPath] = true; !volumes[mount.Name] {
			t.Errorf("%s mounts %s, which is no volume of it", w.name, mount.Name)
		}
	}
	if w.part == "redis" {
		return
	}
	env := environment(w)
	for _, file := range []string{w.flag("auth-file"), env["EVALFLEET_CONFIG"], env["EVALFLEET_REDIS_CA"], env["EVALFLEET_REDIS_CERT"], env["EVALFLEET_REDIS_KEY"]} {
		if file != "" && !mounted[path.Dir(file)] {
			t.Errorf("%s reads %s, where nothing is mounted", w.name, file)
		}
	}
}

// environment is what a container finds there: the value of a Secret is its name.
func environment(w workload) map[string]string {
	env := map[string]string{}
	for _, e := range w.container().Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			env[e.Name] = "secret " + e.ValueFrom.SecretKeyRef.Name
		}
	}
	return env
}

func wantProbes(t *testing.T, w workload) {
	t.Helper()
	c := w.container()
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/healthz ": c.StartupProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != strings.TrimSpace(path) || !hasPort(c, probe.HTTPGet.Port.StrVal) {
			t.Errorf("%s: want a probe of %s, got %+v; a restart does not bring Redis back", w.name, path, probe)
		}
	}
	if address := w.flag("metrics-addr"); address != ":9090" { // by default, only the pod itself reaches them
		t.Errorf("%s serves probes and metrics on %q, want :9090", w.name, address)
	}
}

func wantRedis(t *testing.T, w workload) {
	t.Helper()
	limits := w.container().Resources.Limits
	wantKept(t, w.container().Args, limits.Memory().Value())
	if set, ok := w.object.(*appsv1.StatefulSet); !ok || len(set.Spec.VolumeClaimTemplates) == 0 {
		t.Error("redis wants a volume of its own")
	}
	if ready := strings.Join(w.container().ReadinessProbe.Exec.Command, " "); !strings.Contains(ready, "grep -q PONG") {
		t.Errorf("redis is ready by %q: redis-cli ends with 0 after an error reply, too", ready)
	}
	if env := environment(w); len(env) > 0 {
		t.Errorf("redis has variables, %v: its password is to be in a file", env)
	}
	if from := secretOfRedis(w); len(from.Items) != 1 || from.Items[0].Path != "password" {
		t.Errorf("redis is given %+v, want one file with its password", from)
	}
}

// secretsOfRedis is the folder with the file of Redis' password.
const secretsOfRedis = "/run/secrets/redis"

// secretOfRedis returns the Secret that is mounted there, which is empty if none is.
func secretOfRedis(w workload) corev1.SecretVolumeSource {
	for _, mount := range w.container().VolumeMounts {
		for _, volume := range w.pod.Spec.Volumes {
			if mount.MountPath == secretsOfRedis && volume.Name == mount.Name && volume.Secret != nil {
				return *volume.Secret
			}
		}
	}
	return corev1.SecretVolumeSource{}
}

// wantEvaluation: what a job submits is an evaluation that the program accepts.
func wantEvaluation(t *testing.T, c *cluster, w workload) {
	t.Helper()
	if w.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%s: restarts %s, which drops the log of a failure; want Never", w.name, w.pod.Spec.RestartPolicy)
	}
	for _, job := range all[*batchv1.Job](c) {
		policy := job.Spec.PodFailurePolicy
		if job.Name != w.name || policy == nil || len(policy.Rules) != 1 {
			t.Errorf("%s: pod failure policy %v, want one rule", job.Name, policy)
			continue
		}
		rule := policy.Rules[0]
		if rule.Action != batchv1.PodFailurePolicyActionFailJob || rule.OnExitCodes == nil || !slices.Equal(rule.OnExitCodes.Values, []int32{2}) {
			t.Errorf("%s: %v; want exit code 2, that of wrong files, to fail the job at once", job.Name, rule)
		}
	}
	for _, volume := range w.pod.Spec.Volumes {
		if volume.Name != "evaluation" || volume.ConfigMap == nil {
			continue
		}
		files := maps.Clone(c.maps[volume.ConfigMap.Name].Data)
		if file := w.container().Args[1]; files[path.Base(file)] == "" {
			t.Errorf("%s submits %s, which is not there", w.name, file)
		}
		files["fleet.yaml"] = c.fleet()
		wantValid(t, files)
	}
}
