package check

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

// cluster is a set of objects as a cluster would have them.
type cluster struct {
	objects   []metav1.Object
	workloads map[string]workload
	maps      map[string]*corev1.ConfigMap
}

// workload is whatever makes pods.
type workload struct {
	name     string
	part     string                // app.kubernetes.io/component
	selector *metav1.LabelSelector // nil: a job's
	pod      corev1.PodTemplateSpec
	object   metav1.Object
}

// container is the pod's own; sidecars come after it.
func (w workload) container() corev1.Container { return w.pod.Spec.Containers[0] }

// flag is the value of one of its arguments.
func (w workload) flag(name string) string { return flagOf(w.container().Args, name) }

// parts are the workloads of a part.
func (c *cluster) parts(part string) (found []workload) {
	for _, w := range c.workloads {
		if w.part == part {
			found = append(found, w)
		}
	}
	return found
}

// fleet is the text of the fleet's file.
func (c *cluster) fleet() string {
	for _, m := range c.maps {
		if text, ok := m.Data["fleet.yaml"]; ok {
			return text
		}
	}
	return ""
}

// all are the objects of a type.
func all[T metav1.Object](c *cluster) (found []T) {
	for _, object := range c.objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// decoded reads files strictly: unknown, misspelt and duplicate fields are errors.
func decoded(t *testing.T, files map[string]string) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	c := &cluster{workloads: map[string]workload{}, maps: map[string]*corev1.ConfigMap{}}
	for name, text := range files {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			c.add(t, name, document, decoder)
		}
	}
	return c
}

func (c *cluster) add(t *testing.T, file string, document []byte, decoder runtime.Decoder) {
	t.Helper()
	var bare map[string]any
	if err := strict.UnmarshalStrict(document, &bare); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(bare) == 0 {
		return // a comment by itself
	}
	if bare["kind"] == "ScaledObject" {
		if err := scaledObjects(t).Validate(any(bare)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		c.objects = append(c.objects, &unstructured.Unstructured{Object: bare})
		return
	}
	object, _, err := decoder.Decode(document, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v\n%s", file, err, document)
	}
	named := object.(metav1.Object)
	c.objects = append(c.objects, named)
	w := workload{name: named.GetName(), part: named.GetLabels()["app.kubernetes.io/component"], object: named}
	switch o := object.(type) {
	case *appsv1.Deployment:
		w.selector, w.pod = o.Spec.Selector, o.Spec.Template
	case *appsv1.StatefulSet:
		w.selector, w.pod = o.Spec.Selector, o.Spec.Template
	case *batchv1.Job:
		w.pod = o.Spec.Template
	case *corev1.Pod:
		w.pod = corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	case *corev1.ConfigMap:
		c.maps[o.Name] = o
		return
	default:
		return
	}
	c.workloads[w.name] = w
}

// wantFleet checks what makes a set of objects a fleet that works and loses nothing.
func wantFleet(t *testing.T, c *cluster) {
	t.Helper()
	seen := map[string]bool{}
	for _, object := range c.objects {
		kind := strings.TrimPrefix(strings.ToLower(fmt.Sprintf("%T", object)), "*v1.")
		if id := kind + " " + object.GetName(); seen[id] {
			t.Errorf("%s is there twice", id)
		} else {
			seen[id] = true
		}
		if object.GetNamespace() != "" {
			t.Errorf("%s %s names the namespace %s, want whatever is current", kind, object.GetName(), object.GetNamespace())
		}
	}
	for _, secret := range all[*corev1.Secret](c) {
		if part := secret.Labels["app.kubernetes.io/component"]; part != "redis" {
			t.Errorf("the Secret %s is made; only the password of Redis is, and keys are to be made where they are", secret.Name)
		}
	}
	for _, w := range c.workloads {
		wantRestricted(t, w)
		wantReferences(t, c, w)
		if w.selector != nil {
			wantSelected(t, w.name, w.selector, w.pod.Labels)
		}
		for _, redis := range c.parts("redis") {
			if got, want := environment(w)["EVALFLEET_REDIS_PASSWORD"], "secret "+secretOfRedis(redis).SecretName; w.part != "redis" && got != want {
				t.Errorf("%s gives Redis the password of %q, want %q", w.name, got, want)
			}
		}
		switch w.part {
		case "redis":
			wantRedis(t, w)
		case "worker", "controller":
			wantCommand(t, w.container().Args, environment(w))
			wantProbes(t, w)
		case "test":
			wantCommand(t, w.container().Args, environment(w))
		case "enqueue":
			wantCommand(t, w.container().Args, environment(w))
			wantEvaluation(t, c, w)
		default:
			t.Errorf("%s is a %q", w.name, w.part)
		}
	}
	wantWorkers(t, c)
	wantController(t, c)
	wantOthers(t, c)
	wantScaling(t, c)
	wantPolicies(t, c)
}

// wantWorkers: the longest call fits into --grace, and that into the time until the
// kill; keys come from a Secret; pods are evicted a few at a time.
func wantWorkers(t *testing.T, c *cluster) {
	t.Helper()
	workers := c.parts("worker")
	if len(workers) == 0 {
		t.Fatal("no worker")
	}
	for _, w := range workers {
		killed := seconds(w.pod.Spec.TerminationGracePeriodSeconds)
		// A pool on spot nodes stops within their notice, and cuts longer calls off.
		if grace, err := time.ParseDuration(w.flag("grace")); w.pod.Labels["evalfleet/pool"] == "spot" && err == nil {
			if killed != grace+45*time.Second {
				t.Errorf("%s: --grace is %s, and its pods are killed after %s; want 45 s more", w.name, grace, killed)
			}
		} else {
			wantGrace(t, c.fleet(), w.container().Args, killed)
		}
		if !slices.ContainsFunc(w.container().EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil }) {
			t.Errorf("%s: its keys come from no Secret", w.name)
		}
		budgets := 0
		for _, budget := range all[*policyv1.PodDisruptionBudget](c) {
			if selects(t, budget.Spec.Selector, w.pod.Labels) {
				budgets++
			}
			if budget.Spec.MaxUnavailable == nil || budget.Spec.MinAvailable != nil {
				t.Errorf("budget %s: want maxUnavailable alone: with no worker up a node could not be drained", budget.Name)
			}
		}
		if budgets != 1 {
			t.Errorf("%s has %d disruption budgets, want 1: with two, nothing can be evicted", w.name, budgets)
		}
		for _, other := range workers {
			if other.name != w.name && selects(t, w.selector, other.pod.Labels) {
				t.Errorf("%s selects pods of %s", w.name, other.name)
			}
		}
	}
}

// wantController: results stay, and a results folder has one owner.
func wantController(t *testing.T, c *cluster) {
	t.Helper()
	found := c.parts("controller")
	if len(found) != 1 {
		t.Fatalf("%d controllers, want 1", len(found))
	}
	w := found[0]
	d := w.object.(*appsv1.Deployment)
	if *d.Spec.Replicas > 1 {
		if len(w.pod.Spec.TopologySpreadConstraints) == 0 {
			t.Error("controller: nothing spreads its pods over nodes")
		}
		if !slices.ContainsFunc(all[*policyv1.PodDisruptionBudget](c), func(b *policyv1.PodDisruptionBudget) bool {
			return selects(t, b.Spec.Selector, w.pod.Labels)
		}) {
			t.Error("controller: no disruption budget, so that a drain may evict all its pods at once")
		}
	}
	kept := slices.ContainsFunc(w.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	if kept && (*d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType) {
		t.Error("controller: want one, and never two that want its volume")
	}
	if !kept && d.Spec.Strategy.RollingUpdate == nil {
		t.Error("controller: its strategy is left to the default, which server-side apply does not remove on the way back to Recreate")
	}
	if !kept && !strings.Contains(c.fleet(), "\nsink: postgres") {
		t.Errorf("controller: results are kept neither on a volume nor in a database: %s", c.fleet())
	}
	if s := w.pod.Spec.SecurityContext; s.FSGroup == nil || *s.FSGroup == 0 {
		t.Error("controller: its volume belongs to no group of its own")
	}
	for _, volume := range w.pod.Spec.Volumes {
		if volume.Name != "results" {
			continue
		}
		if !slices.ContainsFunc(w.container().VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == volume.Name && m.MountPath == w.container().WorkingDir && !m.ReadOnly
		}) {
			t.Error("controller: no volume that can be written is its working directory")
		}
	}
}

// wantOthers: services and monitors lead to ports that are open.
func wantOthers(t *testing.T, c *cluster) {
	t.Helper()
	for _, service := range all[*corev1.Service](c) {
		leads := false
		for _, w := range c.workloads {
			if !selects(t, &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, w.pod.Labels) {
				continue
			}
			leads = true
			for _, port := range service.Spec.Ports {
				if to := port.TargetPort.StrVal; !hasPort(w.container(), to) {
					t.Errorf("service %s leads to port %s of %s, which no container opens", service.Name, to, w.name)
				}
			}
		}
		if !leads {
			t.Errorf("service %s leads to no pod", service.Name)
		}
	}
	for _, monitor := range all[*monitoringv1.PodMonitor](c) {
		for _, w := range c.parts("worker") {
			if !selects(t, &monitor.Spec.Selector, w.pod.Labels) || !hasPort(w.container(), *monitor.Spec.PodMetricsEndpoints[0].Port) {
				t.Errorf("pod monitor %s does not find %s", monitor.Name, w.name)
			}
		}
	}
	for _, monitor := range all[*monitoringv1.ServiceMonitor](c) {
		if !slices.ContainsFunc(all[*corev1.Service](c), func(s *corev1.Service) bool {
			return selects(t, &monitor.Spec.Selector, s.Labels) && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
				return p.Name == monitor.Spec.Endpoints[0].Port
			})
		}) {
			t.Errorf("service monitor %s finds no service", monitor.Name)
		}
	}
	for _, ingress := range all[*networkingv1.Ingress](c) {
		to := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		if !slices.ContainsFunc(all[*corev1.Service](c), func(s *corev1.Service) bool {
			return s.Name == to.Name && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == to.Port.Name })
		}) {
			t.Errorf("ingress %s leads to %+v, which is not there", ingress.Name, to)
		}
	}
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	by, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return !by.Empty() && by.Matches(labels.Set(of))
}

func wantSelected(t *testing.T, what string, selector *metav1.LabelSelector, of map[string]string) {
	t.Helper()
	if !selects(t, selector, of) {
		t.Errorf("%s selects %v; want the labels %v", what, selector, of)
	}
}

func hasPort(c corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
}
