package check

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

// manifests decodes every file of deploy/k8s but the kustomization strictly:
// unknown, misspelt and duplicate fields are errors.
func manifests(t *testing.T) map[string][]runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	paths, err := filepath.Glob(filepath.Join(root, "deploy/k8s/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]runtime.Object{}
	for _, path := range paths {
		name := filepath.Base(path)
		if name == "kustomization.yaml" {
			continue
		}
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(read(t, "deploy/k8s/"+name))))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			object, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[name] = append(all[name], object)
		}
	}
	return all
}

// workload is whatever makes pods.
type workload struct {
	name     string
	selector *metav1.LabelSelector // nil: a job's
	pod      corev1.PodTemplateSpec
	object   runtime.Object
}

func workloads(all map[string][]runtime.Object) map[string]workload {
	found := map[string]workload{}
	for _, objects := range all {
		for _, object := range objects {
			switch o := object.(type) {
			case *appsv1.Deployment:
				found[o.Name] = workload{o.Name, o.Spec.Selector, o.Spec.Template, o}
			case *appsv1.StatefulSet:
				found[o.Name] = workload{o.Name, o.Spec.Selector, o.Spec.Template, o}
			case *batchv1.Job:
				found[o.Name] = workload{o.Name, nil, o.Spec.Template, o}
			}
		}
	}
	return found
}

func configMaps(all map[string][]runtime.Object) map[string]*corev1.ConfigMap {
	found := map[string]*corev1.ConfigMap{}
	for _, objects := range all {
		for _, object := range objects {
			if o, ok := object.(*corev1.ConfigMap); ok {
				found[o.Name] = o
			}
		}
	}
	return found
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	maps, running := configMaps(all), workloads(all)
	for _, name := range []string{"redis", "worker", "controller", "enqueue"} {
		if _, ok := running[name]; !ok {
			t.Fatalf("no workload is called %s", name)
		}
	}
	for name, w := range running {
		wantRestricted(t, w)
		if w.selector != nil {
			wantSelected(t, w.name, w.selector, w.pod.Labels)
		}
		if name == "redis" {
			continue
		}
		container := w.pod.Spec.Containers[0]
		wantCommand(t, container.Args, environment(t, container, maps))
		for _, volume := range w.pod.Spec.Volumes {
			if volume.ConfigMap != nil && maps[volume.ConfigMap.Name] == nil {
				t.Errorf("%s mounts the ConfigMap %s, which is not here", name, volume.ConfigMap.Name)
			}
		}
	}
	for name, objects := range all {
		for _, object := range objects {
			switch o := object.(type) {
			case *corev1.Secret:
				t.Errorf("%s holds a Secret; it is to be made where the keys are", name)
			case *policyv1.PodDisruptionBudget:
				wantSelected(t, "budget of "+o.Name, o.Spec.Selector, running[o.Name].pod.Labels)
			case *corev1.Service:
				pod := running[o.Name].pod
				wantSelected(t, "service "+o.Name, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}, pod.Labels)
				for _, port := range o.Spec.Ports {
					if to := port.TargetPort.StrVal; !hasPort(pod.Spec.Containers[0], to) {
						t.Errorf("service %s leads to port %s, which nobody opens", o.Name, to)
					}
				}
			}
		}
	}

	worker := running["worker"].pod.Spec
	wantGrace(t, maps["evalfleet"].Data["fleet.yaml"], worker.Containers[0].Args, time.Duration(*worker.TerminationGracePeriodSeconds)*time.Second)
	for _, name := range []string{"worker", "controller"} {
		probes := running[name].pod.Spec.Containers[0]
		if live := probes.LivenessProbe; live == nil || live.HTTPGet == nil || live.HTTPGet.Path != "/healthz" || !hasPort(probes, live.HTTPGet.Port.StrVal) {
			t.Errorf("%s: liveness is %+v, want /healthz, which asks no Redis", name, live)
		}
		if ready := probes.ReadinessProbe; ready == nil || ready.HTTPGet == nil || ready.HTTPGet.Path != "/readyz" || !hasPort(probes, ready.HTTPGet.Port.StrVal) {
			t.Errorf("%s: readiness is %+v, want /readyz", name, ready)
		}
	}
	if !slices.ContainsFunc(worker.Containers[0].EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil }) {
		t.Error("worker: its keys come from no Secret")
	}

	redis := running["redis"]
	options := strings.Join(redis.pod.Spec.Containers[0].Args, " ")
	for _, option := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(options, option) {
			t.Errorf("redis runs without %s: %s", option, options)
		}
	}
	if set, ok := redis.object.(*appsv1.StatefulSet); !ok || len(set.Spec.VolumeClaimTemplates) == 0 {
		t.Error("redis wants a volume of its own")
	}
	if d, ok := running["controller"].object.(*appsv1.Deployment); !ok || *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Error("controller: want one, and never two that want its volume")
	}
	wantResultsKept(t, running["controller"])

	files := map[string]string{"fleet.yaml": maps["evalfleet"].Data["fleet.yaml"]}
	for name, text := range maps["evaluation"].Data {
		files[name] = text
	}
	wantValid(t, files)
}

// wantResultsKept: a pod writes its results onto a volume that it may write, in its
// working directory.
func wantResultsKept(t *testing.T, w workload) {
	t.Helper()
	container := w.pod.Spec.Containers[0]
	if s := w.pod.Spec.SecurityContext; s == nil || s.FSGroup == nil || *s.FSGroup == 0 {
		t.Errorf("%s: its volume belongs to no group of its own", w.name)
	}
	for _, volume := range w.pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		for _, m := range container.VolumeMounts {
			if m.Name == volume.Name && m.MountPath == container.WorkingDir && !m.ReadOnly {
				return
			}
		}
	}
	t.Errorf("%s: no volume that can be written is its working directory", w.name)
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
	if w.name != "redis" && *s.RunAsUser != 65532 {
		t.Errorf("%s runs as %d, want the image's 65532", w.name, *s.RunAsUser)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s: its pods get a token that they do not need", w.name)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Errorf("%s: services put variables into its environment", w.name)
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
			t.Errorf("%s: container %s is not restricted: %+v", w.name, c.Name, s)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: container %s has no bound of memory", w.name, c.Name)
		}
	}
}

func wantSelected(t *testing.T, what string, selector *metav1.LabelSelector, of map[string]string) {
	t.Helper()
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || selects.Empty() || !selects.Matches(labels.Set(of)) {
		t.Errorf("%s selects %v, %v; want the labels %v", what, selects, err, of)
	}
}

// environment is what a container finds there, from ConfigMaps and its own.
func environment(t *testing.T, c corev1.Container, maps map[string]*corev1.ConfigMap) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef == nil {
			continue
		}
		of, ok := maps[from.ConfigMapRef.Name]
		if !ok {
			t.Errorf("%s reads the ConfigMap %s, which is not here", c.Name, from.ConfigMapRef.Name)
			continue
		}
		for name, value := range of.Data {
			env[name] = value
		}
	}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	return env
}

func hasPort(c corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
}

// kustomization is what of a kustomization.yaml is used here.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

// The kustomization names every manifest but the example job, and an image that
// is used.
func TestKustomization(t *testing.T) {
	t.Parallel()
	var k kustomization
	if err := strict.UnmarshalStrict([]byte(read(t, "deploy/k8s/kustomization.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	var want []string
	for name := range manifests(t) {
		if name != "enqueue.yaml" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	slices.Sort(k.Resources)
	if k.Kind != "Kustomization" || !slices.Equal(k.Resources, want) {
		t.Errorf("resources: got %v, want %v", k.Resources, want)
	}
	for name, w := range workloads(manifests(t)) {
		image := w.pod.Spec.Containers[0].Image
		if strings.HasPrefix(image, "evalfleet") && len(k.Images) == 1 && (image == k.Images[0].Name || name == "enqueue") {
			continue
		}
		if name != "redis" {
			t.Errorf("%s: image %s is not replaced by %v", name, image, k.Images)
		}
	}
}
